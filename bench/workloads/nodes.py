"""W6, two nodes: timers created on either of them a tenth of a second ahead, beside one node."""

import asyncio
from contextlib import AsyncExitStack

from bench.figure import Aim, Figure
from bench.servers import duetime
from bench.stage import Stage, check_stored
from bench.workloads.steady import paced
from duetime.benching import requests
from duetime.benching.receipts import Receipts
from duetime.timer import Status

AHEAD = 100  # milliseconds from the create to the due instant
ACQUAINTED = 5.0  # seconds until nodes have heard of each other and shared out the work


async def run(stage: Stage) -> list[Figure]:
    """Lateness on two nodes, whichever of them looks after the timer, beside that on one."""
    one = await _stream(stage, nodes=1)
    two = await _stream(stage, nodes=2)
    return [
        Figure(
            workload="w6",
            what=f"lateness {what}, created {AHEAD} ms ahead on either of 2 nodes",
            unit="ms",
            measured=two.percentile(share),
            ceiling=one.percentile(share),
            ceiling_is="one node",
            aim=Aim("ceiling +", 20) if what == "p99" else None,
        )
        for what, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    ]


async def _stream(stage: Stage, nodes: int) -> Receipts:
    count = stage.sizes.per_second * stage.sizes.seconds
    bodies = [requests.soon(stage.sink.port, AHEAD, number) for number in range(count)]
    async with stage.databases.fresh() as database, AsyncExitStack() as stack:
        running = [await stack.enter_async_context(duetime(database)) for _ in range(nodes)]
        await asyncio.sleep(ACQUAINTED)
        receipts = await paced(stage, running, bodies, f"w6 on {nodes} nodes")
        await check_stored(database, count, Status.COMPLETED)
    return receipts
