"""A Cassandra server, and the keyspaces that tests have on it."""

import asyncio
import functools
import shutil
import uuid
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import cassandra.cluster
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import (
    EXEC_PROFILE_DEFAULT,
    Cluster,
    ExecutionProfile,
    NoHostAvailable,
)
from cassandra.policies import ConstantReconnectionPolicy, RoundRobinPolicy
from cassandra.query import tuple_factory

from tests.ports import free_port
from tests.servers.java import JavaInstall
from tests.servers.pool import Pool
from tests.servers.server import Server

VERSION = "5.0.5"
# The superuser that Cassandra makes by itself, where it asks for passwords.
USER = PASSWORD = "cassandra"

# A thread of the driver draws a number whenever a schema changes, be it by another process. Drawn
# from the one generator of this process, it would look to Hypothesis as if a strategy had drawn it.
cassandra.cluster.random = Random().random

_MEMORY_DISK = Path("/dev/shm")
_ROOM = 2 * 1024**3  # bytes that must be free on it

# What Cassandra's own jvm17-server.options opens to it.
_OPENED = (
    "java.base/java.io",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)
_EXPORTED = (
    "java.base/java.lang.ref",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
)


def cassandra_5() -> JavaInstall:
    """Cassandra 5.0, from Maven Central."""
    return JavaInstall.fetched(f"org.apache.cassandra:cassandra-all:{VERSION}")


class Place(NamedTuple):
    """A server's place in its cluster."""

    host: str
    port: int
    peers_port: int  # where the servers of a cluster reach each other
    seeds: tuple[str, ...]  # the hosts that whoever comes asks for the others
    token: int  # where its part of the ring ends

    @classmethod
    def alone(cls) -> "Place":
        """That of a cluster of one."""
        return cls("127.0.0.1", free_port(), free_port(), ("127.0.0.1",), 0)


class CassandraServer(Server):
    """A server, alone by default, that acknowledges no write before it is in the commit log.

    Without ``fsync`` that log is on a disk in memory, where there is one: quicker, and it survives
    a crash of the server, but not one of the machine. One that is long-lived is for benchmarks.
    """

    name = "cassandra"
    version = VERSION
    starts_within = 180.0

    def __init__(
        self,
        install: JavaInstall,
        *,
        fsync: bool = False,
        passwords: bool = False,
        is_long_lived: bool = False,
        heap: str = "768M",
        settings: dict[str, str] | None = None,
        place: Place | None = None,
        within: Path | None = None,
    ) -> None:
        self._install = install
        self._has_passwords = passwords
        self._is_long_lived = is_long_lived
        self._heap = heap
        self._settings = settings or {}
        self._place = place or Place.alone()
        self.host = self._place.host
        super().__init__(
            within=within or (None if fsync else _memory_disk()), port=self._place.port
        )

    def url(self, keyspace: str = "", **query: str) -> str:
        """Where to reach it as its superuser."""
        who = f"{USER}:{PASSWORD}@" if self._has_passwords else ""
        address = f"cassandra://{who}{self.host}:{self.port}/{keyspace}"
        return f"{address}?{urlencode(query)}" if query else address

    def set_up(self) -> None:
        self._install = self._install.within_reach(self._account, self.folder)
        for name, text in (
            ("cassandra.yaml", self._configuration()),
            ("logback.xml", _LOGGING),
        ):
            (self.folder / name).write_text(text)

    def command(self) -> list[str | Path]:
        folder, libraries = self.folder, self._install.jars
        [agent] = libraries.glob("jamm-*.jar")
        return [
            self._install.java.program("java"),
            *(f"--add-opens={each}=ALL-UNNAMED" for each in _OPENED),
            *(f"--add-exports={each}=ALL-UNNAMED" for each in _EXPORTED),
            f"-javaagent:{agent}",
            f"-Xms{self._heap}",
            f"-Xmx{self._heap}",
            "-XX:+UseSerialGC",
            "-XX:+ExitOnOutOfMemoryError",
            # A test is over before it would pay to compile well.
            *(() if self._is_long_lived else ("-XX:TieredStopAtLevel=1",)),
            "-XX:-UsePerfData",
            "-Djdk.attach.allowAttachSelf=true",
            "-Dio.netty.tryReflectionSetAccessible=true",
            f"-Djava.io.tmpdir={folder}",
            f"-Dcassandra.config=file://{folder}/cassandra.yaml",
            f"-Dlogback.configurationFile=file://{folder}/logback.xml",
            f"-Dcassandra.storagedir={folder}",
            f"-Dcassandra.logdir={folder}",
            # There are no others to wait for, or they are waited for by whoever starts them.
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
            "-Dcassandra.ring_delay_ms=0",
            "-Dcassandra.superuser_setup_delay_ms=0",
            # What a row takes in memory, it finds out by making a hundred thousand of them: a third
            # of its start. A hundredth of these tells it as well.
            "-Dcassandra.memtable_row_overhead_computation_step=1000",
            "-cp",
            f"{libraries}/*",
            "org.apache.cassandra.service.CassandraDaemon",
        ]

    def environment(self) -> dict[str, str]:
        return self._install.java.environment

    def is_ready(self) -> bool:
        """Tell whether it takes connections; and its superuser, who is made a while later."""
        return super().is_ready() and (not self._has_passwords or self._lets_in())

    def _lets_in(self) -> bool:
        login = PlainTextAuthProvider(USER, PASSWORD)
        with Cluster([self.host], port=self.port, auth_provider=login) as cluster:
            try:
                cluster.connect()
            except NoHostAvailable:
                return False
        return True

    def _configuration(self) -> str:
        host, _, peers_port, seeds, token = self._place
        peers = ",".join(f"{seed}:{peers_port}" for seed in seeds)
        settings = {
            "cluster_name": "duetime",
            "num_tokens": "1",
            "initial_token": str(token),
            "auto_bootstrap": "false",  # whoever comes finds nothing to take over
            "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
            "listen_address": host,
            "rpc_address": host,
            "storage_port": str(peers_port),
            "native_transport_port": str(self.port),
            "endpoint_snitch": "SimpleSnitch",
            "commitlog_sync": "batch",
            "commitlog_segment_size": "32MiB",
            "commitlog_total_space": "2GiB" if self._is_long_lived else "256MiB",
            "data_file_directories": f"[{self.folder}/data]",
            "auto_snapshot": "false",
            # The machine may be busy with other things.
            "read_request_timeout": "8s",
            "range_request_timeout": "8s",
            "write_request_timeout": "8s",
            "cas_contention_timeout": "8s",
            "request_timeout": "8s",
            "memtable_heap_space": "512MiB" if self._is_long_lived else "128MiB",
            "memtable_offheap_space": "64MiB",
            "key_cache_size": "8MiB",
            "file_cache_size": "32MiB",
            "networking_cache_size": "32MiB",
            "concurrent_reads": "16",
            "concurrent_writes": "16",
            "concurrent_compactors": "1",
            "seed_provider": "[{class_name: org.apache.cassandra.locator.SimpleSeedProvider, "
            f'parameters: [{{seeds: "{peers}"}}]}}]',
            **({"authenticator": "PasswordAuthenticator"} if self._has_passwords else {}),
            **self._settings,
        }
        return "".join(f"{name}: {value}\n" for name, value in settings.items())


