"""Layouts of the tables in PostgreSQL, measured beside each other: why the schema is what it is.

Run by ``python -m bench.trials.layouts_postgres URL``. Each layout is made in a schema of its own,
which is dropped afterwards. Timers are inserted a thousand at a time, claimed and finished 500 at a
time, on two connections; the answer is rows a second, bytes of write-ahead log for each timer, and
bytes on disk.
"""

import asyncio
import random
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import asyncpg

from duetime import ids

COUNT = 60_000
CONNECTIONS = 2
SCHEMA = "duetime_layouts"

_SPEC = (
    '{"callback":{"type":"http","url":"http://127.0.0.1:9/hook","payload":{"order":"A-%08d",'
    '"customer":4711,"action":"expire"}},"correlation_id":"%s"}'
)
_CLAIMED = (
    '{"attempt":1,"first_attempt_at":1750000000000,"claimed_at":1750000000000,'
    '"claimed_by":"host-12345-abcdef"}'
)
_DONE = (
    '{"attempt":1,"first_attempt_at":1750000000000,'
    '"outcome":{"kind":"ok","status_code":200,"latency_ms":3}}'
)
_ATTEMPTS = """
CREATE TABLE attempts (timer UUID, occurrence INTEGER, attempt INTEGER, node TEXT,
    started_at BIGINT, finished_at BIGINT, outcome TEXT, PRIMARY KEY (timer, occurrence, attempt));
"""
_STATE = """
    wake_at BIGINT, updated_at BIGINT NOT NULL, executed_at BIGINT, version INTEGER NOT NULL,
    weight INTEGER NOT NULL, shard SMALLINT NOT NULL, status TEXT NOT NULL COLLATE "C",
    progress TEXT NOT NULL"""
_ASKED = """
    tenant TEXT NOT NULL COLLATE "C", "group" TEXT NOT NULL COLLATE "C",
    timer_id TEXT NOT NULL COLLATE "C", execute_at BIGINT NOT NULL, created_at BIGINT NOT NULL,
    fingerprint TEXT, name TEXT COLLATE "C", correlation_id TEXT NOT NULL COLLATE "C",
    spec TEXT NOT NULL"""
_LISTS = """
CREATE INDEX ON timers (tenant, id);
CREATE INDEX ON timers (tenant, execute_at, id);
CREATE INDEX ON timers (tenant, correlation_id, id);
CREATE INDEX ON timers (tenant, name) WHERE name IS NOT NULL;
"""
_INCLUDED = " INCLUDE (shard, version, weight, status)"
_STATUSES = {
    "all": "(tenant, status, id)",
    "but completed": "(tenant, status, id) WHERE status <> 'completed'",
}


class Layout(NamedTuple):
    """How the tables are made, and how a batch is written to them."""

    tables: str
    inserting: str
    hot: str  # the table that claims and outcomes are written to


def one_table(*, partitions: int = 0, fillfactor: int = 100) -> Layout:
    """All of a timer in one row."""
    key = ", shard" if partitions else ""
    how = "PARTITION BY HASH (shard)" if partitions else f"WITH (fillfactor = {fillfactor})"
    tables = (
        f"CREATE TABLE timers (id UUID NOT NULL, {_ASKED}, {_STATE}) {how};"
        + _partitions("timers", partitions)
        + f"CREATE UNIQUE INDEX ON timers (id{key});"
        + f'CREATE UNIQUE INDEX ON timers (tenant, "group", timer_id{key});'
        + _LISTS
        + _hot_indexes("timers", _INCLUDED, "all")
        + _ATTEMPTS
    )
    inserting = """INSERT INTO timers (id, shard, tenant, "group", timer_id, version, status,
        execute_at, wake_at, created_at, updated_at, correlation_id, weight, progress, spec)
        SELECT i, s, 'default', 'default', i::text, 1, 'pending', e, e, c, c, i::text, 2100, '{}', p
        FROM unnest($1::uuid[], $2::int2[], $3::int8[], $4::int8[], $5::text[]) AS w (i, s, e, c, p)
        ON CONFLICT DO NOTHING"""
    return Layout(tables, inserting, "timers")


def two_tables(
    *,
    partitions: int = 0,
    fillfactor: int = 100,
    included: str = _INCLUDED,
    statuses: str = "but completed",
) -> Layout:
    """What the user asked for in one row, how far it has come in another."""
    how = "PARTITION BY HASH (id)" if partitions else f"WITH (fillfactor = {fillfactor})"
    tables = (
        f"CREATE TABLE timers (id UUID NOT NULL PRIMARY KEY, {_ASKED});"
        'CREATE UNIQUE INDEX ON timers (tenant, "group", timer_id);'
        + _LISTS
        + f'CREATE TABLE states (id UUID NOT NULL, tenant TEXT COLLATE "C", {_STATE}) {how};'
        + _partitions("states", partitions)
        + "ALTER TABLE states ADD PRIMARY KEY (id);"
        + _hot_indexes("states", included, statuses)
        + _ATTEMPTS
    )
    inserting = """WITH w AS (SELECT * FROM
        unnest($1::uuid[], $2::int2[], $3::int8[], $4::int8[], $5::text[]) AS w (i, s, e, c, p)),
        stored AS (INSERT INTO timers (id, tenant, "group", timer_id, execute_at, created_at,
            correlation_id, spec) SELECT i, 'default', 'default', i::text, e, c, i::text, p FROM w
            ON CONFLICT DO NOTHING RETURNING id)
        INSERT INTO states (id, shard, tenant, version, status, wake_at, updated_at, weight,
            progress)
        SELECT i, s, 'default', 1, 'pending', e, c, 2100, '{}' FROM w JOIN stored ON id = i"""
    return Layout(tables, inserting, "states")


