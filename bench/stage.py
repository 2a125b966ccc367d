"""The stage is what every workload is given: a sink, a folder on a real disk, and its sizes."""

import asyncio
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.progress import Progress
from bench.receipts import Receipts
from bench.servers import Sink

SETTLE = 0.5  # seconds in which a duplicate would still turn up


class BrokenPromise(Exception):
    """A timer was early, lost or duplicated."""


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much each workload does."""

    creates: int = 10_000
    batched: int = 30_000
    burst: int = 10_000
    per_second: int = 200
    seconds: int = 30
    pending: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    turns: int = 9  # of each of these,
    turn_seconds: int = 15  # so long
    idle_seconds: int = 20


QUICK = Sizes(
    creates=2_000,
    batched=5_000,
    burst=2_000,
    seconds=5,
    pending=(1_000, 10_000),
    turns=1,
    turn_seconds=5,
    idle_seconds=5,
)


class Stage:
    """What a workload works with."""

    def __init__(self, data: Path, sink: Sink, progress: Progress, sizes: Sizes) -> None:
        self._data = data
        self.sink = sink
        self.progress = progress
        self.sizes = sizes

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A fresh folder for one database."""
        path = Path(tempfile.mkdtemp(dir=self._data))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    async def arrived(self, expected: int, within: float) -> Receipts:
        """Wait until so many callbacks have arrived, and check that every promise was kept."""
        deadline = time.monotonic() + within
        while (count := await self.sink.count()) < expected and time.monotonic() < deadline:
            self.progress.at(count)
            await asyncio.sleep(0.2)
        await asyncio.sleep(SETTLE)
        receipts = await self.sink.receipts()
        if broken := receipts.violations(expected):
            raise BrokenPromise(", ".join(broken))
        return receipts


def check_stored(database: Path, expected: int, where: str = "1") -> None:
    """Check that so many timers are in the file."""
    with sqlite3.connect(database) as connection:
        (found,) = connection.execute(f"SELECT count(*) FROM timers WHERE {where}").fetchone()
    connection.close()
    if found != expected:
        raise BrokenPromise(f"{found} timers are stored as they should be, not {expected}")
