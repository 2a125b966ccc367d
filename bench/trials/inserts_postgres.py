"""Ways to insert timers into PostgreSQL: why those without a key of their own have one for them.

Run by ``python -m bench.trials.inserts_postgres URL``, on the machine of the server: what its
session used of the processor is read from ``/proc``. Each way inserts the same timers, a thousand
at a time on one connection, into a schema of its own, which is dropped afterwards; in turn.
"""

import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import product

import asyncpg
import uvloop

from bench.backlog import far_timers
from bench.databases.postgres import TABLES
from duetime.benching.usage import cpu_seconds
from duetime.stores import Insert
from duetime.stores.codec import to_columns
from duetime.stores.postgres.address import Address
from duetime.stores.postgres.reads import Reads
from duetime.stores.postgres.session import connect
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.postgres.writes import Writes
from duetime.timer import Timer

COUNT = 20_000
AT_ONCE = 1_000
TURNS = 3
SCHEMA = "duetime_inserts"

Way = Callable[[asyncpg.Connection, Sequence[Timer]], Awaitable[object]]

_writes = Writes(SCHEMA, Reads(SCHEMA))


async def _with_care(connection: asyncpg.Connection, timers: Sequence[Timer]) -> None:
    placed = list(enumerate(map(Insert, timers)))
    await _writes._insert_rows(connection, placed, are_fresh=False)  # noqa: SLF001 - it is chosen


async def _as_they_are(connection: asyncpg.Connection, timers: Sequence[Timer]) -> None:
    placed = list(enumerate(map(Insert, timers)))
    await _writes._insert_rows(connection, placed, are_fresh=True)  # noqa: SLF001


async def _copy(connection: asyncpg.Connection, timers: Sequence[Timer]) -> None:
    rows = list(map(to_columns, timers))
    async with connection.transaction():
        for table, columns, pick in TABLES:
            await connection.copy_records_to_table(
                table, schema_name=SCHEMA, columns=columns, records=map(pick, rows)
            )


WAYS: dict[str, Way] = {
    "leaving out who is there": _with_care,
    "as they are": _as_they_are,
    "COPY": _copy,
}


async def _measure(url: str, way: Way) -> tuple[float, float, float]:
    """Microseconds a timer: of the server's session, of this process, and until it was done."""
    address = Address.parse(f"{url}{'&' if '?' in url else '?'}schema={SCHEMA}")
    store = PostgresStore(address)
    await store.migrate()
    await store.close()
    connection = await connect(address)
    try:
        timers, pid = list(far_timers(COUNT)), connection.get_server_pid()
        before = cpu_seconds(pid), time.process_time(), time.perf_counter()
        for at in range(0, COUNT, AT_ONCE):
            await way(connection, timers[at : at + AT_ONCE])
        after = cpu_seconds(pid), time.process_time(), time.perf_counter()
    finally:
        await connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
        await connection.close()
    server, own, whole = ((b - a) * 1e6 / COUNT for a, b in zip(before, after, strict=True))
    return server, own, whole


async def main(url: str) -> None:
    """Measure each in turn, and print it."""
    print("| way | µs of the server a timer | of the driver | in all |\n|---|---|---|---|")
    for _, (name, way) in product(range(TURNS), WAYS.items()):
        server, own, whole = await _measure(url, way)
        print(f"| {name} | {server:.1f} | {own:.1f} | {whole:.1f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    uvloop.run(main(sys.argv[1]))
