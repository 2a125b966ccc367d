"""PostgreSQL: a database is a schema of its own on a server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import islice

import asyncpg

from bench.aims import AIMS
from bench.backlog import far_timers
from bench.databases import BareInsert, Extent
from bench.databases.postgres_rows import TABLES
from bench.databases.served import ServedDatabases
from duetime.model import Status
from duetime.stores.codec import to_columns
from duetime.stores.postgres.address import Address
from duetime.stores.postgres.errors import translated
from duetime.stores.postgres.traits import TRAITS

AT_ONCE = 20_000
SHOWN = ("fsync", "synchronous_commit", "shared_buffers", "max_wal_size")

_BARE_WAYS = {
    "bare asyncpg, COPY": "copy",
    "bare asyncpg, INSERT of arrays": "arrays",
    "bare asyncpg, executemany": "executemany",
}


class PostgresSchema:
    """One schema."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._address = Address.parse(url)
        self._schema = self._address.schema

    def bare_insert(self, way: str) -> BareInsert:
        arguments = ("-m", "bench.bare_postgres", _BARE_WAYS[way])
        return BareInsert(arguments, {"DATABASE_URL": self.url})

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
            timers = far_timers(count, sink_port=9)
            for done in range(0, count, AT_ONCE):
                rows = [to_columns(timer) for timer in islice(timers, AT_ONCE)]
                await asyncio.gather(
                    *(
                        connection.copy_records_to_table(
                            table, schema_name=self._schema, columns=names, records=map(pick, rows)
                        )
                        for connection, (table, names, pick) in zip(
                            connections, TABLES, strict=True
                        )
                    )
                )
                on_progress(done + len(rows))
            await self._on_each(connections, "ALTER TABLE {} RESET (autovacuum_enabled)")
            await self._on_each(connections, "VACUUM (ANALYZE) {}")
            await _checkpoint(connections[0])

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


class PostgresSchemas(ServedDatabases):
    """Schemas on a server."""

    kind = "postgres"
    aims = AIMS[kind]
    num_shards = TRAITS.num_shards
    bare_ways = tuple(_BARE_WAYS)
    database = PostgresSchema

    async def _describe(self) -> dict[str, str]:
        with translated():
            async with _connected(Address.parse(self._url)) as connection:
                version = await connection.fetchval("SHOW server_version")
                settings = [f"{name}={await connection.fetchval(f'SHOW {name}')}" for name in SHOWN]
        return {"postgresql": ", ".join([version, *settings])}

    def _url_of(self, name: str) -> str:
        # Of an option that is there twice, the last counts.
        return f"{self._url}{'&' if '?' in self._url else '?'}schema={name}"

    async def _settle(self, url: str) -> None:
        async with _connected(Address.parse(url)) as connection:
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
