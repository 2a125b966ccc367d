"""PostgreSQL answers every hot query from its index: it walks no table and sorts nothing."""

import asyncio
import json
import re
import uuid

import asyncpg
import pytest

from duetime import ids
from duetime.stores import Query
from duetime.stores.codec import shard_set
from duetime.stores.opening import open_store
from duetime.stores.postgres import session, statements
from duetime.stores.postgres.reads import Reads
from duetime.stores.postgres.writes import Writes
from duetime.timer import Status
from tests.factories import NOW
from tests.servers.kinds import POSTGRES

ROWS = 50_000
SOME = shard_set([1, 2, 3])
HOT_TABLES = {"timers", "states", "tags", "attempts", "events", "records", "audit_lines"}

# One timer in twenty is the tenant's whose lists are read; of anybody's, one in ten is pending, one
# in a hundred has failed and is kept for long, and the rest is completed.
FILLING = f"""
INSERT INTO timers (id, tenant, "group", timer_id, execute_at, created_at, name, correlation_id,
    spec)
SELECT (lpad(to_hex({NOW} + n), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0')
        || '8000' || lpad(to_hex(n), 12, '0'))::uuid,
    CASE WHEN n % 20 = 0 THEN 't' ELSE 'other' END, 'g', 'timer-' || n,
    {NOW} + n::bigint * 7919 % 1000000, {NOW} + n,
    CASE WHEN n / 20 % 10 = 0 THEN 'name-' || n END, 'correlation-' || n / 5, '{{}}'
FROM generate_series(1, {ROWS}) AS n;
INSERT INTO states (id, tenant, wake_at, updated_at, version, weight, shard, status, progress,
    drop_at)
SELECT id, tenant, CASE WHEN n / 20 % 10 = 0 THEN execute_at END, created_at, 3, 300, n % 4096,
    CASE WHEN n / 20 % 10 = 0 THEN 'pending' WHEN n / 20 % 100 = 1 THEN 'failed'
        ELSE 'completed' END,
    '{{}}', CASE WHEN n / 20 % 100 = 1 THEN created_at + 100000 END
FROM (SELECT *, (created_at - {NOW})::integer AS n FROM timers) AS made;
INSERT INTO tags SELECT tenant, 'tag-' || created_at % 500, id FROM timers;
INSERT INTO attempts SELECT id, 1, 1, 0, 0, NULL, 'n', '{{}}' FROM timers;
INSERT INTO events SELECT id, 1, '{{}}' FROM timers WHERE created_at % 10 = 0;
INSERT INTO audit_lines SELECT id, tenant, '{{}}' FROM timers;
INSERT INTO records SELECT 'kind-' || n % 50, 'name-' || n, 1, '' FROM generate_series(1, 2000) n;
"""


class Plans:
    """Explains statements on tables with many rows, as our sessions would run them."""

    def __init__(self, server, schema):
        self._server = server
        self._schema = schema
        self.reads = Reads(schema)
        self.writes = Writes(schema, self.reads)

    async def fill(self):
        store = open_store(f"{self._server}?schema={self._schema}")
        await store.migrate()
        await store.close()
        connection = await asyncpg.connect(
            self._server, server_settings={"search_path": self._schema}
        )
        # As long as somebody looks at the time before, no page counts as visible to all; as on a
        # server where rows change all the time, an index alone does not seem cheap.
        onlooker = await asyncpg.connect(self._server)
        async with onlooker.transaction(isolation="repeatable_read"):
            await onlooker.execute("SELECT count(*) FROM pg_class")
            await connection.execute(FILLING)
            for table in HOT_TABLES:
                await connection.execute(f"VACUUM (ANALYZE) {table}")
        await onlooker.close()
        await connection.close()

    async def drop(self):
        connection = await asyncpg.connect(self._server)
        await connection.execute(f"DROP SCHEMA {self._schema} CASCADE")
        await connection.close()

    async def of(self, statement, values=None):
        """The plan for these values; without any, the one that must do for all."""
        connection = await asyncpg.connect(self._server, server_settings=session.SETTINGS)
        try:
            if values is not None:
                text = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {statement}", *values)
            else:
                nothing = ", ".join(["NULL"] * len(set(re.findall(r"\$\d+", statement))))
                await connection.execute(f"PREPARE asked AS {statement}")
                await connection.execute("SET plan_cache_mode = force_generic_plan")
                text = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked({nothing})")
        finally:
            await connection.close()
        return list(nodes(json.loads(text)[0]["Plan"]))


