"""MongoDB: a database is one of its own on a server."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import islice

from bench.aims import AIMS
from bench.backlog import far_timers
from bench.databases import BareInsert, Database, Extent
from bench.usage import tree_cpu_seconds
from duetime.model import Status
from duetime.stores import Insert
from duetime.stores.mongodb.address import Address
from duetime.stores.mongodb.connection import Client, connect, database_of
from duetime.stores.mongodb.documents import to_document
from duetime.stores.mongodb.errors import translated
from duetime.stores.mongodb.store import MongodbStore
from duetime.stores.mongodb.traits import TRAITS

AT_ONCE = 5_000


class MongodbDatabase:
    """One database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._address = Address.parse(url)

    def bare_insert(self, way: str) -> BareInsert:
        assert way in MongodbDatabases.bare_ways
        return BareInsert(("-m", "bench.bare_mongodb"), {"DATABASE_URL": self.url})

    async def count(self, *statuses: Status) -> int:
        wanted = {"status": {"$in": [status.value for status in statuses]}} if statuses else {}
        async with connect(self._address) as client:
            timers = database_of(client, self._address)["timers"]
            return await timers.count_documents(wanted)

    async def fill(self, count: int, on_progress: Callable[[int], None]) -> None:
        timers = far_timers(count, sink_port=9)
        async with connect(self._address) as client:
            collection = database_of(client, self._address)["timers"]
            for done in range(0, count, AT_ONCE):
                some = [to_document(Insert(timer)) for timer in islice(timers, AT_ONCE)]
                await collection.insert_many(some, ordered=False)
                on_progress(done + len(some))
            await _checkpoint(client)

    async def extent(self) -> Extent:
        async with connect(self._address) as client:
            told = await database_of(client, self._address).command("dbStats")
        return Extent(table_mb=told["storageSize"] / 1e6, index_mb=told["indexSize"] / 1e6)


class MongodbDatabases:
    """Databases on a server.

    ``pid`` is the server's process, if it runs on this machine and is known.
    """

    kind = "mongodb"
    aims = AIMS[kind]
    num_shards = TRAITS.num_shards
    bare_ways = ("bare pymongo, insert_many",)
    can_be_shared = True

    def __init__(self, url: str, *, pid: int | None = None, disk: str = "") -> None:
        self._url = url
        self._pid = pid
        self._disk = disk
        self.is_metered = pid is not None

    async def describe(self) -> dict[str, str]:
        with translated():
            async with connect(Address.parse(self._url)) as client:
                version = (await client.server_info())["version"]
                told = await client.admin.command("serverStatus")
        cache = told["wiredTiger"]["cache"]["maximum bytes configured"] / 2**30
        disk = {"disk": self._disk} if self._disk else {}
        return {
            "mongodb": f"{version}, w=majority, synchronous journal, cache={cache:.2g} GB",
            **disk,
        }

    def cpu_seconds(self) -> float | None:
        return None if self._pid is None else tree_cpu_seconds(self._pid)

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Database]:
        place, _, options = self._url.partition("?")
        url = f"{place.rpartition('/')[0]}/bench_{secrets.token_hex(8)}?{options}"
        address = Address.parse(url)
        try:
            store = MongodbStore(address)
            await store.migrate()
            await store.close()
            async with connect(address) as client:
                await _checkpoint(client)
            yield MongodbDatabase(url)
        finally:
            async with connect(address) as client:
                await client.drop_database(address.database)


async def _checkpoint(client: Client) -> None:
    """Let the disk catch up with what came before."""
    await client.admin.command("fsync")
