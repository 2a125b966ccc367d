"""Finished timers are dropped in the new house as they were in the old one."""

from types import SimpleNamespace

import pytest

from duetime.engine.janitor import Janitor
from duetime.model import FINISHED
from duetime.moving.copying import Copy
from duetime.stores.opening import Options, open_store
from tests.moving.houses import Listening, furnished
from tests.servers.dynamodb import ask

RETENTION = 86_400_000


@pytest.fixture
async def table(fresh_database):
    return await fresh_database("dynamodb")


async def opened(url, retention=None):
    store = open_store(url, Options(retention=retention))
    await store.migrate()
    return store


async def test_dynamodb_drops_what_a_copy_brought(clock, source, table):
    """The copy knows of no retention; the first node that has one sees to it."""
    inserts = await furnished(source, 24)
    target = await opened(table)
    await Copy(source, target, clock, Listening(), name="here").run()
    await target.close()
    store = await opened(table, RETENTION)
    janitor = Janitor(
        store, clock, members=SimpleNamespace(shards=range(4096)), retention=RETENTION
    )
    await janitor.step()
    await store.close()
    found = (await ask(table, "Scan", ConsistentRead=True))["Items"]
    dated = [item for item in found if "r" in item and "x" in item]
    assert len(dated) == sum(each.timer.status in FINISHED for each in inserts) > 5
    ended = {each.timer.id for each in inserts if each.timer.status in FINISHED}
    beside = [item for item in found if ended & {item["pk"]["S"], item["sk"]["S"]}]
    assert len(beside) > 2 * len(ended)
    assert all("x" in item for item in beside)
