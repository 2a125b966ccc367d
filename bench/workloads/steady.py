"""W3, the steady stream: so many timers a second, each created five seconds ahead."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from bench import bare_client, meter
from bench.databases import Database
from bench.figure import Aim, Figure
from bench.meter import Meter, Used
from bench.servers import duetime
from bench.stage import Stage, check_stored
from duetime.benching import requests
from duetime.benching.load import pace
from duetime.benching.process import Process, started
from duetime.benching.receipts import Receipts
from duetime.benching.servers import sink
from duetime.timer import Status

SOON = 500  # milliseconds until the first of a stream is created,
AHEAD = 5_000  # and from then until it is due
CONNECTIONS = 64


class Streamed(NamedTuple):
    """What a stream did."""

    receipts: Receipts
    cpu_ms: Used  # per timer
    calm: Receipts | None = None  # only those that no standstill touched, if there was a watch


async def run(stage: Stage) -> list[Figure]:
    """Lateness at the receiver, beside the bare client's: one after the other, and at once.

    What a host does for a moment decides a p99. If both run at once, it does that to both.
    """
    bare = await _bare(stage)
    async with stage.databases.fresh() as database, duetime(database) as server:
        streamed = await stream(stage, [server], database, "w3 steady")
    return [
        *_lateness(streamed.receipts, bare),
        *meter.figures("w3", "CPU per timer", "ms", streamed.cpu_ms),
        *await _side_by_side(stage),
    ]


async def _side_by_side(stage: Stage) -> list[Figure]:
    async with (
        sink() as other,
        stage.databases.fresh() as database,
        duetime(database) as server,
    ):
        theirs = Stage(stage.databases, other, stage.progress, stage.sizes, stage.data)
        streamed, bare = await asyncio.gather(
            stream(stage, [server], database, "w3 side by side"),
            # So that the first of both are due at once.
            _bare(theirs, after=(SOON + AHEAD - bare_client.LEAD) / 1000),
        )
    return _lateness(streamed.receipts, bare, ", side by side", ", in the same seconds")


async def stream(
    stage: Stage,
    nodes: Sequence[Process],
    database: Database,
    task: str,
    *,
    seconds: int | None = None,
    already: int = 0,
) -> Streamed:
    """Send the stream through the nodes, and check that all of it arrived and was written down.

    ``already`` is how many timers have been fired from this database before.
    """
    rate, count = stage.sizes.per_second, stage.sizes.per_second * (seconds or stage.sizes.seconds)
    start = requests.now_ms() + SOON
    bodies = [
        requests.body(stage.sink.port, start + AHEAD + number * 1000 // rate, number)
        for number in range(count)
    ]
    counting = Meter(stage.databases, nodes)
    receipts = await paced(stage, nodes, bodies, task)
    cpu_ms = counting.used().scaled(1000 / count)
    await check_stored(database, already + count, Status.COMPLETED)
    return Streamed(receipts, cpu_ms)


async def paced(
    stage: Stage, nodes: Sequence[Process], bodies: Sequence[bytes], task: str
) -> Receipts:
    """Create timers at the pace of the stream, on any of the nodes, and wait until all arrived."""
    count = len(bodies)
    await stage.sink.forget()
    stage.progress.begin(f"{task}, creating", count)
    load = [requests.create(body) for body in bodies]
    ports = [node.port for node in nodes]
    answered = await pace(ports, load, stage.sizes.per_second, CONNECTIONS, stage.progress.at)
    answered.check(b"201", count)
    stage.progress.begin(f"{task}, arriving", count)
    return await stage.arrived(count, within=AHEAD / 1000 + 30)


async def _bare(stage: Stage, after: float = 0.0) -> Receipts:
    await asyncio.sleep(after)
    rate, count = stage.sizes.per_second, stage.sizes.per_second * stage.sizes.seconds
    stage.progress.begin("w3 the bare client", count)
    await stage.sink.forget()
    arguments = ["steady", "own", str(stage.sink.port), str(count), str(rate)]
    async with started(["-m", "bench.bare_client", *arguments]):
        return await stage.arrived(count, within=stage.sizes.seconds + 30)


def _lateness(received: Receipts, bare: Receipts, how: str = "", when: str = "") -> list[Figure]:
    return [
        Figure(
            workload="w3",
            what=f"lateness {what}{how}",
            unit="ms",
            measured=received.percentile(share),
            ceiling=bare.percentile(share),
            ceiling_is=f"bare client{when}",
            aim=Aim("ceiling +", 5) if what == "p99" else None,
            rival="" if how else rival,
        )
        for what, share, rival in (
            ("p50", 0.5, "1.7 Celery, 2.6 BullMQ"),
            ("p99", 0.99, "16 Celery, 49 Restate"),
            ("max", 1.0, ""),
        )
    ]
