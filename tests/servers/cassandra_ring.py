"""A ring: three Cassandra servers that are one cluster, each with an address of its own."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Self
from urllib.parse import urlencode

from cassandra import ConsistencyLevel, DriverException
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.policies import WhiteListRoundRobinPolicy
from cassandra.query import SimpleStatement, tuple_factory

from tests.ports import free_port
from tests.servers.cassandra import CassandraServer, Place
from tests.servers.java import JavaInstall

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
SETTLES_WITHIN = 120.0  # seconds

_HEAP = "384M"
_TOKENS = 2**64
# Something that there are three copies of on every cluster.
_QUESTION = (
    "SELECT parent_id FROM system_distributed.parent_repair_history "
    "WHERE parent_id = 00000000-0000-1000-8000-000000000000"
)
_LEVELS = (None, ConsistencyLevel.ONE, ConsistencyLevel.TWO, ConsistencyLevel.THREE)


class CassandraRing:
    """Servers at 127.0.0.1, 127.0.0.2 and so on, or where somebody says, with the same ports.

    Nobody keeps writes for one that is away: what it missed, it has missed until somebody asks.
    """

    def __init__(
        self, install: JavaInstall, *, hosts: tuple[str, ...] = HOSTS, **settings: str
    ) -> None:
        port, peers_port = free_port(), free_port()
        settings = {"hinted_handoff_enabled": "false", **settings}
        self.servers: list[CassandraServer] = []
        try:
            for n, host in enumerate(hosts):
                token = n * _TOKENS // len(hosts) - _TOKENS // 2
                place = Place(host, port, peers_port, hosts, token)
                self.servers.append(
                    CassandraServer(install, place=place, heap=_HEAP, settings=settings)
                )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start all of them: the first one before the others, who find it then."""
        first, *others = self.servers
        first.start()
        with ThreadPoolExecutor(len(others)) as threads:
            list(threads.map(CassandraServer.start, others))
        self.settle()

    def restore(self) -> None:
        """Start those that were ended, resume those that were paused, and let them all meet."""
        for server in self.servers:
            if server.is_running:
                server.resume()
            else:
                server.start()
        self.settle()

    def settle(self) -> None:
        """Return once each server that runs reaches all the others that do."""
        running = [server for server in self.servers if server.is_running]
        give_up_at = time.monotonic() + SETTLES_WITHIN
        for server in running:
            while not _reaches(server, len(running)):
                assert time.monotonic() < give_up_at, f"{server.host} does not find the others"
                time.sleep(0.1)

    def url(self, keyspace: str = "", **query: str) -> str:
        """Where to reach it."""
        hosts = ",".join(f"{server.host}:{server.port}" for server in self.servers)
        address = f"cassandra://{hosts}/{keyspace}"
        return f"{address}?{urlencode(query)}" if query else address

    def close(self) -> None:
        """End all of them at once, and remove their data."""
        for server in self.servers:
            server.close()


def _reaches(server: CassandraServer, count: int) -> bool:
    """Tell whether so many answer a question that a server passes on, itself among them."""
    question = SimpleStatement(_QUESTION, consistency_level=_LEVELS[count])
    with only(server) as cluster, suppress(NoHostAvailable, DriverException):
        cluster.connect().execute(question)
        return True
    return False


def only(server: CassandraServer) -> Cluster:
    """The driver, which asks this server alone."""
    profile = ExecutionProfile(WhiteListRoundRobinPolicy([server.host]), row_factory=tuple_factory)
    return Cluster(
        [server.host],
        port=server.port,
        protocol_version=5,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
    )
