"""A MongoDB replica set of three: it goes on when one of them dies or hangs."""

import re
import time
from urllib.parse import urlencode

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.servers.install import Install
from tests.servers.kept import PATIENCE
from tests.servers.mongodb import USER, MongodbServer, Secrets, configuration

MEMBERS = 3

# Milliseconds. A primary that is silent for so long is replaced: a fifth of what is usual.
_SETTINGS = {"electionTimeoutMillis": 2_000, "heartbeatIntervalMillis": 500}

# Seconds. To take something back takes one or two.
_STUCK_AFTER = 20.0

_OF_THE_SET = re.compile(r'"c":"(REPL|ELECTION|ROLLBACK|CONTROL)')


class MongodbSet:
    """Three servers that hold the same; the one that they elect takes the writes."""

    def __init__(self, install: Install) -> None:
        shared = Secrets.new()
        # So that a test can keep a primary from stepping down.
        settings = {"enableTestCommands": "1"}
        self.members = [
            MongodbServer(install, shared=shared, settings=settings) for _ in range(MEMBERS)
        ]
        self._password = shared.password

    def start(self) -> None:
        """Start all of them, and return once they are a set with a user."""
        for member in self.members:
            member.start()
        with self.members[0].client() as client:
            client.admin.command("replSetInitiate", configuration(self.members, _SETTINGS))
        with self.primary().client() as client:
            client.admin.command("createUser", USER, pwd=self._password, roles=["root"])
        self.complete()

    def url(self, database: str = "duetime", **query: str) -> str:
        """Where to reach it, as a user who may do everything."""
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in self.members)
        options = urlencode({"authSource": "admin", "replicaSet": "rs", **query})
        return f"mongodb://{USER}:{self._password}@{hosts}/{database}?{options}"

    def primary(self, *, besides: MongodbServer | None = None) -> MongodbServer:
        """Wait for a primary; ``besides`` is one that died or hangs, and is not asked."""
        give_up_at = time.monotonic() + PATIENCE
        while time.monotonic() < give_up_at:
            for member in self.members:
                if member is not besides and (member.hello() or {}).get("isWritablePrimary"):
                    return member
            time.sleep(0.02)
        raise RuntimeError(f"no primary after {PATIENCE:.0f} s:\n{self._logged()}")

    def complete(self) -> None:
        """Wait until all of them have what one writes now.

        One that comes back may say that it follows, and only then find out that it has something to
        take back. Until that is done it cannot vote, and the other two are needed. MongoDB 6.0.5
        sometimes never gets done with it: it stands at "Rolling back to the stable timestamp", and
        holds up all else. Then it is killed and started once more, as one would do by hand.
        """
        give_up_at, stuck_at = time.monotonic() + PATIENCE, time.monotonic() + _STUCK_AFTER
        while not self._has_all():
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"not complete after {PATIENCE:.0f} s:\n{self._logged()}")
            if time.monotonic() > stuck_at:
                self._restart_stuck()
                stuck_at = time.monotonic() + _STUCK_AFTER

    def _restart_stuck(self) -> None:
        for member in self.members:
            answer = member.hello() or {}
            if not (answer.get("isWritablePrimary") or answer.get("secondary")):
                member.crash()
                member.start()

    def _has_all(self) -> bool:
        url = self.url(w=str(MEMBERS), wtimeoutMS="2000")
        client: MongoClient[dict[str, object]] = MongoClient(url)
        try:
            with client:
                client["marks"]["marks"].insert_one({})
        except PyMongoError:
            return False
        return True

    def _logged(self) -> str:
        """What the members say, and the last that each has logged of the set."""
        parts = []
        for member in self.members:
            log = (member.folder / "server.log").read_text(errors="replace")
            lines = [line for line in log.splitlines() if _OF_THE_SET.search(line)]
            parts.append("\n".join([str(member.hello()), *lines[-20:]]))
        return "\n\n".join(parts)

    def close(self) -> None:
        """End all of them at once, and remove their data."""
        for member in self.members:
            member.close()
