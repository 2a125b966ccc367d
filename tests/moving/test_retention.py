"""What is old is dropped in the new house as it was in the old one."""

from types import SimpleNamespace

import pytest

from duetime import ids
from duetime.engine.janitor import Janitor
from duetime.moving.copying import Copy
from duetime.stores.opening import Options, open_store
from duetime.timer import FINISHED
from tests.moving.houses import Listening, copied, furnished, inhabited
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


async def test_dynamodb_drops_the_lines_that_a_copy_brought(clock, source, table):
    """Each so long after it was made as the copy was told."""
    lines = await inhabited(source, 10)
    target = await opened(table)
    await copied(source, target, clock, keep_lines_for=400 * RETENTION)
    await target.close()
    found = {item["sk"]["S"]: item for item in (await ask(table, "Scan"))["Items"] if "x" in item}
    for line in lines:
        goes_at = int(found[line.id]["x"]["N"]) * 1000
        assert 0 <= goes_at - ids.time_of(line.id) - 400 * RETENTION <= 1000
