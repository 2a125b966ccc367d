"""A table of DynamoDB that is filled without the store holds what the store would have written."""

from bench.databases.dynamodb import DynamoTables
from duetime import ids
from duetime.stores import Insert
from duetime.stores.opening import Options, open_store
from tests.factories import NOW
from tests.servers.dynamodb import ask
from tests.stores.dynamodb.conftest import Asked


async def without_marks(url):
    """All items, but for the mark that is another one each time."""
    found = (await ask(url, "Scan", ConsistentRead=True))["Items"]
    kept = [item for item in found if item["pk"]["S"] != "records"]
    return sorted(str({name: item[name] for name in sorted(item) if name != "m"}) for item in kept)


async def test_a_fresh_table_is_as_a_node_makes_it(server_url):
    """It drops what is finished, and no sweep is noted as needed: nobody walks through it."""
    async with DynamoTables(server_url("dynamodb")).fresh() as table:
        said = (await ask(table.url, "DescribeTimeToLive"))["TimeToLiveDescription"]
        assert said["TimeToLiveStatus"] == "ENABLED"
        store = open_store(table.url, Options(retention=86_400_000))
        await store.migrate()
        asked = Asked(store)
        assert await store.purge(ids.ALL_SHARDS, NOW, 1_000) == 0
        assert "Scan" not in asked.operations
        await store.close()


async def test_what_is_filled_in_is_what_the_store_writes(server_url):
    """Item for item; and it is due and read like any other."""
    tables = DynamoTables(server_url("dynamodb"))
    async with tables.fresh() as filled, tables.fresh() as other:
        await filled.fill(60, lambda _: None)
        assert await filled.count() == 60
        store = open_store(filled.url)
        await store.migrate()
        timers = await store.scan(None, 100)
        assert len(await store.due(ids.ALL_SHARDS, None, 2**48, 100)) == len(timers) == 60
        await store.close()
        store = open_store(other.url)
        await store.migrate()
        assert await store.insert([Insert(timer) for timer in timers]) == [None] * 60
        await store.close()
        assert await without_marks(filled.url) == await without_marks(other.url)
