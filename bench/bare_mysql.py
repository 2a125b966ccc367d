"""The bare driver of MySQL inserts timers and does nothing else: the ceiling of batch creates.

Same tables, same indexes, same durability as the store. ``ready`` sends statements of many rows
that were written beforehand, the fastest way into a table over one connection. ``executemany`` is
what one would write first: the driver makes such statements of values.

Run as ``python -m bench.bare_mysql HOW COUNT SIZE`` with DATABASE_URL set, on a database that is
migrated; so many rows are in a transaction, on one connection; it prints rows a second.
"""

import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import asyncmy
import uvloop

from bench.backlog import far_timers
from duetime.model import Timer
from duetime.stores.codec import progress_text, to_json
from duetime.stores.mysql import statements
from duetime.stores.mysql.address import Address

# What a way prepares for each batch, and how it sends that.
Prepare = Callable[[Sequence[Timer]], Any]
Send = Callable[[Any, Any], Awaitable[None]]


def prepare_ready(batch: Sequence[Timer]) -> tuple[bytes, bytes]:
    return (
        statements.inserting_timers([statements.timer_row(timer) for timer in batch]),
        statements.inserting_states([statements.state_row(timer) for timer in batch]),
    )


async def send_ready(cursor: Any, ready: tuple[bytes, bytes]) -> None:
    for statement in ready:
        await cursor.execute(statement)


def prepare_values(batch: Sequence[Timer]) -> tuple[list[Any], list[Any]]:
    return [_timer_values(timer) for timer in batch], [_state_values(timer) for timer in batch]


async def send_values(cursor: Any, values: tuple[list[Any], list[Any]]) -> None:
    for table, columns, rows in zip(
        ("timers", "states"), (statements.TIMER, statements.STATE), values, strict=True
    ):
        marks = ", ".join(["%s"] * len(columns))
        await cursor.executemany(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows
        )


def _id(timer: Timer) -> bytes:
    return bytes.fromhex(timer.id.replace("-", ""))


def _timer_values(timer: Timer) -> tuple[Any, ...]:
    spec = timer.spec
    return (
        *(_id(timer), timer.tenant, timer.group, timer.timer_id, timer.execute_at),
        *(timer.created_at, timer.fingerprint, spec.name, spec.correlation_id, to_json(spec)),
    )


def _state_values(timer: Timer) -> tuple[Any, ...]:
    return (
        *(_id(timer), timer.wake_at, timer.updated_at, timer.executed_at, None, timer.version),
        *(timer.weight, timer.shard, timer.status.value, timer.tenant),
        progress_text(timer.progress),
    )


WAYS: dict[str, tuple[Prepare, Send]] = {
    "ready": (prepare_ready, send_ready),
    "executemany": (prepare_values, send_values),
}


async def rows_per_second(address: Address, how: str, count: int, size: int) -> float:
    """Insert so many timers, and tell how fast that was."""
    prepare, send = WAYS[how]
    timers = list(far_timers(count, sink_port=9))
    batches = [prepare(timers[at : at + size]) for at in range(0, count, size)]
    connection = await asyncmy.connect(
        host=address.host,
        port=address.port,
        user=address.user,
        password=address.password,
        database=address.database,
        binary_prefix=True,
    )
    cursor = connection.cursor()
    started = time.perf_counter()
    for batch in batches:
        await connection.begin()
        await send(cursor, batch)
        await connection.commit()
    seconds = time.perf_counter() - started
    connection.close()
    return count / seconds


async def main() -> None:
    """Do what the arguments say."""
    how, count, size = sys.argv[1:]
    address = Address.parse(os.environ["DATABASE_URL"])
    print(await rows_per_second(address, how, int(count), int(size)))


if __name__ == "__main__":
    uvloop.run(main())
