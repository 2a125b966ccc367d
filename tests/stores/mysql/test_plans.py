"""MySQL answers every hot query from its index: it walks no table and sorts nothing."""

import asyncio
import json

import pytest

from duetime import ids
from duetime.stores import Due, Query
from duetime.stores.mysql import audit, counts, drops, reads, searches, statements
from duetime.stores.mysql.address import Address
from duetime.stores.mysql.dialect import MYSQL as MYSQL_ITSELF
from duetime.stores.mysql.session import connect
from duetime.stores.opening import open_store
from duetime.timer import Status
from tests.factories import NOW
from tests.servers.kinds import KINDS, MYSQL
from tests.servers.mysql import rows, session

ROWS = 20_000
SOME = [1, 2, 3]

# One timer in twenty is the tenant's whose lists are read; of anybody's, one in ten is pending, one
# in a hundred has failed, and the rest is completed.
DIGITS = [
    f"({' UNION ALL '.join(f'SELECT {n} n' for n in range(count))}) {name}"
    for name, count in zip("abcde", (10, 10, 10, 10, ROWS // 10_000), strict=True)
]
NUMBERS = (
    "SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n + 1 AS n FROM "
    f"{', '.join(DIGITS)}"
)
ID = (
    f"unhex(concat(lpad(hex({NOW} + n), 12, '0'), '7', lpad(hex(n % 4096), 3, '0'), '8000', "
    "lpad(hex(n), 12, '0')))"
)
FILLING = f"""
INSERT INTO timers (id, tenant, `group`, timer_id, execute_at, created_at, name, correlation_id,
    spec)
SELECT {ID}, IF(n % 20 = 0, 't', 'other'), 'g', concat('timer-', n),
    {NOW} + n * 7919 % 1000000, {NOW} + n, IF(n DIV 20 % 10 = 0, concat('name-', n), NULL),
    concat('correlation-', n DIV 5), '{{}}'
FROM ({NUMBERS}) x;
INSERT INTO states (id, tenant, wake_at, updated_at, finished_at, version, weight, shard, status,
    progress)
SELECT id, tenant, IF(n DIV 20 % 10 = 0, execute_at, NULL), created_at,
    IF(n DIV 20 % 10 = 0, NULL, created_at), 3, 300, n % 4096,
    IF(n DIV 20 % 10 = 0, 'pending', IF(n DIV 20 % 100 = 1, 'failed', 'completed')), '{{}}'
FROM (SELECT *, created_at - {NOW} AS n FROM timers) made;
INSERT INTO tags SELECT tenant, concat('tag-', created_at % 500), id FROM timers;
INSERT INTO attempts SELECT id, 1, 1, 0, 0, NULL, 'n', '{{}}' FROM timers;
INSERT INTO events SELECT id, 1, '{{}}' FROM timers WHERE created_at % 10 = 0;
INSERT INTO retentions SELECT id, created_at, 1, 3 FROM timers WHERE created_at % 10 = 0;
INSERT INTO audit_lines SELECT id, tenant, '{{}}' FROM timers;
ANALYZE TABLE timers, states, tags, attempts, events, retentions, audit_lines
"""


@pytest.fixture(scope="module", params=MYSQL)
def plans(request, server_url):
    """Explains statements on tables with many rows; the parts of a plan that read a table."""
    kind = KINDS[request.param]
    url = asyncio.run(filled(kind, server_url(request.param)))

    async def of(statement):
        ours = await connect(Address.parse(url))  # with the settings that statements run with
        if ours.dialect is MYSQL_ITSELF:
            await ours.ask("SET SESSION explain_json_format_version = 1")  # as MariaDB has it
        [(plan,)] = await ours.rows(f"EXPLAIN FORMAT=JSON {statement}")
        ours.close()
        text = plan.decode() if isinstance(plan, bytes) else plan
        plan = json.loads(text)
        return [node for node in nodes(plan) if "table_name" in node], "filesort" in text.replace(
            '"using_filesort": false', ""
        )

    yield of
    asyncio.run(kind.drop(url))


async def filled(kind, server):
    url = await kind.make(server)
    store = open_store(url)
    await store.migrate()
    await store.close()
    async with session(url) as connection:
        for statement in FILLING.split(";"):
            await rows(connection, statement)
    return url


def nodes(plan):
    """All that a plan is made of."""
    if isinstance(plan, dict):
        yield plan
        plan = list(plan.values())
    if isinstance(plan, list):
        for part in plan:
            yield from nodes(part)


def used(tables):
    """Which index each table is read by."""
    return {node["table_name"]: node.get("key") for node in tables if node["table_name"] != "found"}


def some_ids(count):
    """Ids that are spread over the table."""
    return [
        f"{NOW + n:012x}"[:8] + "-" + f"{NOW + n:012x}"[8:] + f"-7{n % 4096:03x}-8000-{n:012x}"
        for n in range(1, ROWS, ROWS // count)
    ][:count]


@pytest.mark.parametrize("shards", [ids.ALL_SHARDS, SOME], ids=["all shards", "some shards"])
@pytest.mark.parametrize("after", [None, Due(NOW + 1_000, ids.new_id(NOW, 5))])
async def test_what_is_due_is_read_off_its_index(plans, shards, after):
    """From the first place or from a later one: no row is read, and nothing is sorted."""
    tables, sorts = await plans(reads.waking(shards, after, NOW + 500_000, 100))
    [table] = tables
    assert (table["access_type"], table["key"]) == ("range", "states_due")
    assert table.get("using_index") is True
    assert not sorts
    if after is not None:  # it begins at the very place, not at the time of it
        assert table["used_key_parts"][:2] == ["wake_at", "id"]


@pytest.mark.parametrize("count", [1, 64, 1_000])
async def test_timers_are_found_by_their_primary_keys(plans, count):
    """One or many, to be read, weighed or locked."""
    tables, _ = await plans(reads.getting(some_ids(count)))
    assert used(tables) == {"t": "PRIMARY", "s": "PRIMARY"}
    for statement in (reads.weighing(some_ids(count)), statements.locking(some_ids(count))):
        [table], sorts = await plans(statement)
        assert (table["key"], sorts) == ("PRIMARY", False)
        assert table["access_type"] in {"range", "const"}


@pytest.mark.parametrize("count", [1, 64])
async def test_timers_are_found_by_their_keys(plans, count):
    """By the index that keeps them unique, and all of it."""
    names = [("t", "g", f"timer-{20 * n + 20}") for n in range(count)]
    tables, _ = await plans(reads.getting_by_key(names))
    assert used(tables) == {"t": "timers_key", "s": "PRIMARY"}
    [keys] = [node["used_key_parts"] for node in tables if node["table_name"] == "t"]
    assert keys == ["tenant", "group", "timer_id"]


@pytest.mark.parametrize("shards", [ids.ALL_SHARDS, SOME], ids=["all shards", "some shards"])
async def test_purging_finds_what_is_finished_by_its_index(plans, shards):
    """Oldest first, without a look at the rest."""
    [table], sorts = await plans(f"{drops.doomed(shards, NOW + 5_000, 100)} FOR UPDATE")
    assert (table["access_type"], table["key"]) == ("range", "states_finished")
    assert not sorts


@pytest.mark.parametrize("shards", [ids.ALL_SHARDS, SOME], ids=["all shards", "some shards"])
async def test_what_has_outlived_its_own_retention_is_found_by_its_index(plans, shards):
    """Oldest first, and of the timers only those are looked at."""
    tables, sorts = await plans(f"{drops.outlived(shards, NOW + 5_000, 100)} FOR UPDATE")
    assert used(tables) == {"r": "retentions_drop", "s": "PRIMARY"}
    assert not [node for node in tables if walks(node)]
    assert not sorts


@pytest.mark.parametrize("after", [None, counts.Place("g", "timer-1000")])
async def test_counting_goes_by_the_keys(plans, after):
    """From one place to another, and to the states by theirs."""
    end = counts.Place("g", "timer-5000")
    [timers], sorts = await plans(counts.ending("t", after))
    assert timers.get("using_index") is True
    assert not sorts
    tables, _ = await plans(counts.counting("t", after, end))
    assert used(tables) == {"t": "timers_key", "s": "PRIMARY"}
    assert not [node for node in tables if walks(node)]
    if after is not None:  # it begins at the very place
        for node in (timers, tables[0]):
            assert node["used_key_parts"] == ["tenant", "group", "timer_id"]


@pytest.mark.parametrize("descending", [False, True])
async def test_lines_of_the_audit_are_read_in_their_order(plans, descending):
    """By tenant, from a place on; and they are dropped from their start."""
    page = audit.reading("t", some_ids(2)[1], 100, descending=descending)
    [table], sorts = await plans(page)
    assert (table["access_type"], table["key"]) == ("range", "audit_lines_tenant")
    assert not sorts
    [table], sorts = await plans(audit.dropping(NOW + 5_000, 100))
    assert (table["access_type"], table["key"]) == ("range", "PRIMARY")
    assert not sorts


CURSOR = (NOW + 15_000, ids.new_id(NOW + 15_000, 5))
CREATED = {"timers_created", "PRIMARY"}
LISTS = {
    "default": (Query(tenant="t"), CREATED),
    "next page": (Query(tenant="t", after=CURSOR), CREATED),
    "oldest first": (Query(tenant="t", descending=False, after=CURSOR), CREATED),
    "created between": (
        Query(tenant="t", created_after=NOW + 100, created_before=NOW + 9_000),
        CREATED,
    ),
    "by execute_at": (Query(tenant="t", sort="execute_at"), {"timers_execute"}),
    "by execute_at, next": (Query(tenant="t", sort="execute_at", after=CURSOR), {"timers_execute"}),
    "by correlation id": (
        Query(tenant="t", correlation_id="correlation-7"),
        {"timers_correlation"},
    ),
    "pending": (Query(tenant="t", status=Status.PENDING), {"states_status"}),
    "failed": (Query(tenant="t", status=Status.FAILED, after=CURSOR), {"states_status"}),
    "canceled": (Query(tenant="t", status=Status.CANCELED), {"states_status"}),
    "completed": (Query(tenant="t", status=Status.COMPLETED), {"states_status", *CREATED}),
    "by name": (Query(tenant="t", name_prefix="name-77"), {"timers_name"}),
    "by tag": (Query(tenant="t", tag="tag-7"), {"PRIMARY"}),
}


@pytest.mark.parametrize("name", LISTS)
async def test_lists_use_their_index(plans, name):
    """Each common list is found by an index that begins with its tenant."""
    query, expected = LISTS[name]
    tables, _ = await plans(searches.listing(query))
    assert not [node for node in tables if walks(node)], tables
    found = {node.get("key") for node in tables}
    assert expected & found, found


def walks(node):
    """Whether a table of ours is read from end to end, or an index of it."""
    is_ours = not node["table_name"].startswith(("<", "found"))
    return is_ours and node["access_type"] in {"ALL", "index"}


async def test_the_rest_is_found_by_primary_keys(plans):
    """Attempts and events."""
    id_ = some_ids(1)[0]
    for statement in (
        reads.reading_attempts(id_, None, 100),
        reads.reading_attempts(id_, (1, 1), 100),
        reads.reading_events(ids.ALL_SHARDS, id_, 100),
        reads.reading_events(SOME, None, 100),
        reads.scanning(id_, 100),
    ):
        tables, sorts = await plans(statement)
        assert set(used(tables).values()) == {"PRIMARY"}
        assert not sorts
        assert not [node for node in tables if walks(node)]