def nodes(plan):
    """A plan's nodes, from the top."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


@pytest.fixture(scope="module", params=POSTGRES)
def plans(request, server_url):
    """Tables with 50,000 timers, on a server of each version."""
    made = Plans(server_url(request.param), f"test_{uuid.uuid4().hex}")
    asyncio.run(made.fill())
    yield made
    asyncio.run(made.drop())


def indexes(found):
    """Each index of a plan, and how it is read."""
    return {(node["Node Type"], node["Index Name"]) for node in found if "Index Name" in node}


def walked(found):
    """The tables that are read from end to end."""
    return {node["Relation Name"] for node in found if node["Node Type"] == "Seq Scan"}


def names(found):
    return [node["Node Type"] for node in found]


@pytest.mark.parametrize("shards", [None, SOME], ids=["all shards", "some shards"])
async def test_what_is_due_is_read_off_its_index(plans, shards):
    """From the first place or from a later one: no row is read, and nothing is sorted."""
    statement = plans.reads.waking(shards)
    bits = [] if shards is None else [shards]
    first = [NOW + 500_000, -(2**63), ids.new_id(0, 0), 100, *bits]
    later = [NOW + 500_000, NOW + 1_000, ids.new_id(NOW, 5), 100, *bits]
    for values in (first, later, None):
        found = await plans.of(statement, values)
        assert names(found) == ["Limit", "Index Only Scan"], found
        assert indexes(found) == {("Index Only Scan", "states_due")}
        assert "wake_at" in found[1]["Index Cond"]


def some_ids(count):
    """Ids that are spread over the table."""
    step = ROWS // count
    return [
        f"{NOW + n:012x}"[:8] + "-" + f"{NOW + n:012x}"[8:] + f"-7{n % 4096:03x}-8000-{n:012x}"
        for n in range(1, ROWS, step)
    ][:count]


@pytest.mark.parametrize("count", [1, 64, 1_000])
async def test_timers_are_found_by_their_primary_keys(plans, count):
    """One or many, whichever plan it gets."""
    for values in ([some_ids(count)], None):
        found = await plans.of(plans.reads.getting, values)
        assert not walked(found)
        assert {name for _, name in indexes(found)} == {"timers_pkey", "states_pkey"}


async def test_scanning_follows_the_primary_key(plans):
    """A part is read in order, and none of what lies behind it."""
    for values in ([some_ids(2)[1], 500], ["00000000-0000-0000-0000-000000000000", 500], None):
        found = await plans.of(plans.reads.scanning, values)
        assert not walked(found)
        assert {name for _, name in indexes(found)} == {"timers_pkey", "states_pkey"}
        lines = below(found, "CTE lines")
        assert names(lines)[0] == "Limit", lines
        assert "Sort" not in names(lines), lines


@pytest.mark.parametrize("count", [1, 64])
async def test_timers_are_found_by_their_keys(plans, count):
    """By the index that keeps them unique."""
    keys = [["t"] * count, ["g"] * count, [f"timer-{n + 1}" for n in range(count)]]
    for values in (keys, None):
        found = await plans.of(plans.reads.getting_by_key, values)
        assert not walked(found)
        assert {name for _, name in indexes(found)} == {
            "timers_tenant_group_timer_id_key",
            "states_pkey",
        }


KINDS = {
    "moved": {},
    "ended": {"is_ending": True},
    "moved with attempts": {"has_attempts": True},
    "moved with attempts and events": {"has_attempts": True, "has_events": True},
    "rewritten": {"is_rewriting": True},
    "rewritten with all": {
        "is_rewriting": True,
        "is_ending": True,
        "has_attempts": True,
        "has_events": True,
        "has_tags": True,
    },
}


def arrays(fields, count):
    """An array for each of a set's columns."""
    samples = {"integer": 1, "smallint": 1, "bigint": 1, "text": "x"}
    return [
        some_ids(count) if kind == "uuid" else [samples[kind]] * count for kind in fields.values()
    ]


