"""W7, a million fired: whether the database grows, or timers get later, as time goes on.

Finished timers are kept for a few seconds only, so that dropping them is part of it. In each round
timers are fired as fast as it goes, and then a small stream is sent, to see how late it is. All the
while the database is looked at, for what it needs goes up and down between two sweeps.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median
from typing import NamedTuple, TypeVar

from bench.databases import Database, Extent
from bench.figure import Aim, Figure
from bench.servers import duetime
from bench.stage import Stage, check_stored
from bench.workloads.steady import paced
from duetime.benching import requests
from duetime.benching.load import flood
from duetime.benching.process import Process
from duetime.benching.receipts import Receipts
from duetime.engine.janitor import SWEEP_EVERY
from duetime.timer import Status

T = TypeVar("T")

BATCH = 1_000
BATCH_CONNECTIONS = 2
PROBED_AHEAD = 1_000
STEADY = 1.2  # times as much may be needed, and still nothing grows
LOOK_EVERY = 2.0
# PostgreSQL sweeps up dead rows once a minute, and uses pages of an index again a minute later.
REUSED_AFTER = 120.0


class Round(NamedTuple):
    """What was seen in one round."""

    per_second: float
    probe: Receipts
    extent: Extent  # the most of each that was seen
    ended_at: float  # seconds since the first began


async def run(stage: Stage) -> list[Figure]:
    """Fire all of them, round by round."""
    retention = f"{stage.sizes.retention_seconds}s"
    async with stage.databases.fresh() as database:
        async with duetime(database, RETENTION=retention) as server:
            rounds: list[Round] = []
            started = time.monotonic()
            for number in range(stage.sizes.rounds):
                ends_at = time.monotonic() + stage.sizes.round_seconds
                async with _watched(database) as seen:
                    per_second, probe = await fire(stage, server, f"w7 round {number + 1}")
                    await asyncio.sleep(max(ends_at - time.monotonic(), 0))
                ended_at = time.monotonic() - started
                rounds.append(Round(per_second, probe, peak(seen), ended_at))
        await check_stored(database, 0, Status.PENDING, Status.EXECUTING, Status.FAILED)
    settled_after = stage.sizes.retention_seconds + SWEEP_EVERY + REUSED_AFTER
    return compared(rounds, settled_after)


@asynccontextmanager
async def _watched(database: Database) -> AsyncIterator[list[Extent]]:
    """Look at a database every now and then, and once at the end."""
    seen: list[Extent] = []

    async def look() -> None:
        while True:
            seen.append(await database.extent())
            await asyncio.sleep(LOOK_EVERY)

    async with asyncio.TaskGroup() as group:
        looking = group.create_task(look())
        yield seen
        looking.cancel()
    seen.append(await database.extent())


def peak(seen: list[Extent]) -> Extent:
    """The most of each that was seen, not all at once."""
    return Extent(
        table_mb=max(extent.table_mb for extent in seen),
        index_mb=max((e.index_mb for e in seen if e.index_mb is not None), default=None),
        dead_rows=max((e.dead_rows for e in seen if e.dead_rows is not None), default=None),
    )


def compared(rounds: list[Round], settled_after: float) -> list[Figure]:
    """Compare quarters. The last one stands beside the first, or, where room is meant, the second.

    Until what was dropped has made room for what comes, the database can only grow. So the first
    quarter, which begins with an empty one, says nothing of room; nor does a run whose second
    quarter ends before that.
    """
    _, second, _, _ = _quarters(rounds)
    aim = Aim("ratio <=", STEADY) if second[-1].ended_at > settled_after else None
    return [_rate(rounds), _lateness(rounds), *_extents(rounds, aim)]


async def fire(stage: Stage, server: Process, task: str) -> tuple[float, Receipts]:
    """One round: callbacks a second, and what a probe found afterwards."""
    port, count = stage.sink.port, stage.sizes.fired // stage.sizes.rounds
    bodies = [requests.soon(port, 0, number) for number in range(count)]
    load = requests.batches(bodies, BATCH)
    await stage.sink.forget()
    stage.progress.begin(f"{task}, firing", count)
    (await flood(server.port, load, BATCH_CONNECTIONS)).check(b"200", len(load))
    fired = await stage.arrived(count, within=60 + count / 500)
    probes = stage.sizes.per_second * stage.sizes.probe_seconds
    bodies = [requests.soon(port, PROBED_AHEAD, number) for number in range(probes)]
    return fired.per_second, await paced(stage, [server], bodies, f"{task}, probing")


def _rate(rounds: list[Round]) -> Figure:
    samples = [each.per_second for each in rounds]
    first, *_, last = _quarters(samples)
    return Figure(
        workload="w7",
        what=f"{len(rounds)} bursts one after the other",
        unit="callbacks/s",
        measured=median(last),
        ceiling=median(first),
        ceiling_is="the first quarter",
        samples=samples,
    )


def _lateness(rounds: list[Round]) -> Figure:
    samples = [each.probe.percentile(0.99) for each in rounds]
    first, *_, last = _quarters(samples)
    return Figure(
        workload="w7",
        what="lateness p99 in the last quarter",
        unit="ms",
        measured=median(last),  # of the rounds: one bad moment of a shared machine says little
        ceiling=median(first),
        ceiling_is="the first quarter",
        aim=Aim("ceiling +", 10),
        samples=samples,
    )


def _extents(rounds: list[Round], aim: Aim | None) -> list[Figure]:
    found = [each.extent for each in rounds]
    made = [_room("tables", "MB", [extent.table_mb for extent in found], aim)]
    indexes = [extent.index_mb for extent in found if extent.index_mb is not None]
    if indexes:
        made.append(_room("indexes", "MB", indexes, aim))
    dead = [float(extent.dead_rows) for extent in found if extent.dead_rows is not None]
    if dead:
        made.append(_room("dead rows", "rows", dead, aim))
    return made


def _room(what: str, unit: str, samples: list[float], aim: Aim | None) -> Figure:
    """The most that was needed in the last quarter, beside the second."""
    _, second, _, last = _quarters(samples)
    return Figure(
        workload="w7",
        what=f"{what} in the last quarter",
        unit=unit,
        measured=max(last),
        ceiling=max(second),
        ceiling_is="the second quarter",
        aim=aim,
        samples=samples,
    )


def _quarters(items: list[T]) -> list[list[T]]:
    size = len(items) // 4
    return [items[at : at + size] for at in range(0, 4 * size, size)]
