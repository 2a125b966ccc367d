"""A table of DynamoDB that is filled without the store holds what the store would have written."""

from bench.databases.dynamodb import DynamoTables
from duetime import ids
from duetime.stores import Insert
from duetime.stores.opening import open_store
from tests.servers.dynamodb import ask


async def without_marks(url):
    """All items, but for the mark that is another one each time."""
    found = (await ask(url, "Scan", ConsistentRead=True))["Items"]
    kept = [item for item in found if item["pk"]["S"] != "records"]
    return sorted(str({name: item[name] for name in sorted(item) if name != "m"}) for item in kept)


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
