"""A MongoDB server, which is a replica set of one, and the databases that tests have on it."""

import itertools
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import PyMongoError

from tests.servers.installs import Install
from tests.servers.kept import within_reach
from tests.servers.server import Server

USER = "duetime"
_OPLOG_MB = 256


class Secrets(NamedTuple):
    """What the members of a replica set share."""

    password: str
    key: str

    @classmethod
    def new(cls) -> "Secrets":
        return cls(secrets.token_urlsafe(16), secrets.token_hex(32))


class MongodbServer(Server):
    """A mongod with a password, which acknowledges what is in its journal.

    With the secrets of others it is a member of their set, which somebody else makes one.
    """

    name = "mongodb"

    def __init__(
        self,
        install: Install,
        *,
        cache_gb: float = 0.25,
        settings: Mapping[str, str] | None = None,
        within: Path | None = None,
        shared: Secrets | None = None,
    ) -> None:
        self.password, self._secret = shared or Secrets.new()
        self._is_alone = shared is None
        self.version = install.run("mongod", "--version").split()[2].removeprefix("v")
        self._install = install
        self._cache_gb = cache_gb
        self._settings = {
            "diagnosticDataCollectionEnabled": "false",
            "ttlMonitorEnabled": "false",
            **(settings or {}),
        }
        self._is_initiated = False
        super().__init__(within=within)

    def url(self, database: str = "duetime", **query: str) -> str:
        """Where to reach it as its superuser."""
        # Named directly, it is found without waiting for a primary; its name is not looked up.
        options = urlencode({"authSource": "admin", "replicaSet": "rs", **query})
        return f"mongodb://{USER}:{self.password}@127.0.0.1:{self.port}/{database}?{options}"

    def command(self) -> list[str | Path]:
        settings = [f"--setParameter={name}={value}" for name, value in self._settings.items()]
        return [
            self._install.program("mongod"),
            f"--dbpath={self._data}",
            f"--port={self.port}",
            "--bind_ip=127.0.0.1",
            "--nounixsocket",
            "--replSet=rs",
            f"--keyFile={self._key}",
            f"--oplogSize={_OPLOG_MB}",
            f"--wiredTigerCacheSizeGB={self._cache_gb}",
            *settings,
        ]

    def environment(self) -> dict[str, str]:
        return self._install.environment

    def start(self) -> None:
        """Start it, and return once it takes writes."""
        super().start()
        if self._is_alone and not self._is_initiated:
            self._initiate()
            self._is_initiated = True
            self._running().wait_until(self.is_ready, self.starts_within)

    def is_ready(self) -> bool:
        """Tell whether it takes writes; or, before its first use and among others, connections."""
        if not super().is_ready():
            return False
        answer = self.hello()
        if answer is None:
            return False
        return bool(answer["isWritablePrimary"]) or not self._is_initiated

    def hello(self) -> dict[str, Any] | None:
        """What it says of itself, if it says anything."""
        try:
            with self.client() as client:
                return client.admin.command("hello")
        except PyMongoError:
            return None

    def set_up(self) -> None:
        self._install = within_reach(self._install, "mongod", self._account, self.folder)
        self._data.mkdir()
        self._key.touch(mode=0o600)
        self._key.write_text(self._secret)
        self._account.own(self._data, self._key)

    def _initiate(self) -> None:
        """Make the replica set and its user, which who is on the same machine may do once."""
        settings = {"electionTimeoutMillis": 500, "heartbeatIntervalMillis": 200}
        with self.client() as client:
            client.admin.command("replSetInitiate", configuration([self], settings))
            self._running().wait_until(
                lambda: client.admin.command("hello")["isWritablePrimary"], self.starts_within
            )
            client.admin.command("createUser", USER, pwd=self.password, roles=["root"])

    def client(self) -> "MongoClient[dict[str, Any]]":
        """A client that asks this one server, whatever state it is in."""
        return MongoClient(
            "127.0.0.1", self.port, directConnection=True, serverSelectionTimeoutMS=2_000
        )

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _key(self) -> Path:
        return self.folder / "key"


def configuration(members: Sequence[MongodbServer], settings: Mapping[str, int]) -> dict[str, Any]:
    """What makes servers a replica set."""
    hosts = [
        {"_id": number, "host": f"127.0.0.1:{member.port}"} for number, member in enumerate(members)
    ]
    return {"_id": "rs", "members": hosts, "settings": settings}


# Databases that no test uses just now, by server. To make collections and their indexes takes half
# a second, to empty them next to nothing.
_free: dict[str, list[str]] = {}
# What was made stays made; and news are never old, nor can any be taken out.
_KEPT = {"schema_history", "news"}
_numbers = itertools.count(1)


async def make_database(url: str) -> str:
    """An empty database on a server: the URL of a store in it.

    Its collections may be there from an earlier test of this process, with nothing in them.
    """
    free = _free.setdefault(url, [])
    return free.pop() if free else _named(url, f"test_{os.getpid()}_{next(_numbers)}")


async def drop_database(url: str) -> None:
    """Empty what ``make_database`` made, for the next one."""
    client: AsyncMongoClient[dict[str, object]] = AsyncMongoClient(url)
    async with client:
        database = client.get_default_database()
        for name in await database.list_collection_names():
            if name not in _KEPT:
                await database[name].delete_many({})
    server = _named(url, "duetime")
    _free.setdefault(server, []).append(url)


def _named(url: str, database: str) -> str:
    """The URL of another database of the same server."""
    address, _, options = url.partition("?")
    return f"{address.rpartition('/')[0]}/{database}?{options}"
