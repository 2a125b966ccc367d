"""PostgreSQL: a database is a schema of its own on a server."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import islice
from operator import itemgetter
from typing import Any, ClassVar

import asyncpg
import uvloop

from bench.aims import Aims
from bench.backlog import far_rows, far_timers
from bench.databases import Extent, Way
from bench.databases.served import ServedDatabases
from bench.sizes import Sizes
from duetime.stores.codec import COLUMNS, to_columns
from duetime.stores.postgres.address import Address
from duetime.stores.postgres.errors import translated
from duetime.stores.postgres.statements import NEW_STATE, NEW_TIMER
from duetime.stores.postgres.traits import TRAITS
from duetime.timer import Status

AT_ONCE = 20_000
SHOWN = ("fsync", "synchronous_commit", "shared_buffers", "max_wal_size")

Row = tuple[Any, ...]

_KINDS = {**NEW_TIMER, **NEW_STATE}
_TIMERS = tuple(name.strip('"') for name in NEW_TIMER)
_STATES = ("id", "tenant", *NEW_STATE)


def _picking(names: tuple[str, ...]) -> Callable[[Sequence[Any]], Row]:
    return itemgetter(*map(COLUMNS.index, names))


# The tables, with the columns that are written, and how these are picked from what
# ``codec.to_columns`` makes of a timer.
TABLES = (
    ("timers", _TIMERS, _picking(_TIMERS)),
    ("states", _STATES, _picking(_STATES)),
)


class PostgresSchema:
    """One schema."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._address = Address.parse(url)
        self._schema = self._address.schema

    async def count(self, *statuses: Status) -> int:
        where = "WHERE status = ANY($1::text[])" if statuses else ""
        values = [[status.value for status in statuses]] if statuses else []
        async with _connected(self._address) as connection:
            return int(
                await connection.fetchval(
                    f"SELECT count(*) FROM {self._schema}.states {where}", *values
                )
            )

    async def fill(self, count: int, on_progress: Callable[[int], None]) -> None:
        # Each table has a connection, so that the server works on both at once.
        async with AsyncExitStack() as stack:
            connections = [
                await stack.enter_async_context(_connected(self._address)) for _ in TABLES
            ]
            await self._on_each(connections, "ALTER TABLE {} SET (autovacuum_enabled = false)")
            indexes = await self._drop_indexes(connections[0])
            rows = far_rows(count)
            for done in range(0, count, AT_ONCE):
                some = list(islice(rows, AT_ONCE))
                await asyncio.gather(
                    *(
                        connection.copy_records_to_table(
                            table, schema_name=self._schema, columns=names, records=map(pick, some)
                        )
                        for connection, (table, names, pick) in zip(
                            connections, TABLES, strict=True
                        )
                    )
                )
                on_progress(done + len(some))
            for statement in indexes:
                await connections[0].execute(statement)
                on_progress(count)
            await self._on_each(connections, "ALTER TABLE {} RESET (autovacuum_enabled)")
            await self._on_each(connections, "VACUUM (ANALYZE) {}")
            await _checkpoint(connections[0])

    async def _drop_indexes(self, connection: asyncpg.Connection) -> list[str]:
        """Drop those that no constraint needs, and tell the statements that make them again.

        Sorted at the end, each page of them is written once.
        """
        found = await connection.fetch(
            "SELECT format('%I.%I', n.nspname, c.relname) AS name, "
            "pg_get_indexdef(i.indexrelid) AS made_by "
            "FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_class t ON t.oid = i.indrelid "
            "WHERE n.nspname = $1 AND t.relname = ANY($2::text[]) "
            "AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid)",
            self._schema,
            [table for table, _, _ in TABLES],
        )
        for index in found:
            await connection.execute(f"DROP INDEX {index['name']}")
        return [index["made_by"] for index in found]

    async def _on_each(self, connections: list[asyncpg.Connection], statement: str) -> None:
        """Run a statement on each table."""
        for connection, (table, _, _) in zip(connections, TABLES, strict=True):
            await connection.execute(statement.format(f"{self._schema}.{table}"))

    async def extent(self) -> Extent:
        async with _connected(self._address) as connection:
            [(table, index, dead)] = await connection.fetch(
                "SELECT sum(pg_table_size(relid)), sum(pg_indexes_size(relid)), sum(n_dead_tup) "
                "FROM pg_stat_user_tables WHERE schemaname = $1",
                self._schema,
            )
        return Extent(table_mb=int(table) / 1e6, index_mb=int(index) / 1e6, dead_rows=int(dead))


# The bare driver ------------------------------------------------------------------------------

Insert = Callable[[asyncpg.Connection, str, str, tuple[str, ...], Sequence[Row]], Awaitable[object]]


