"""Measuring a rival: the creates, the burst and the stream of W1 to W3, done by its scripts."""

import asyncio
import time

import msgspec

from bench.meter import Meter, Used
from bench.rivals.rival import Made, Place, Rival, RivalFailed
from bench.stage import Stage
from bench.workloads.creates import BATCH, BATCH_CONNECTIONS, CONNECTIONS
from bench.workloads.steady import AHEAD
from duetime.benching.receipts import Receipts
from duetime.benching.requests import now_ms

DONE_WITHIN = 30.0  # seconds in which all jobs must be written down as done
WARMING = 3_000
SHORTLY = 0.1  # seconds before the burst: what polling costs until then is not counted


async def one_by_one(stage: Stage, rival: Rival) -> float:
    """Creates a second, each by a call of its own."""
    count = stage.sizes.creates
    stage.progress.begin(f"w10 {rival.name}, creates one by one", count)
    async with rival.fresh() as place:
        made = await rival.produce(place, stage.sink.port, "singly", count, CONNECTIONS)
    return count / _all_stored(rival, made).seconds


async def in_batches(stage: Stage, rival: Rival) -> float:
    """Creates a second, a thousand in a call."""
    count = stage.sizes.batched
    stage.progress.begin(f"w10 {rival.name}, creates in batches", count)
    async with rival.fresh() as place:
        how = (count, BATCH, BATCH_CONNECTIONS, 0)
        made = await rival.produce(place, stage.sink.port, "batched", *how)
    return count / _all_stored(rival, made).seconds


async def fired(stage: Stage, rival: Rival) -> tuple[Receipts, Used]:
    """What arrived of a burst and what it took, with as long to create it in as it needs."""
    lead = 2_000 + stage.sizes.burst // 5  # milliseconds, as in W2
    while (burst := await _fire(stage, rival, lead)) is None:
        lead *= 4
    return burst


async def _fire(stage: Stage, rival: Rival, lead: int) -> tuple[Receipts, Used] | None:
    count, port = stage.sizes.burst, stage.sink.port
    async with rival.fresh() as place, rival.working(place, port) as worker:
        await _warm(stage, rival, place)
        stage.progress.begin(f"w10 {rival.name}, creating what is due at one instant", count)
        made = await rival.produce(place, port, "batched", count, BATCH, 2, lead)
        if not made.in_time:
            return None
        await asyncio.sleep((made.due_ms - now_ms()) / 1000 - SHORTLY)
        counting = Meter(rival, [worker])
        stage.progress.begin(f"w10 {rival.name}, the burst", count)
        receipts = await stage.received(count, within=lead / 1000 + 60)
        used = counting.used()
        await _all_done(rival, place, port)
    return checked(rival, receipts, count), used


async def stream(stage: Stage, rival: Rival) -> Receipts:
    """What arrived of a steady stream."""
    rate, port = stage.sizes.per_second, stage.sink.port
    count = rate * stage.sizes.seconds
    async with rival.fresh() as place, rival.working(place, port):
        await _warm(stage, rival, place)
        stage.progress.begin(f"w10 {rival.name}, steady", count)
        await rival.produce(place, port, "paced", count, rate, AHEAD)
        receipts = await stage.received(count, within=AHEAD / 1000 + 30)
        await _all_done(rival, place, port)
    return checked(rival, receipts, count)


async def _warm(stage: Stage, rival: Rival, place: Place) -> None:
    """Let a worker do some jobs beforehand: Node.js compiles what is run often while it runs."""
    stage.progress.begin(f"w10 {rival.name}, warming up", WARMING)
    await stage.sink.forget()
    await rival.produce(place, stage.sink.port, "batched", WARMING, BATCH, 1, 1)
    checked(rival, await stage.received(WARMING, within=60), WARMING)
    await _all_done(rival, place, stage.sink.port)
    await stage.sink.forget()


def checked(rival: Rival, receipts: Receipts, expected: int) -> Receipts:
    """The same, unless a job was lost or done twice; those that were early are only counted."""
    on_time = msgspec.structs.replace(receipts, early=0)
    if broken := on_time.violations(expected):
        raise RivalFailed(f"{rival.name}: {', '.join(broken)}")
    return receipts


def _all_stored(rival: Rival, made: Made) -> Made:
    if made.stored != made.made:
        raise RivalFailed(f"{rival.name}: {made.stored} jobs are stored, not {made.made}")
    return made


async def _all_done(rival: Rival, place: Place, port: int) -> None:
    """Check that no job is left: what is left would be done again some day."""
    give_up_at = time.monotonic() + DONE_WITHIN
    while left := (await rival.produce(place, port, "none")).stored:
        if time.monotonic() > give_up_at:
            raise RivalFailed(f"{rival.name}: {left} jobs are still to be done")