_LOGGING = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level %date{HH:mm:ss,SSS} %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


def _memory_disk() -> Path | None:
    has_room = _MEMORY_DISK.is_dir() and shutil.disk_usage(_MEMORY_DISK).free > _ROOM
    return _MEMORY_DISK if has_room else None


# Keyspaces ------------------------------------------------------------------------------------

# Changing the schema takes a tenth of a second for each table.
_pool = Pool()


async def make_keyspace(url: str) -> str:
    """An empty keyspace on a server: the URL of a store in it."""
    return _pool.lend(url) or f"{url}test_{uuid.uuid4().hex}"


async def drop_keyspace(url: str) -> None:
    """Empty what ``make_keyspace`` made, for the next one."""
    server, _, name = url.rpartition("/")
    server += "/"
    await asyncio.to_thread(_empty, administrator(server), name)
    _pool.take_back(server, url)


def _empty(session: Any, keyspace: str) -> None:
    tables = session.execute(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s", [keyspace]
    )
    for (table,) in tables:
        is_data = table != "schema_history"
        if is_data and session.execute(f"SELECT * FROM {keyspace}.{table} LIMIT 1").one():
            session.execute(f"TRUNCATE {keyspace}.{table}")


@functools.cache
def administrator(url: str) -> Any:
    """A session of somebody who may do everything, kept as long as the process."""
    parts = urlsplit(url)
    login = PlainTextAuthProvider(parts.username, parts.password) if parts.username else None
    cluster = Cluster(
        [parts.hostname],
        port=parts.port,
        auth_provider=login,
        protocol_version=5,
        reconnection_policy=ConstantReconnectionPolicy(0.5, max_attempts=None),
        execution_profiles={
            EXEC_PROFILE_DEFAULT: ExecutionProfile(RoundRobinPolicy(), row_factory=tuple_factory)
        },
    )
    return cluster.connect()
