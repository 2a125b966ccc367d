"""The stage is what every workload is given: a sink, databases to measure on, and its sizes."""

import asyncio
import time
from pathlib import Path

from bench.databases import Database, Databases
from bench.progress import Progress
from bench.sizes import Sizes
from duetime.benching.failures import BrokenPromise
from duetime.benching.receipts import Receipts
from duetime.benching.servers import Sink
from duetime.timer import Status

SETTLE = 0.5  # seconds in which a duplicate would still turn up
WRITTEN_WITHIN = 30.0  # seconds in which all outcomes must have been written


class Stage:
    """What a workload works with."""

    def __init__(
        self, databases: Databases, sink: Sink, progress: Progress, sizes: Sizes, data: Path
    ) -> None:
        self.databases = databases
        self.sink = sink
        self.progress = progress
        self.sizes = sizes
        self.data = data  # a folder on the disk that is measured

    async def arrived(self, expected: int, within: float) -> Receipts:
        """Wait until so many callbacks have arrived, and check that every promise was kept."""
        receipts = await self.received(expected, within)
        if broken := receipts.violations(expected):
            raise BrokenPromise(", ".join(broken))
        return receipts

    async def received(self, expected: int, within: float) -> Receipts:
        """Wait until so many callbacks have arrived, or no longer; what came is not judged."""
        deadline = time.monotonic() + within
        while (count := await self.sink.count()) < expected and time.monotonic() < deadline:
            self.progress.at(count)
            await asyncio.sleep(0.2)
        await asyncio.sleep(SETTLE)
        return await self.sink.receipts()


async def check_stored(database: Database, expected: int, *statuses: Status) -> None:
    """Check that so many timers are stored, with one of these statuses if any are named.

    A slow store is given time: outcomes are written after the callbacks they are of.
    """
    give_up_at = time.monotonic() + WRITTEN_WITHIN
    while (found := await database.count(*statuses)) != expected:
        if time.monotonic() < give_up_at:
            await asyncio.sleep(SETTLE)
            continue
        raise BrokenPromise(f"{found} timers are stored as they should be, not {expected}")
