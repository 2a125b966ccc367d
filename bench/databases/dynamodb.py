"""DynamoDB: a database is a table of its own."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import ClassVar
from urllib.parse import urlsplit

import uvloop

from bench.aims import Aims
from bench.backlog import far_timers
from bench.databases import Extent, Way
from bench.databases.served import ServedDatabases
from bench.sizes import Sizes
from duetime import ids
from duetime.stores.dynamodb import batches
from duetime.stores.dynamodb.address import Address
from duetime.stores.dynamodb.calls import Calls, Item
from duetime.stores.dynamodb.errors import Refused
from duetime.stores.dynamodb.items import new_item, text
from duetime.stores.dynamodb.keys import partition_of
from duetime.stores.dynamodb.pages import pages
from duetime.stores.dynamodb.shards import Shards
from duetime.stores.dynamodb.traits import TRAITS
from duetime.stores.dynamodb.wire import Wire
from duetime.timer import Status

AT_ONCE = 1_000
_IN_A_BATCH = 25
WITHIN = 60.0


class DynamoTable:
    """One table."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._address = Address.parse(url)

    async def count(self, *statuses: Status) -> int:
        wanted = {f":{status.value}": text(status.value) for status in statuses or tuple(Status)}
        found = 0
        async with _calling(self._address) as calls:
            # By shards, and so many at once: DynamoDB Local sorts the whole table for each page of
            # a scan, and reads a whole shard for a page without an end.
            for shard in await Shards(calls).in_use(ids.ALL_SHARDS):
                query = {
                    "KeyConditionExpression": "pk = :pk",
                    "FilterExpression": f"s IN ({', '.join(wanted)})",
                    "ProjectionExpression": "sk",
                    "ExpressionAttributeValues": {":pk": text(partition_of(shard)), **wanted},
                }
                async for page in pages(calls, AT_ONCE, **query):
                    found += len(page)
        return found

    async def fill(self, count: int, on_progress: Callable[[int], None]) -> None:
        """Write the items that the store would write, without its conditions: that is quicker."""
        timers = far_timers(count)
        async with _calling(self._address) as calls:
            shards = Shards(calls)
            for done in range(0, count, AT_ONCE):
                part = list(islice(timers, AT_ONCE))
                await shards.add(timer.shard for timer in part)
                await batches.put(calls, map(new_item, part))
                on_progress(done + len(part))

    async def extent(self) -> Extent:
        async with _connected(self._address) as wire:
            answer = await wire.call("DescribeTable", {"TableName": self._address.table}, WITHIN)
        [index] = answer["Table"]["LocalSecondaryIndexes"]
        return Extent(
            table_mb=answer["Table"]["TableSizeBytes"] / 1e6,
            index_mb=index["IndexSizeBytes"] / 1e6,
        )


# The bare driver ------------------------------------------------------------------------------

Insert = Callable[[Wire, str, Sequence[Item]], Awaitable[object]]


async def _put(wire: Wire, table: str, rows: Sequence[Item]) -> None:
    await asyncio.gather(
        *(
            wire.call(
                "PutItem",
                {
                    "TableName": table,
                    "Item": row,
                    "ConditionExpression": "attribute_not_exists(pk)",
                },
                WITHIN,
            )
            for row in rows
        )
    )


async def _batch(wire: Wire, table: str, rows: Sequence[Item]) -> None:
    requests = [{"PutRequest": {"Item": row}} for row in rows]
    await asyncio.gather(
        *(
            wire.call(
                "BatchWriteItem", {"RequestItems": {table: requests[at : at + _IN_A_BATCH]}}, WITHIN
            )
            for at in range(0, len(requests), _IN_A_BATCH)
        )
    )


async def _insert(insert: Insert, address: Address, count: int, size: int) -> float:
    """Insert so many timers, and tell how fast that was."""
    rows = [new_item(timer) for timer in far_timers(count)]
    wire = Wire(address, address.pool_size)
    started = time.perf_counter()
    for at in range(0, count, size):
        await insert(wire, address.table, rows[at : at + size])
    seconds = time.perf_counter() - started
    await wire.close()
    return count / seconds


def _way(insert: Insert) -> Way:
    def run(url: str, count: int, size: int) -> float:
        return uvloop.run(_insert(insert, Address.parse(url), count, size))

    return run


WAYS: dict[str, Way] = {
    # Under the condition that the key is free, so many at once as the store has connections.
    "bare PutItem, conditional": _way(_put),
    # It knows no conditions, and overwrites what is there.
    "bare BatchWriteItem": _way(_batch),
}


class DynamoTables(ServedDatabases):
    """Tables of an account, or of DynamoDB Local."""

    kind = "dynamodb"
    aims = Aims(batches=0.5)
    sizes = Sizes(turns=3)
    num_shards = TRAITS.num_shards
    bare_ways = tuple(WAYS)
    database = DynamoTable
    server = "dynamodb"
    server_options: ClassVar = {"is_long_lived": True}

    async def _describe(self) -> dict[str, str]:
        if self._pid is None:
            return {"dynamodb": Address.parse(self._url).region}
        return {"dynamodb": "DynamoDB Local, which waits for no disk"}

    def _url_of(self, name: str) -> str:
        return urlsplit(self._url)._replace(path=f"/{name}").geturl()

    async def _drop(self, url: str) -> None:
        address = Address.parse(url)
        async with _connected(address) as wire:
            with suppress(Refused):  # it may not have been made
                await wire.call("DeleteTable", {"TableName": address.table}, WITHIN)


@asynccontextmanager
async def _calling(address: Address) -> AsyncIterator[Calls]:
    wire = Wire(address, address.pool_size)
    calls = Calls(wire, address.table, within=WITHIN, answer_within=WITHIN)
    try:
        yield calls
    finally:
        await calls.close()


@asynccontextmanager
async def _connected(address: Address) -> AsyncIterator[Wire]:
    wire = Wire(address, 1)
    try:
        yield wire
    finally:
        await wire.close()
