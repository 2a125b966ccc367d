"""What the SQLite store writes and reads in a second, idle and beside a busy event loop.

Run by ``python -m bench.trials.sqlite_calls``. The ceiling is a bare ``executemany`` of the same
rows on the same schema, in transactions of the same size, with nothing else to do.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from bench.backlog import DUE, due_timers, finishing
from duetime import ids, model
from duetime.stores import Change, Insert
from duetime.stores.codec import COLUMNS, to_columns
from duetime.stores.sqlite.file import open_writer
from duetime.stores.sqlite.store import SqliteStore
from duetime.timer import Timer

T = TypeVar("T")

ROUNDS = 16


async def measure(
    name: str, batches: Sequence[Sequence[T]], call: Callable[[Sequence[T]], Awaitable[object]]
) -> None:
    """Run the batches one after the other and print the rows in a second."""
    begun = time.perf_counter()
    for batch in batches:
        await call(batch)
    rows = sum(map(len, batches))
    print(f"  {name:32} {rows / (time.perf_counter() - begun):9,.0f} rows/s")


def split(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """Batches of one size."""
    return [items[start : start + size] for start in range(0, len(items), size)]


async def keep_busy() -> None:
    """Computes in the event loop without a pause longer than a turn of it."""
    while True:
        sum(number * number for number in range(20_000))
        await asyncio.sleep(0)


async def run(folder: Path, *, busy: bool) -> None:
    """Measure every hot call once."""
    print(f"SqliteStore, synchronous=full, {'busy' if busy else 'idle'} event loop")
    store = SqliteStore(folder / f"{busy}.db")
    await store.migrate()
    load = asyncio.ensure_future(keep_busy()) if busy else None
    made = due_timers(ROUNDS * 1_000)

    async def insert_each(batch: Sequence[Timer]) -> None:
        await asyncio.gather(*(store.insert([Insert(timer)]) for timer in batch))

    async def due(batch: Sequence[int]) -> None:
        await store.due(ids.ALL_SHARDS, None, DUE, len(batch))

    async def get(batch: Sequence[Timer]) -> None:
        await store.get([timer.id for timer in batch])

    claims = [Change(old, model.claim(old, "n", DUE, 9_999)) for old in made]
    finishes = [finishing(change.new) for change in claims]
    await measure("insert 1,000", split([Insert(timer) for timer in made], 1_000), store.insert)
    await measure("insert 64 at once, one each", split(due_timers(2_048), 64), insert_each)
    await measure("due, pages of 500", [range(500)] * ROUNDS, due)
    await measure("get 500", split(made, 500), get)
    await measure("claim 500", split(claims, 500), store.apply)
    await measure("finish 500, with attempts", split(finishes, 500), store.apply)
    if load is not None:
        load.cancel()
    await store.close()


def ceiling(folder: Path) -> None:
    """The same rows by a bare executemany, one transaction for each thousand."""
    connection = open_writer(folder / "bare.db", "full")
    names = ", ".join(f'"{column}"' for column in COLUMNS)
    statement = f"INSERT INTO timers ({names}) VALUES ({', '.join('?' * len(COLUMNS))})"
    batches = [[to_columns(t) for t in batch] for batch in split(due_timers(ROUNDS * 1_000), 1_000)]
    begun = time.perf_counter()
    for batch in batches:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(statement, batch)
        connection.execute("COMMIT")
    rate = ROUNDS * 1_000 / (time.perf_counter() - begun)
    connection.close()
    print(f"bare executemany of the same rows    {rate:9,.0f} rows/s")


def main() -> None:
    """Measure in a fresh folder on the disk of the working directory."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        ceiling(Path(folder))
        for busy in (False, True):
            asyncio.run(run(Path(folder), busy=busy))


if __name__ == "__main__":
    main()
