"""W2, the burst: timers that are all due at one instant."""

from collections.abc import Callable
from functools import partial
from typing import Any

from bench import meter
from bench.figure import Aim, Figure
from bench.servers import duetime
from bench.stage import Stage, check_stored
from duetime.benching import requests
from duetime.benching.load import flood
from duetime.benching.process import Process, started
from duetime.benching.receipts import Receipts
from duetime.timer import Status

CONCURRENCY = 128  # Duetime's own default for one receiver


async def run(stage: Stage) -> list[Figure]:
    """Callbacks a second from the first arrival to the last, beside those of bare clients.

    The ceiling is measured before and after: a shared machine is not the same for long.
    """
    count = stage.sizes.burst
    own = await _bare(stage, "own", count)
    before = await _bare(stage, "pyreqwest", count)
    receipts, used = await fired(stage, count)
    after = await _bare(stage, "pyreqwest", count)
    aim = stage.databases.aims.burst
    return [
        Figure(
            workload="w2",
            what="burst, due at one instant",
            unit="callbacks/s",
            measured=receipts.per_second,
            ceiling=(before + after) / 2,
            ceiling_is="bare pyreqwest",
            aim=None if aim is None else Aim("ratio >=", aim),
            rival="5,790 graphile-worker",
        ),
        Figure(
            workload="w2",
            what="burst, beside Duetime's own client",
            unit="callbacks/s",
            measured=receipts.per_second,
            ceiling=own,
            ceiling_is="own client, bare",
        ),
        Figure(
            workload="w2",
            what="burst, first callback after",
            unit="ms",
            measured=min(receipts.lateness_ms),
        ),
        *meter.figures(
            "w2",
            "burst, CPU per 1,000",
            "s",
            used.scaled(1000 / count),
            rival="0.33 graphile-worker",
        ),
        *await _with_workers(stage, count),
    ]


async def _with_workers(stage: Stage, count: int) -> list[Figure]:
    """Two processes beside one, where they can share a database without getting in their way.

    Also in a burst that is three times as long: of a second, two of them need a part to begin.
    """
    if stage.databases.kind == "sqlite":
        return []
    figures = []
    for what, timers in (("burst", count), ("burst, three times as many", 3 * count)):
        before, _ = await fired(stage, timers)
        two, _ = await fired(stage, timers, WORKERS="2")
        after, _ = await fired(stage, timers)
        figures.append(
            Figure(
                workload="w2",
                what=f"{what}, with two workers",
                unit="callbacks/s",
                measured=two.per_second,
                ceiling=(before.per_second + after.per_second) / 2,
                ceiling_is="one process",
                aim=Aim("ratio >=", 1) if stage.databases.kind == "postgres" else None,
            )
        )
    return figures


async def fired(stage: Stage, count: int, **how: Any) -> tuple[Receipts, meter.Used]:
    """What arrived and what it took, with as long to create them in as they need."""
    lead = 2_000 + count // 5  # milliseconds
    while (burst := await fire(stage, count, lead, **how)) is None:
        lead *= 4
    return burst


async def fire(
    stage: Stage,
    count: int,
    lead: int,
    *,
    path: str = "/hook",
    make: Callable[[int, int], bytes] | None = None,
    prepare: Callable[[Process], None] = lambda _server: None,
    look: Callable[[Process], None] = lambda _server: None,
    **settings: str,
) -> tuple[Receipts, meter.Used] | None:
    """What arrived and what it took; None if the burst came before all of it was created.

    ``make`` gives each timer by when it is due and its number; otherwise it calls the sink. The
    server is given to ``prepare`` before all that, and to ``look`` after it.
    """
    await stage.sink.forget()
    async with stage.databases.fresh() as database:
        async with duetime(database, **settings) as server:
            prepare(server)
            due, port = requests.now_ms() + lead, stage.sink.port
            to_sink = partial(requests.body, port, path=path)
            bodies = [(make or to_sink)(due, number) for number in range(count)]
            stage.progress.begin("w2 creating what is due at one instant", count)
            load = requests.batches(bodies, 1_000)
            (await flood(server.port, load, 2)).check(b"200", len(load))
            if requests.now_ms() >= due:
                return None
            counting = meter.Meter(stage.databases, [server])
            stage.progress.begin("w2 the burst", count)
            receipts = await stage.arrived(count, within=lead / 1000 + 60)
            used = counting.used()
            look(server)
        await check_stored(database, count, Status.COMPLETED)
    return receipts, used


async def _bare(stage: Stage, client: str, count: int) -> float:
    # As long a run as Duetime's own: on shared machines a short spurt is faster than real work.
    count *= 3
    stage.progress.begin(f"w2 the bare client, {client}", count)
    await stage.sink.forget()
    arguments = ["burst", client, str(stage.sink.port), str(count), str(CONCURRENCY)]
    async with started(["-m", "bench.bare_client", *arguments]) as bare:
        await bare.ended()
    return (await stage.arrived(count, within=5)).per_second
