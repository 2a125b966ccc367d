"""W9, the outbox: creates and bursts whose events are published, beside those without any."""

from collections.abc import Awaitable, Callable
from typing import Any

from bench import broker
from bench.figure import Aim, Figure
from bench.stage import Stage
from bench.workloads import burst, creates
from duetime.benching import requests

KEPT = 0.7  # of the rate without it


async def run(stage: Stage) -> list[Figure]:
    """Each with the outbox off, on, and off again: the mean of both counts.

    With it on, there is NATS, and the events are relayed to JetStream all the while.
    """
    async with broker.broker(jetstream=True) as url:
        return [await _pair(stage, what, work, url) for what, work in _WORK.items()]


async def _pair(stage: Stage, what: str, work: "_Work", url: str) -> Figure:
    before = await work(stage)
    measured = await work(stage, OUTBOX="on", NATS_URL=url)
    after = await work(stage)
    return Figure(
        workload="w9",
        what=f"{what}, outbox on",
        unit="/s",
        measured=measured,
        ceiling=(before + after) / 2,
        ceiling_is="outbox off",
        aim=Aim("ratio >=", KEPT),
    )


_Work = Callable[..., Awaitable[float]]


async def _one_by_one(stage: Stage, **settings: str) -> float:
    bodies = creates.bodies_of(stage, stage.sizes.creates)
    return await creates.one_by_one(stage, [requests.create(body) for body in bodies], **settings)


async def _in_batches(stage: Stage, **settings: str) -> float:
    count = stage.sizes.batched
    load = requests.batches(creates.bodies_of(stage, count), creates.BATCH)
    return await creates.in_batches(stage, load, count, **settings)


async def _burst(stage: Stage, **settings: Any) -> float:
    receipts, _ = await burst.fired(stage, stage.sizes.burst, **settings)
    return receipts.per_second


_WORK: dict[str, _Work] = {
    "creates, one by one": _one_by_one,
    "creates, batches of 1,000": _in_batches,
    "burst": _burst,
}