def values_of(kind, count):
    """A batch of changes of a kind, as parameters."""
    moved = statements.MOVED | (statements.REWRITTEN if kind.get("is_rewriting") else {})
    moved |= statements.ENDED if kind.get("is_ending") else {}
    values = arrays(moved, count)
    if kind.get("has_attempts"):
        values += arrays(statements.ATTEMPT, count)
    if kind.get("has_events"):
        values += arrays(statements.EVENT, count)
    if kind.get("has_tags"):
        values += [[1] * count, *arrays(statements.TAG, count)]
    return values


@pytest.mark.parametrize("name", KINDS)
async def test_changes_find_their_rows_by_the_primary_key(plans, name):
    """However large the batch, and whichever plan it gets: no table is walked."""
    kind = KINDS[name]
    statement = plans.writes.updating(**kind)
    for values in (values_of(kind, 1), values_of(kind, 100), values_of(kind, 1_000), None):
        found = await plans.of(statement, values)
        assert not walked(found), found
        used = {each for _, each in indexes(found)}
        assert used == {
            "states_pkey",
            *(["timers_pkey"] if kind.get("is_rewriting") else []),
            *(["tags_timer"] if kind.get("has_tags") else []),
        }


@pytest.mark.parametrize("count", [100, None])
async def test_changes_are_nested_loops(plans, count):
    """A batch of a usual size looks each of its rows up, in its own order."""
    found = await plans.of(plans.writes.updating(), count and values_of({}, count))
    assert names(found)[1:] == ["ModifyTable", "Nested Loop", "Function Scan", "Index Scan"]


@pytest.mark.parametrize("shards", [None, SOME], ids=["all shards", "some shards"])
async def test_purging_finds_what_is_finished_by_its_index(plans, shards):
    """Oldest first, without a look at the rest; those with a retention of their own likewise."""
    bits = [] if shards is None else [shards]
    for statement, condition in (
        (plans.writes.purging(shards), "((drop_at IS NULL) AND (updated_at < "),
        (plans.writes.outliving(shards), "(drop_at <= "),
    ):
        for values in ([NOW + 10_000, 1_000, *bits], None):
            found = await plans.of(statement, values)
            assert not walked(found)
            assert "Sort" not in names(found)
            [index] = [node for node in found if node.get("Index Name") == "states_finished"]
            assert index["Node Type"] == "Index Scan"
            assert index["Index Cond"].startswith(condition)
            assert {name for _, name in indexes(found)} == {
                *("states_finished", "states_pkey", "timers_pkey", "tags_timer", "attempts_pkey")
            }


@pytest.mark.parametrize("count", [1, 100, 1_000, None])
async def test_what_is_removed_is_found_by_its_id(plans, count):
    """However many, and whichever plan they get: no table is walked."""
    values = count and [list(range(count)), some_ids(count), [1] * count]
    found = await plans.of(plans.writes.removing(), values)
    assert not walked(found)
    assert {name for _, name in indexes(found)} == {
        *("states_pkey", "timers_pkey", "tags_timer", "attempts_pkey")
    }


async def test_counting_goes_along_the_timers_of_the_tenant(plans):
    """From the place on where the last statement ended; each state is looked up."""
    for values in (["t", some_ids(2)[1], 1_000], ["other", some_ids(2)[1], 100_000], None):
        found = await plans.of(plans.reads.counting_part, values)
        assert not walked(found)
        used = {node["Index Name"]: node["Index Cond"] for node in found if "Index Name" in node}
        assert used.keys() == {"timers_created", "states_pkey"}
        assert used["timers_created"].startswith("((ROW(tenant, id) > ROW(")
        assert used["states_pkey"] == "(id = t.id)"