def _partitions(table: str, count: int) -> str:
    return "".join(
        f"CREATE TABLE {table}_{number} PARTITION OF {table} "
        f"FOR VALUES WITH (modulus {count}, remainder {number});"
        for number in range(count)
    )


def _hot_indexes(table: str, included: str, statuses: str) -> str:
    by_status = f"CREATE INDEX ON {table} {_STATUSES[statuses]};" if statuses else ""
    return (
        f"CREATE INDEX ON {table} (wake_at, id){included} WHERE wake_at IS NOT NULL;"
        f"CREATE INDEX ON {table} (updated_at) "
        f"WHERE status IN ('completed', 'failed', 'canceled');{by_status}"
    )


def _updating(table: str, status: str) -> str:
    wake_at = "w.wake" if status == "executing" else "NULL"
    logging = (
        "SELECT count(*) FROM won"
        if status == "executing"
        else "INSERT INTO attempts SELECT id, 1, 1, 'node', 1, 2, '{\"kind\":\"ok\"}' FROM won"
    )
    return f"""WITH w AS (SELECT * FROM
        unnest($1::uuid[], $2::int4[], $3::int8[], $4::text[]) AS w (id, version, wake, progress)),
        won AS (UPDATE {table} t SET version = w.version + 1, status = '{status}',
            wake_at = {wake_at}, updated_at = w.wake, progress = w.progress
            FROM w WHERE t.id = w.id AND t.version = w.version RETURNING t.id)
        {logging}"""


LAYOUTS = {
    "one table": one_table(),
    "one table, 16 partitions": one_table(partitions=16),
    "one table, fillfactor 70": one_table(fillfactor=70),
    "two tables, as they are": two_tables(),
    "two, 16 partitions": two_tables(partitions=16),
    "two, fillfactor 70": two_tables(fillfactor=70),
    "two, due index without columns": two_tables(included=""),
    "two, every status indexed": two_tables(statuses="all"),
    "two, no status indexed": two_tables(statuses=""),
}


class Trial:
    """One layout, filled and worked through."""

    def __init__(self, url: str, layout: Layout) -> None:
        self._url = url
        self._layout = layout
        now = 1_750_000_000_000
        self._rows: list[tuple[Any, ...]] = []
        for number in range(COUNT):
            shard = ids.spread_shard(256)
            id_ = ids.new_id(now + number // 100, shard)
            due = now + random.randrange(10_000_000)
            self._rows.append((id_, shard, due, now + number // 100, _SPEC % (number, id_)))

    async def run(self) -> list[str]:
        """Measure; each answer is fit for a table."""
        own = await asyncpg.connect(self._url)
        await own.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; CREATE SCHEMA {SCHEMA}")
        await own.execute(f"SET search_path TO {SCHEMA}")
        try:
            await own.execute(self._layout.tables)
            answers = [await self._phase(own, self._layout.inserting, self._inserts())]
            await own.execute("ANALYZE")
            self._rows.sort(key=lambda row: row[2])
            for status, version, progress in (("executing", 1, _CLAIMED), ("completed", 2, _DONE)):
                statement = _updating(self._layout.hot, status)
                answers.append(await self._phase(own, statement, self._changes(version, progress)))
            size = await own.fetchval(
                "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' "
                "AND relnamespace = to_regnamespace($1)",
                SCHEMA,
            )
            return [*answers, f"{size / COUNT:,.0f} B"]
        finally:
            await own.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
            await own.close()

    def _inserts(self) -> Iterator[list[Any]]:
        for start in range(0, COUNT, 1_000):
            yield [list(column) for column in zip(*self._rows[start : start + 1_000], strict=True)]

    def _changes(self, version: int, progress: str) -> Iterator[list[Any]]:
        for start in range(0, COUNT, 500):
            part = sorted(self._rows[start : start + 500])
            times = [row[2] for row in part]
            yield [[row[0] for row in part], [version] * 500, times, [progress] * 500]

    async def _phase(
        self, own: asyncpg.Connection, statement: str, batches: Iterator[list[Any]]
    ) -> str:
        batches = iter(list(batches))
        settings = {"jit": "off", "search_path": SCHEMA}
        connections = [
            await asyncpg.connect(self._url, server_settings=settings) for _ in range(CONNECTIONS)
        ]

        async def work(connection: asyncpg.Connection) -> None:
            for batch in batches:
                await connection.execute(statement, *batch)

        before = await own.fetchval("SELECT pg_current_wal_insert_lsn()::text")
        started = time.perf_counter()
        await asyncio.gather(*map(work, connections))
        seconds = time.perf_counter() - started
        written = await own.fetchval(
            "SELECT pg_current_wal_insert_lsn() - $1::text::pg_lsn", before
        )
        for connection in connections:
            await connection.close()
        return f"{COUNT / seconds:,.0f}/s, {written / COUNT:,.0f} B"


async def main(url: str) -> None:
    """Measure every layout, and print a table."""
    print("| layout | insert | claim | finish | on disk |\n|---|---|---|---|---|")
    for name, layout in LAYOUTS.items():
        answers = await Trial(url, layout).run()
        print(f"| {name} | {' | '.join(answers)} |", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
