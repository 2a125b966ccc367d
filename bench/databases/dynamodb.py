"""DynamoDB: a database is a table of its own."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import islice
from urllib.parse import urlsplit

from bench.aims import AIMS
from bench.backlog import far_timers
from bench.databases import BareInsert, Extent
from bench.databases.served import ServedDatabases
from duetime import ids
from duetime.model import Status
from duetime.stores.dynamodb import batches
from duetime.stores.dynamodb.address import Address
from duetime.stores.dynamodb.calls import Calls
from duetime.stores.dynamodb.errors import Refused
from duetime.stores.dynamodb.items import new_item, text
from duetime.stores.dynamodb.keys import partition_of
from duetime.stores.dynamodb.pages import pages
from duetime.stores.dynamodb.shards import Shards
from duetime.stores.dynamodb.traits import TRAITS
from duetime.stores.dynamodb.wire import Wire

AT_ONCE = 1_000
WITHIN = 60.0

_BARE_WAYS = {
    "bare PutItem, conditional": "put",
    "bare BatchWriteItem": "batch",
}


class DynamoTable:
    """One table."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._address = Address.parse(url)

    def bare_insert(self, way: str) -> BareInsert:
        arguments = ("-m", "bench.bare_dynamodb", _BARE_WAYS[way])
        return BareInsert(arguments, {"DATABASE_URL": self.url})

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
        timers = far_timers(count, sink_port=9)
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


class DynamoTables(ServedDatabases):
    """Tables of an account, or of DynamoDB Local."""

    kind = "dynamodb"
    aims = AIMS[kind]
    num_shards = TRAITS.num_shards
    bare_ways = tuple(_BARE_WAYS)
    database = DynamoTable

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
