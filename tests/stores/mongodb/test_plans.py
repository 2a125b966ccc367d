"""MongoDB answers every hot query from its index: it walks no collection and sorts nothing."""

import asyncio
import uuid

import pytest
from pymongo import AsyncMongoClient

from duetime import ids
from duetime.stores import Due, Insert, Query
from duetime.stores.mongodb.address import Address
from duetime.stores.mongodb.connection import database_of
from duetime.stores.mongodb.counting import counting
from duetime.stores.mongodb.documents import by_ids, first_id, to_id
from duetime.stores.mongodb.lines import old_lines, reading
from duetime.stores.mongodb.lists import conditions, listing
from duetime.stores.mongodb.purging import outlived, usual
from duetime.stores.mongodb.reads import _by_key, stretches, waking
from duetime.stores.mongodb.schema import DUE, LINES
from duetime.stores.opening import open_store
from duetime.timer import Status
from tests.factories import NOW, key_of, make_line, make_spec, make_timer

ROWS = 3_000


def timer(number):
    """One in ten is pending, one in a hundred has failed, and the rest is completed."""
    status = Status.COMPLETED
    if number % 10 == 0:
        status = Status.PENDING
    elif number % 100 == 1:
        status = Status.FAILED
    return make_timer(
        tenant="t" if number % 2 else "other",
        timer_id=f"timer-{number}",
        created_at=NOW + number,
        execute_at=NOW + number * 7919 % 1_000_000,
        wake_at=NOW + number if status is Status.PENDING else None,
        status=status,
        spec=make_spec(
            name=f"name-{number}" if number % 10 == 0 else None,
            tags=(f"tag-{number % 50}",),
            correlation_id=f"correlation-{number // 5}",
            retention=number if number % 100 == 3 else None,
        ),
    )


@pytest.fixture(scope="module")
def address(server_url):
    """A database with timers enough for the server to choose with care."""
    url = server_url("mongodb").replace("/duetime?", f"/test_plans_{uuid.uuid4().hex[:16]}?")
    asyncio.run(fill(url))
    yield Address.parse(url)
    asyncio.run(drop(url))


async def fill(url):
    store = open_store(url)
    await store.migrate()
    await store.insert([Insert(timer(number)) for number in range(ROWS)])
    tenants = ("t", "other")
    await store.write_lines(
        [make_line(at=NOW + number, tenant=tenants[number % 2]) for number in range(500)], None
    )
    await store.close()


async def drop(url):
    async with AsyncMongoClient(url) as client:
        await client.drop_database(client.get_default_database())


@pytest.fixture
async def database(address):
    """That database."""
    async with AsyncMongoClient(address.uri) as client:
        yield database_of(client, address)


@pytest.fixture
def filled(database):
    """Its timers."""
    return database["timers"]


def stages(plan):
    """The stages of a plan, from the top."""
    yield plan
    below = [plan["inputStage"]] if "inputStage" in plan else plan.get("inputStages", [])
    for each in below:
        yield from stages(each)


async def explained(collection, **query):
    """What was done for a query: its stages, its indexes, and what was looked at."""
    options = {"find": collection.name, **query}
    told = await collection.database.command("explain", options, verbosity="executionStats")
    found = list(stages(told["queryPlanner"]["winningPlan"]))
    names = {each["indexName"] for each in found if "indexName" in each}
    return {each["stage"] for each in found}, names, told["executionStats"]


def as_command(query):
    """What the driver makes of the arguments of ``find``."""
    made = dict(query)
    made["sort"] = dict(made["sort"])
    made.pop("batch_size", None)
    return made


@pytest.mark.parametrize("shards", [ids.ALL_SHARDS, range(0, ids.SHARDS, 3)])
@pytest.mark.parametrize("after", [None, Due(NOW + 1_000, ids.new_id(NOW, 1))])
async def test_what_is_due_is_read_from_the_index_alone(filled, shards, after):
    """No document is read, nothing is sorted, and each line of the stretch is looked at once."""
    read = 0
    for stretch in stretches(after, NOW + 2_000):
        query = waking(stretch, shards, 1_000)
        told, names, stats = await explained(filled, **as_command(query))
        assert names == {"due"}
        assert not told & {"SORT", "COLLSCAN", "FETCH"}
        assert stats["totalDocsExamined"] == 0
        read += stats["totalKeysExamined"]
    assert 50 <= read <= 210  # one in ten is pending


async def test_a_moment_is_gone_through_page_by_page(filled):
    """However many wake at once, the next page does not begin with the lines of the last."""
    place = Due(NOW + 1_000, "ffffffff-ffff-7fff-bfff-ffffffffffff")
    moment, _ = stretches(place, NOW + 2_000)
    _, _, stats = await explained(filled, **as_command(waking(moment, ids.ALL_SHARDS, 50)))
    assert stats["totalKeysExamined"] <= 1


