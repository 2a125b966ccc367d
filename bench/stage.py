"""The stage is what every workload is given: a sink, databases to measure on, and its sizes."""

import asyncio
import time

import msgspec

from bench.databases import Database, Databases
from bench.progress import Progress
from bench.receipts import Receipts
from bench.servers import Sink
from duetime.model import Status

SETTLE = 0.5  # seconds in which a duplicate would still turn up
WRITTEN_WITHIN = 30.0  # seconds in which all outcomes must have been written


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
    fired: int = 1_000_000
    rounds: int = 16  # in so many parts,
    round_seconds: int = 30  # each at least so long
    probe_seconds: int = 2
    retention_seconds: int = 20


# A server may well hold more, and takes longer to be filled.
SIZES = {
    "sqlite": Sizes(),
    "cassandra": Sizes(turns=5),
    "postgres": Sizes(pending=(10_000, 1_000_000, 10_000_000), turns=5),
    "mongodb": Sizes(turns=5),
    "dynamodb": Sizes(pending=(10_000, 100_000, 1_000_000), turns=3),
    "mysql": Sizes(turns=5),
}
QUICK = Sizes(
    creates=2_000,
    batched=5_000,
    burst=2_000,
    seconds=5,
    pending=(1_000, 10_000),
    turns=1,
    turn_seconds=5,
    idle_seconds=5,
    fired=8_000,
    rounds=4,
    round_seconds=0,
    probe_seconds=1,
    retention_seconds=1,
)


class Stage:
    """What a workload works with."""

    def __init__(self, databases: Databases, sink: Sink, progress: Progress, sizes: Sizes) -> None:
        self.databases = databases
        self.sink = sink
        self.progress = progress
        self.sizes = sizes

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
