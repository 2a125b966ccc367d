"""W3, the steady stream: so many timers a second, each created five seconds ahead."""

from pathlib import Path
from typing import NamedTuple

from bench import requests
from bench.figure import Aim, Figure
from bench.load import pace
from bench.process import Process, started
from bench.receipts import Receipts
from bench.servers import duetime
from bench.stage import Stage, check_stored

AHEAD = 5_000
CONNECTIONS = 64


class Streamed(NamedTuple):
    """What a stream did."""

    receipts: Receipts
    cpu_ms: float  # of the server, per timer


async def run(stage: Stage) -> list[Figure]:
    """Lateness at the receiver, beside the bare client's."""
    bare = await _bare(stage)
    with stage.folder() as folder:
        async with duetime(folder / "w3.db") as server:
            streamed = await stream(stage, server, folder / "w3.db", "w3 steady")
    received = streamed.receipts
    return [
        _lateness("p50", received.percentile(0.5), bare.percentile(0.5), "1.7 Celery, 2.6 BullMQ"),
        _lateness("p99", received.percentile(0.99), bare.percentile(0.99), "16 Celery, 49 Restate"),
        _lateness("max", max(received.lateness_ms), max(bare.lateness_ms), ""),
        Figure(workload="w3", what="CPU per timer", unit="ms", measured=streamed.cpu_ms),
    ]


async def stream(
    stage: Stage,
    server: Process,
    database: Path,
    task: str,
    *,
    seconds: int | None = None,
    before: int = 0,
) -> Streamed:
    """Send the stream through a server, and check that all of it arrived.

    ``before`` is how many such streams the database has seen already.
    """
    rate, count = stage.sizes.per_second, stage.sizes.per_second * (seconds or stage.sizes.seconds)
    await stage.sink.forget()
    stage.progress.begin(f"{task}, creating", count)
    start = requests.now_ms() + 500
    load = [
        requests.create(
            requests.body(stage.sink.port, start + AHEAD + number * 1000 // rate, number)
        )
        for number in range(count)
    ]
    cpu = server.cpu_seconds()
    answered = await pace(server.port, load, rate, CONNECTIONS, stage.progress.at)
    answered.check(b"201", count)
    stage.progress.begin(f"{task}, arriving", count)
    receipts = await stage.arrived(count, within=AHEAD / 1000 + 30)
    cpu_ms = 1000 * (server.cpu_seconds() - cpu) / count
    check_stored(database, (before + 1) * count, "status = 'completed'")
    return Streamed(receipts, cpu_ms)


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
        aim=Aim("ceiling +", 10) if what == "p99" else None,
        rival=rival,
    )
