"""MongoDB: a database is one of its own on a server."""

import asyncio
import time
from collections.abc import Callable
from itertools import islice
from typing import ClassVar

from bench.aims import Aims
from bench.backlog import far_timers
from bench.databases import Extent, Way
from bench.databases.served import ServedDatabases
from bench.sizes import Sizes
from duetime.stores import Insert
from duetime.stores.mongodb.address import Address
from duetime.stores.mongodb.connection import Client, connect, database_of
from duetime.stores.mongodb.documents import to_document
from duetime.stores.mongodb.errors import translated
from duetime.stores.mongodb.traits import TRAITS
from duetime.timer import Status

AT_ONCE = 5_000


class MongodbDatabase:
    """One database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._address = Address.parse(url)

    async def count(self, *statuses: Status) -> int:
        wanted = {"status": {"$in": [status.value for status in statuses]}} if statuses else {}
        async with connect(self._address) as client:
            timers = database_of(client, self._address)["timers"]
            return await timers.count_documents(wanted)

    async def fill(self, count: int, on_progress: Callable[[int], None]) -> None:
        timers = far_timers(count)
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


# The bare driver ------------------------------------------------------------------------------


def _bare(url: str, count: int, size: int) -> float:
    """``insert_many``, as one would write it by hand, on one connection."""
    return asyncio.run(_insert(Address.parse(url), count, size))


async def _insert(address: Address, count: int, size: int) -> float:
    documents = [to_document(Insert(timer)) for timer in far_timers(count)]
    async with connect(address) as client:
        timers = database_of(client, address)["timers"]
        await timers.find_one()  # connected
        started = time.perf_counter()
        for at in range(0, count, size):
            await timers.insert_many(documents[at : at + size], ordered=False)
        seconds = time.perf_counter() - started
    return count / seconds


WAYS: dict[str, Way] = {"bare pymongo, insert_many": _bare}


class MongodbDatabases(ServedDatabases):
    """Databases on a server."""

    kind = "mongodb"
    aims = Aims(batches=0.5)
    sizes = Sizes(turns=5)
    num_shards = TRAITS.num_shards
    bare_ways = tuple(WAYS)
    database = MongodbDatabase
    server = "mongodb"
    server_options: ClassVar = {"cache_gb": 1}

    async def _describe(self) -> dict[str, str]:
        with translated():
            async with connect(Address.parse(self._url)) as client:
                version = (await client.server_info())["version"]
                told = await client.admin.command("serverStatus")
        cache = told["wiredTiger"]["cache"]["maximum bytes configured"] / 2**30
        return {"mongodb": f"{version}, w=majority, synchronous journal, cache={cache:.2g} GB"}

    def _url_of(self, name: str) -> str:
        place, _, options = self._url.partition("?")
        return f"{place.rpartition('/')[0]}/{name}?{options}"

    async def settle(self, url: str) -> None:
        async with connect(Address.parse(url)) as client:
            await _checkpoint(client)

    async def _drop(self, url: str) -> None:
        address = Address.parse(url)
        async with connect(address) as client:
            await client.drop_database(address.database)


async def _checkpoint(client: Client) -> None:
    """Let the disk catch up with what came before."""
    await client.admin.command("fsync")
