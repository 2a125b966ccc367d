"""The bare driver of PostgreSQL inserts timers and does nothing else: the ceiling of batch creates.

Same tables, same indexes, same durability as the store. ``copy`` is COPY, the fastest way into a
table that there is, but it fails as a whole when a single key is taken. ``arrays`` is an INSERT of
one array for each column. ``executemany`` is what one would write first.

Run as ``python -m bench.bare_postgres HOW COUNT SIZE`` with DATABASE_URL set, on a schema that is
migrated; so many rows are in a transaction, on one connection; it prints rows a second.
"""

import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

import asyncpg
import uvloop

from bench.backlog import far_timers
from bench.databases.postgres_rows import TABLES, Row
from duetime.stores.codec import to_columns
from duetime.stores.postgres.address import Address
from duetime.stores.postgres.statements import NEW_STATE, NEW_TIMER

_KINDS = {**NEW_TIMER, **NEW_STATE}

Insert = Callable[[asyncpg.Connection, str, str, tuple[str, ...], Sequence[Row]], Awaitable[object]]


async def copy(
    connection: asyncpg.Connection,
    schema: str,
    table: str,
    columns: tuple[str, ...],
    rows: Sequence[Row],
) -> None:
    await connection.copy_records_to_table(table, schema_name=schema, columns=columns, records=rows)


async def arrays(
    connection: asyncpg.Connection,
    schema: str,
    table: str,
    columns: tuple[str, ...],
    rows: Sequence[Row],
) -> None:
    values = ", ".join(f"${place}::{_kind(name)}[]" for place, name in enumerate(columns, 1))
    statement = f"INSERT INTO {schema}.{table} ({_names(columns)}) SELECT * FROM unnest({values})"
    await connection.execute(statement, *map(list, zip(*rows, strict=True)))


async def executemany(
    connection: asyncpg.Connection,
    schema: str,
    table: str,
    columns: tuple[str, ...],
    rows: Sequence[Row],
) -> None:
    values = ", ".join(f"${place}" for place, _ in enumerate(columns, 1))
    statement = f"INSERT INTO {schema}.{table} ({_names(columns)}) VALUES ({values})"
    await connection.executemany(statement, rows)


WAYS: dict[str, Insert] = {"copy": copy, "arrays": arrays, "executemany": executemany}


def _names(columns: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _kind(column: str) -> str:
    return _KINDS.get(column) or _KINDS[f'"{column}"']


async def rows_per_second(address: Address, insert: Insert, count: int, size: int) -> float:
    """Insert so many timers, and tell how fast that was."""
    timers = [to_columns(timer) for timer in far_timers(count, sink_port=9)]
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


async def main() -> None:
    """Do what the arguments say."""
    how, count, size = sys.argv[1:]
    address = Address.parse(os.environ["DATABASE_URL"])
    print(await rows_per_second(address, WAYS[how], int(count), int(size)))


if __name__ == "__main__":
    uvloop.run(main())
