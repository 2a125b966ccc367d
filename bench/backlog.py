"""A backlog is timers that are due far in the future, put straight into the store's file."""

import asyncio
import os
import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from msgspec import Raw

from bench.requests import FAR, now_ms
from duetime import ids
from duetime.model import HttpCallback, Spec, Timer
from duetime.stores.codec import COLUMNS, to_columns
from duetime.stores.sqlite_file import open_writer

YEAR = 365 * 86_400_000
AT_ONCE = 5_000

_NAMES = ", ".join(f'"{column}"' for column in COLUMNS)
INSERTING = f"INSERT INTO timers ({_NAMES}) VALUES ({', '.join('?' * len(COLUMNS))})"


def far_timers(count: int, sink_port: int) -> Iterator[Timer]:
    """Timers that are due some time between tomorrow and in a year, in no order."""
    now = now_ms()
    chance = random.Random(count)
    url = f"http://127.0.0.1:{sink_port}/hook"
    for number in range(count):
        id_ = ids.new_id(now + number // 100, ids.spread_shard(256))
        due = now + FAR + chance.randrange(YEAR)
        payload = Raw(b'{"order":"A-%08d","customer":4711,"action":"expire"}' % number)
        yield Timer(
            id=id_,
            tenant="default",
            group="default",
            timer_id=id_,
            execute_at=due,
            wake_at=due,
            created_at=now,
            updated_at=now,
            spec=Spec(callback=HttpCallback(url=url, payload=payload), correlation_id=id_),
        )


async def fill(path: Path, count: int, on_progress: Callable[[int], None]) -> None:
    """Make a file with so many timers. It is not measured, so it does not wait for the disk."""
    connection = open_writer(path, "off")
    connection.execute("PRAGMA cache_size = -1048576")  # all of it: a gigabyte
    timers = far_timers(count, sink_port=9)
    for done in range(0, count, AT_ONCE):
        rows = [to_columns(timer) for timer in islice(timers, AT_ONCE)]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERTING, rows)
        connection.execute("COMMIT")
        on_progress(done + len(rows))
        await asyncio.sleep(0)  # a place to be interrupted at
    connection.close()
    _flush(path)


def _flush(path: Path) -> None:
    """Let the disk catch up, or else the first commits that are measured would wait for it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