CURSOR = (NOW + 30_000, ids.new_id(NOW + 30_000, 5))
# Both are in the order of creation; the planner may hold that the tenant's timers lie dense enough.
CREATED = {"timers_created", "timers_pkey"}
LISTS = {
    "default": (Query(tenant="t"), CREATED),
    "next page": (Query(tenant="t", after=CURSOR), CREATED),
    "oldest first": (Query(tenant="t", descending=False, after=CURSOR), CREATED),
    "of a group": (Query(tenant="t", group="g"), CREATED),
    "created between": (
        Query(tenant="t", created_after=NOW + 100, created_before=NOW + 9_000),
        CREATED,
    ),
    "by execute_at": (Query(tenant="t", sort="execute_at"), {"timers_execute"}),
    "by execute_at, next": (Query(tenant="t", sort="execute_at", after=CURSOR), {"timers_execute"}),
    "executing between": (
        Query(tenant="t", sort="execute_at", execute_after=NOW + 5, execute_before=NOW + 99_999),
        {"timers_execute"},
    ),
    "by correlation id": (
        Query(tenant="t", correlation_id="correlation-7"),
        {"timers_correlation"},
    ),
    "pending": (Query(tenant="t", status=Status.PENDING), {"states_status"}),
    "failed": (Query(tenant="t", status=Status.FAILED, after=CURSOR), {"states_status"}),
    "canceled": (Query(tenant="t", status=Status.CANCELED), {"states_status"}),
    "completed": (Query(tenant="t", status=Status.COMPLETED), CREATED),
}


@pytest.mark.parametrize("name", LISTS)
async def test_lists_use_their_index(plans, name):
    """Each common list is read off its index in order, a page at a time."""
    query, expected = LISTS[name]
    found = await plans.of(*plans.reads.listing(query))
    assert not walked(found)
    page = below(found, "CTE found")
    assert expected & {each for _, each in indexes(page)}, indexes(page)
    assert "Limit" in names(page)
    assert not {"Sort", "Incremental Sort"} & set(names(page)), names(page)


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (Query(tenant="t", name_prefix="name-77"), "timers_name"),
        (Query(tenant="t", tag="tag-7"), "tags_pkey"),
        (Query(tenant="t", status=Status.FAILED, sort="execute_at"), "states_status"),
    ],
)
async def test_rarer_filters_find_their_matches_by_an_index(plans, query, index):
    """They may sort their matches, but not the whole table."""
    found = await plans.of(*plans.reads.listing(query))
    assert not walked(found)
    page = below(found, "CTE found")
    assert index in {each for _, each in indexes(page)}, indexes(page)
    sorted_rows = [node["Plan Rows"] for node in page if node["Node Type"] == "Sort"]
    assert all(rows < ROWS / 20 for rows in sorted_rows), sorted_rows


def below(found, name):
    """The part of a plan that has a name, with all that is under it."""
    [part] = [node for node in found if node.get("Subplan Name") == name]
    return list(nodes(part))


async def test_the_rest_is_found_by_primary_keys(plans):
    """Attempts, events and documents, as they are read and as they are dropped."""
    id_ = some_ids(1)[0]
    for statement, values, index in (
        (plans.reads.reading_attempts, [id_, -1, 0, 100], "attempts_pkey"),
        (plans.reads.reading_events(None), [id_, 100], "events_pkey"),
        (plans.reads.reading_events(SOME), [id_, 100, SOME], "events_pkey"),
        (plans.reads.reading_records, ["kind-1"], "records_pkey"),
        (plans.reads.reading_lines(descending=False), ["t", id_, 100], "audit_lines_tenant"),
        (plans.reads.reading_lines(descending=True), ["t", id_, 100], "audit_lines_tenant"),
        (plans.writes.dropping_lines(), [id_, 100], "audit_lines_pkey"),
        (plans.reads.weighing, [some_ids(1_000)], "states_pkey"),
    ):
        for chosen in (values, None):
            found = await plans.of(statement, chosen)
            assert {name for _, name in indexes(found)} == {index}
            assert not walked(found)
            assert "Sort" not in names(found) or index == "records_pkey"