async def test_by_id_and_by_key(filled):
    """Timers are found by their own index, and only those that were asked for are read."""
    some = [each["_id"] async for each in filled.find({}, {"_id": 1}, limit=3)]
    _, names, stats = await explained(filled, filter=by_ids(some), hint="_id_")
    assert names == {"_id_"}
    assert stats["totalDocsExamined"] == 3
    keys = [key_of(timer(number)) for number in (1, 3, 5, 7)]
    [condition] = _by_key(keys)
    _, names, stats = await explained(filled, filter=condition, hint="shard_key")
    assert names == {"shard_key"}
    assert stats["totalDocsExamined"] == 4


LISTS = {
    "created": (Query(tenant="t"), "created"),
    "page": (Query(tenant="t", after=(NOW + 500, ids.new_id(NOW + 500, 1))), "created"),
    "execute": (Query(tenant="t", sort="execute_at"), "execute"),
    "correlation": (Query(tenant="t", correlation_id="correlation-7"), "correlation"),
    "tag": (Query(tenant="t", tag="tag-7"), "tag"),
    "failed": (Query(tenant="t", status=Status.FAILED), "status"),
}


@pytest.mark.parametrize("name", LISTS)
async def test_lists(filled, name):
    """Each kind of list has its index, in whose order it is read."""
    query, index = LISTS[name]
    told, names, stats = await explained(filled, **as_command(listing(query)))
    assert names == {index}
    assert not told & {"SORT", "COLLSCAN"}
    assert stats["totalDocsExamined"] <= 110


@pytest.mark.parametrize(
    "query",
    [
        Query(tenant="t", name_prefix="name-1"),
        Query(tenant="t", group="default", status=Status.COMPLETED),
        Query(tenant="t", execute_after=NOW, execute_before=NOW + 1_000),
        Query(tenant="t", created_after=NOW, created_before=NOW + 10, sort="execute_at"),
    ],
)
async def test_no_list_walks_the_collection(filled, query):
    """Whatever is asked, at least the tenant is found by an index."""
    told, names, _ = await explained(filled, **as_command(listing(query)))
    assert names
    assert "COLLSCAN" not in told
    told, names, _ = await explained(filled, filter=conditions(query))
    assert "COLLSCAN" not in told


@pytest.mark.parametrize(
    ("condition", "order", "found"),
    [(usual(NOW + 50), "updated_at", 10), (outlived(NOW + 250), "drop_at", 2)],
)
async def test_what_may_be_dropped(filled, condition, order, found):
    """In the order in which it may be, whoever has a retention of its own, and whoever has not."""
    told, names, stats = await explained(
        filled, filter=condition, sort={order: 1}, limit=10, hint="drop"
    )
    assert names == {"drop"}
    assert "SORT" not in told
    assert (stats["nReturned"], stats["totalDocsExamined"]) == (found, found)


@pytest.mark.parametrize("after", [None, first_id(NOW + 2_000)], ids=["all", "behind an id"])
async def test_counting_goes_by_the_tenant(filled, database, after):
    """And looks at nobody else's timers, nor twice at any."""
    pipeline = counting("t", after)
    told = await database.command(
        "explain",
        {"aggregate": "timers", "pipeline": pipeline, "cursor": {}, "hint": "created"},
        verbosity="executionStats",
    )
    looked = told["executionStats"]["totalDocsExamined"]
    assert looked == (ROWS // 2 if after is None else (ROWS - 2_000) // 2)
    found = list(stages(told["queryPlanner"]["winningPlan"]["queryPlan"]))
    assert [each["stage"] for each in found][-2:] == ["FETCH", "IXSCAN"]
    assert found[-1]["indexName"] == "created"
    assert "SORT" not in {each["stage"] for each in found}


@pytest.mark.parametrize("descending", [False, True])
async def test_lines_of_the_audit_are_read_in_their_order(database, descending):
    """By tenant, from a place on; and those that may go are found without a look at them."""
    query = reading("t", ids.first_at(NOW + 250), 10, descending=descending)
    told, names, stats = await explained(database[LINES], **as_command(query))
    assert names == {"tenant"}
    assert "SORT" not in told
    assert stats["totalDocsExamined"] == 10
    query = as_command(old_lines(NOW + 100, 10))
    told, names, stats = await explained(database[LINES], **query)
    assert names == {"_id_"}
    assert (stats["totalDocsExamined"], stats["nReturned"]) == (0, 10)


async def test_a_change_finds_its_timer_by_id(filled, database):
    """And looks at nothing else."""
    some = await filled.find_one()
    told = await database.command(
        "explain",
        {
            "update": "timers",
            "updates": [
                {
                    "q": {"_id": some["_id"], "version": 1},
                    "u": {"$set": {"version": 2}},
                    "hint": "_id_",
                }
            ],
        },
        verbosity="executionStats",
    )
    assert told["executionStats"]["totalDocsExamined"] == 1


def test_the_due_index_has_all_that_a_line_needs():
    """The order is by time and then by id; the rest is there to be read."""
    assert DUE[:2] == ("wake_at", "_id")
    assert to_id(ids.new_id(NOW, 1)).subtype == 4
