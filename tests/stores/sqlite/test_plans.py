"""SQLite answers every hot query from its index: it walks no table and sorts nothing."""

import sqlite3

import pytest

from duetime import ids
from duetime.stores import Query
from duetime.stores.sqlite import reads, writes
from duetime.timer import Status


@pytest.fixture
async def plan(sqlite, database):
    """Explains a statement, as the lines of its query plan."""
    connection = sqlite3.connect(database)

    def explain(statement, values=None):
        if values is None:
            values = [None] * max(statement.count("?"), 5)
            values = values[: _parameters(connection, statement)]
        return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]

    yield explain
    connection.close()


def _parameters(connection, statement):
    """How many parameters a statement has, by trying."""
    for count in range(10_000):
        try:
            connection.execute(f"EXPLAIN {statement}", [None] * count)
        except sqlite3.ProgrammingError:
            continue
        return count
    raise AssertionError(statement)


SOME = "[1, 2]"

HOT = {
    "due in all shards": (
        reads.waking(None),
        "timers USING COVERING INDEX timers_due ((wake_at,id)>(?,?) AND wake_at<?)",
    ),
    "due in some shards": (
        reads.waking(SOME),
        "timers USING COVERING INDEX timers_due ((wake_at,id)>(?,?) AND wake_at<?)",
    ),
    "get": (reads.GETTING, "t USING INDEX sqlite_autoindex_timers_1 (id=?)"),
    "weigh": (reads.WEIGHING, "t USING INDEX sqlite_autoindex_timers_1 (id=?)"),
    "scan": (reads.SCANNING, "timers USING INDEX sqlite_autoindex_timers_1 (id>?)"),
    "get by key": (
        reads.getting_by_key(2),
        "t USING INDEX sqlite_autoindex_timers_2 (tenant=? AND group=? AND timer_id=?)",
    ),
    "claim": (
        writes._updating(writes._MOVED_ON)(2),
        "timers USING INDEX sqlite_autoindex_timers_1 (id=?)",
    ),
    "rewrite": (
        writes._updating(writes._REWRITTEN)(2),
        "timers USING INDEX sqlite_autoindex_timers_1 (id=?)",
    ),
    "who is stale": (writes._STALE, "timers USING INDEX sqlite_autoindex_timers_1 (id=?)"),
    "who is gone": (writes._GONE, "timers USING COVERING INDEX sqlite_autoindex_timers_1 (id=?)"),
    "purge in all shards": (
        writes.purging(None),
        "timers USING INDEX timers_finished (updated_at<?)",
    ),
    "purge in some shards": (
        writes.purging(SOME),
        "timers USING INDEX timers_finished (updated_at<?)",
    ),
    "end with a retention of its own": (
        writes._updating(writes._ENDED)(2),
        "timers USING INDEX sqlite_autoindex_timers_1 (id=?)",
    ),
    "drop outlived in all shards": (
        writes.outliving(None),
        "timers USING INDEX timers_outlived (drop_at<?)",
    ),
    "drop outlived in some shards": (
        writes.outliving(SOME),
        "timers USING INDEX timers_outlived (drop_at<?)",
    ),
    "count": (reads.COUNTING, "timers USING INDEX sqlite_autoindex_timers_2 (tenant=?)"),
    "lines": (
        reads.reading_lines(descending=False),
        "audit_lines USING PRIMARY KEY (tenant=? AND id>?)",
    ),
    "lines, newest first": (
        reads.reading_lines(descending=True),
        "audit_lines USING PRIMARY KEY (tenant=? AND id<?)",
    ),
    "drop lines": (
        writes.DROPPING_LINES,
        "audit_lines USING COVERING INDEX audit_lines_id (id<?)",
    ),
    "attempts": (reads.READING_ATTEMPTS, "attempts USING PRIMARY KEY (timer=? AND (occurrence"),
    "events in all shards": (reads.reading_events(None), "events USING PRIMARY KEY (id>?)"),
    "events in some shards": (reads.reading_events(SOME), "events USING PRIMARY KEY (id>?)"),
    "records": (reads.READING_RECORDS, "records USING PRIMARY KEY (kind=?)"),
    "drop attempts": (
        writes._dropping("attempts", "timer"),
        "attempts USING PRIMARY KEY (timer=?)",
    ),
    "drop tags": (
        writes._dropping("tags", "timer"),
        "tags USING COVERING INDEX tags_timer (timer=?)",
    ),
    "drop timers": (
        writes._dropping("timers", "id"),
        "timers USING INDEX sqlite_autoindex_timers_1 (id=?)",
    ),
    "drop events": (writes._dropping("events", "id"), "events USING PRIMARY KEY (id=?)"),
}

TABLES = ("timers", "tags", "attempts", "events", "records", "audit_lines")


def assert_searches(lines, expected):
    """The plan has this search, and neither walks a table nor sorts."""
    assert any(line.startswith(f"SEARCH {expected}") for line in lines), lines
    assert not [line for line in lines if "TEMP B-TREE" in line], lines
    walked = [line.split()[1] for line in lines if line.startswith("SCAN ")]
    assert not set(walked) & set(TABLES), lines


@pytest.mark.parametrize("name", HOT)
def test_hot_statements_use_their_index(plan, name):
    """Each hot statement is a search by its index, in the index's order."""
    statement, expected = HOT[name]
    assert_searches(plan(statement), expected)


CREATED = "timers USING COVERING INDEX timers_created (tenant=?"
LISTS = {
    "default": (Query(tenant="t"), CREATED),
    "next page": (Query(tenant="t", after=(1, "a")), f"{CREATED} AND (created_at,id)<(?,?))"),
    "oldest first": (Query(tenant="t", descending=False, after=(1, "a")), CREATED),
    "created between": (
        Query(tenant="t", created_after=1, created_before=2),
        f"{CREATED} AND created_at>? AND created_at<?)",
    ),
    "by execute_at": (
        Query(tenant="t", sort="execute_at", after=(1, "a")),
        "timers USING COVERING INDEX timers_execute (tenant=? AND (execute_at,id)<(?,?))",
    ),
    "executing between": (
        Query(tenant="t", sort="execute_at", execute_after=1, execute_before=2),
        "timers USING COVERING INDEX timers_execute (tenant=? AND execute_at>? AND execute_at<?)",
    ),
    "by correlation id": (
        Query(tenant="t", correlation_id="c", after=(1, "a")),
        "timers USING COVERING INDEX timers_correlation (tenant=? AND correlation_id=?",
    ),
    **{
        status.value: (
            Query(tenant="t", status=status),
            "timers USING COVERING INDEX timers_status (tenant=? AND status=?)",
        )
        for status in Status
    },
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_use_their_index(plan, name):
    """Each common list is read off its index in order, a page at a time."""
    query, expected = LISTS[name]
    assert_searches(plan(*reads.listing(query)), expected)


def test_names_and_tags_are_found_by_their_index(plan):
    """Rarer filters may sort their matches, but find them by an index."""
    by_name = plan(*reads.listing(Query(tenant="t", name_prefix="n")))
    assert any("timers_name (tenant=? AND name>? AND name<?)" in line for line in by_name)
    by_tag = plan(*reads.listing(Query(tenant="t", tag="x")))
    assert any("tags USING PRIMARY KEY (tenant=? AND tag=?" in line for line in by_tag), by_tag


def test_all_shards_need_no_filter():
    """A node that owns every shard filters none; an empty set is still a filter."""
    assert reads.shard_list(ids.ALL_SHARDS) is None
    assert reads.shard_list([]) == "[]"
