"""W3, the steady stream: so many timers a second, each created five seconds ahead."""

from collections.abc import Sequence
from typing import NamedTuple

from bench import meter
from bench.databases import Database
from bench.figure import Aim, Figure
from bench.meter import Meter, Used
from bench.servers import duetime
from bench.stage import Stage, check_stored
from duetime.benching import requests
from duetime.benching.load import pace
from duetime.benching.process import Process, started
from duetime.benching.receipts import Receipts
from duetime.timer import Status

AHEAD = 5_000
CONNECTIONS = 64


class Streamed(NamedTuple):
    """What a stream did."""

    receipts: Receipts
    cpu_ms: Used  # per timer


async def run(stage: Stage) -> list[Figure]:
    """Lateness at the receiver, beside the bare client's."""
    bare = await _bare(stage)
    async with stage.databases.fresh() as database, duetime(database) as server:
        streamed = await stream(stage, [server], database, "w3 steady")
    received = streamed.receipts
    return [
        _lateness("p50", received.percentile(0.5), bare.percentile(0.5), "1.7 Celery, 2.6 BullMQ"),
        _lateness("p99", received.percentile(0.99), bare.percentile(0.99), "16 Celery, 49 Restate"),
        _lateness("max", max(received.lateness_ms), max(bare.lateness_ms), ""),
        *meter.figures("w3", "CPU per timer", "ms", streamed.cpu_ms),
    ]


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
    start = requests.now_ms() + 500
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


async def _bare(stage: Stage) -> Receipts:
    rate, count = stage.sizes.per_second, stage.sizes.per_second * stage.sizes.seconds
    stage.progress.begin("w3 the bare client", count)
    await stage.sink.forget()
    arguments = ["steady", "own", str(stage.sink.port), str(count), str(rate)]
    async with started(["-m", "bench.bare_client", *arguments]):
        return await stage.arrived(count, within=stage.sizes.seconds + 30)


def _lateness(what: str, measured: float, bare: float, rival: str) -> Figure:
    return Figure(
        workload="w3",
        what=f"lateness {what}",
        unit="ms",
        measured=measured,
        ceiling=bare,
        ceiling_is="bare client",
        aim=Aim("ceiling +", 5) if what == "p99" else None,
        rival=rival,
    )
