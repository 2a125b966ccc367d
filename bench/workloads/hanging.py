"""W5, the hanging receiver: the stream of W3 beside 500 timers whose receiver never answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.figure import Aim, Figure
from bench.servers import duetime
from bench.stage import Stage
from bench.workloads.steady import stream
from duetime.benching import requests
from duetime.benching.load import flood

HANGING = 500


async def run(stage: Stage) -> list[Figure]:
    """Lateness of the others, beside what it is without the hanging receiver."""
    alone = await _p99(stage, hanging=0)
    beside = await _p99(stage, hanging=HANGING)
    return [
        Figure(
            workload="w5",
            what=f"lateness p99 beside {HANGING} timers to a receiver that hangs",
            unit="ms",
            measured=beside,
            ceiling=alone,
            ceiling_is="without it",
            aim=Aim("ceiling +", 10),
        )
    ]


async def _p99(stage: Stage, *, hanging: int) -> float:
    async with (
        stage.databases.fresh() as database,
        _hanging_receiver() as port,
        duetime(database) as server,
    ):
        if hanging:
            due = requests.now_ms() + 1_000
            bodies = [requests.body(port, due, number) for number in range(hanging)]
            (await flood(server.port, requests.batches(bodies, hanging), 1)).check(b"200", 1)
        task = "w5 beside a hanging receiver" if hanging else "w5 without it"
        streamed = await stream(stage, [server], database, task)
    return streamed.receipts.percentile(0.99)


@asynccontextmanager
async def _hanging_receiver() -> AsyncIterator[int]:
    """Take connections and requests, and never answer."""

    class Silent(asyncio.Protocol):
        pass

    server = await asyncio.get_running_loop().create_server(Silent, "127.0.0.1", 0, backlog=4096)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