async def _copy(
    connection: asyncpg.Connection,
    schema: str,
    table: str,
    columns: tuple[str, ...],
    rows: Sequence[Row],
) -> None:
    await connection.copy_records_to_table(table, schema_name=schema, columns=columns, records=rows)


async def _arrays(
    connection: asyncpg.Connection,
    schema: str,
    table: str,
    columns: tuple[str, ...],
    rows: Sequence[Row],
) -> None:
    values = ", ".join(f"${place}::{_kind(name)}[]" for place, name in enumerate(columns, 1))
    statement = f"INSERT INTO {schema}.{table} ({_names(columns)}) SELECT * FROM unnest({values})"
    await connection.execute(statement, *map(list, zip(*rows, strict=True)))


async def _executemany(
    connection: asyncpg.Connection,
    schema: str,
    table: str,
    columns: tuple[str, ...],
    rows: Sequence[Row],
) -> None:
    values = ", ".join(f"${place}" for place, _ in enumerate(columns, 1))
    statement = f"INSERT INTO {schema}.{table} ({_names(columns)}) VALUES ({values})"
    await connection.executemany(statement, rows)


def _names(columns: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _kind(column: str) -> str:
    return _KINDS.get(column) or _KINDS[f'"{column}"']


async def _insert(insert: Insert, address: Address, count: int, size: int) -> float:
    """Insert so many timers on one connection, and tell how fast that was."""
    timers = [to_columns(timer) for timer in far_timers(count)]
    tables = [(name, columns, list(map(pick, timers))) for name, columns, pick in TABLES]
    connection = await asyncpg.connect(address.dsn)
    started = time.perf_counter()
    for at in range(0, count, size):
        async with connection.transaction():
            for name, columns, rows in tables:
                await insert(connection, address.schema, name, columns, rows[at : at + size])
    seconds = time.perf_counter() - started
    await connection.close()
    return count / seconds


def _way(insert: Insert) -> Way:
    def run(url: str, count: int, size: int) -> float:
        return uvloop.run(_insert(insert, Address.parse(url), count, size))

    return run


WAYS: dict[str, Way] = {
    # The fastest way into a table that there is, but it fails as a whole when a key is taken.
    "bare asyncpg, COPY": _way(_copy),
    # One array for each column.
    "bare asyncpg, INSERT of arrays": _way(_arrays),
    # What one would write first.
    "bare asyncpg, executemany": _way(_executemany),
}


class PostgresSchemas(ServedDatabases):
    """Schemas on a server."""

    kind = "postgres"
    aims = Aims(creates=0.6, batches=0.65, burst=0.65)
    sizes = Sizes(pending=(10_000, 1_000_000, 10_000_000), turns=5, start_pending=10_000_000)
    num_shards = TRAITS.num_shards
    bare_ways = tuple(WAYS)
    database = PostgresSchema
    server = "postgres-18"
    server_options: ClassVar = {
        "fsync": True,
        "settings": {
            "shared_buffers": "1GB",
            "max_wal_size": "4GB",
            "maintenance_work_mem": "256MB",
            "synchronous_commit": "on",
        },
    }

    async def _describe(self) -> dict[str, str]:
        with translated():
            async with _connected(Address.parse(self._url)) as connection:
                version = await connection.fetchval("SHOW server_version")
                settings = [f"{name}={await connection.fetchval(f'SHOW {name}')}" for name in SHOWN]
        return {"postgresql": ", ".join([version, *settings])}

    def _url_of(self, name: str) -> str:
        # Of an option that is there twice, the last counts.
        return f"{self._url}{'&' if '?' in self._url else '?'}schema={name}"

    async def settle(self, url: str) -> None:
        address = Address.parse(url)
        async with _connected(address) as connection:
            tables = await connection.fetch(
                "SELECT format('%I.%I', schemaname, tablename) AS name "
                "FROM pg_tables WHERE schemaname = $1",
                address.schema,
            )
            for table in tables:  # else the server does it by itself, within a minute or so
                await connection.execute(f"VACUUM (ANALYZE) {table['name']}")
            await _checkpoint(connection)

    async def _drop(self, url: str) -> None:
        address = Address.parse(url)
        async with _connected(address) as connection:
            await connection.execute(f"DROP SCHEMA IF EXISTS {address.schema} CASCADE")


@asynccontextmanager
async def _connected(address: Address) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(address.dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def _checkpoint(connection: asyncpg.Connection) -> None:
    """Let the disk catch up with what came before, where we may ask for that."""
    with suppress(asyncpg.InsufficientPrivilegeError):
        await connection.execute("CHECKPOINT")
