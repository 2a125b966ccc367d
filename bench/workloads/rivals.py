"""W10, the rivals: Duetime beside graphile-worker and BullMQ, in the same minutes.

One thing is measured of all of them before the next: a shared machine is not the same for long.
"""

from collections.abc import Awaitable, Callable, Sequence

from bench.figure import Aim, Figure
from bench.rivals import measuring, opening
from bench.rivals.rival import Rival
from bench.servers import duetime
from bench.stage import Stage, check_stored
from bench.workloads import burst, creates, steady
from duetime.benching import requests
from duetime.benching.process import started
from duetime.benching.receipts import Receipts

NO_LESS = Aim("ratio >=", 1)
NO_MORE = Aim("ratio <=", 1)
WARMING = 500  # creates that are not counted, as with the rivals


async def run(stage: Stage) -> list[Figure]:
    """Each figure of Duetime's beside that of each rival; the last column is from another run."""
    async with opening.opened(stage) as rivals:
        columns = COLUMNS if rivals else ()
        return [figure for measure in columns for figure in await measure(stage, rivals)]


async def one_by_one(stage: Stage, rivals: Sequence[Rival]) -> list[Figure]:
    """Creates, each by a call of its own, 64 at once: as plain requests, and by our own client."""
    load = [requests.create(body) for body in creates.bodies_of(stage, stage.sizes.creates)]
    ours = {
        "": await creates.one_by_one(stage, load),
        ", a Gatherer's": await gathered(stage),
    }
    theirs = [(rival, await measuring.one_by_one(stage, rival)) for rival in rivals]
    return [
        Figure(
            workload="w10",
            what=f"creates, one by one, 64 at once{whose}",
            unit="/s",
            measured=rate,
            ceiling=ceiling,
            ceiling_is=rival.name,
            aim=NO_LESS,
            rival="7,855 BullMQ; durable: 3,374 Restate",
        )
        for whose, rate in ours.items()
        for rival, ceiling in theirs
    ]


async def gathered(stage: Stage) -> float:
    """Creates a second, each by a call of the Python client, whose Gatherer puts them together."""
    count = stage.sizes.creates
    stage.progress.begin("w10 creates one by one, gathered by the client", count)
    async with stage.databases.fresh() as database:
        async with duetime(database) as server:
            numbers = (server.port, stage.sink.port, count, creates.CONNECTIONS, WARMING)
            async with started(["-m", "bench.gathered", *map(str, numbers)]) as producer:
                seconds = float(await producer.answer())
        await check_stored(database, count + WARMING)
    return count / seconds


async def in_batches(stage: Stage, rivals: Sequence[Rival]) -> list[Figure]:
    """Creates, a thousand in a call, four calls at once."""
    count = stage.sizes.batched
    load = requests.batches(creates.bodies_of(stage, count), creates.BATCH)
    ours = await creates.in_batches(stage, load, count)
    return [
        Figure(
            workload="w10",
            what="creates, batches of 1,000",
            unit="/s",
            measured=ours,
            ceiling=await measuring.in_batches(stage, rival),
            ceiling_is=rival.name,
            aim=NO_LESS,
            rival="36,153 pg-boss",
        )
        for rival in rivals
    ]


async def bursts(stage: Stage, rivals: Sequence[Rival]) -> list[Figure]:
    """Callbacks a second from the first arrival to the last, and what they take."""
    count = stage.sizes.burst
    receipts, used = await burst.fired(stage, count)
    rates, costs = [], []
    for rival in rivals:
        theirs, they_used = await measuring.fired(stage, rival)
        rates.append(
            Figure(
                workload="w10",
                what="burst, due at one instant",
                unit="callbacks/s",
                measured=receipts.per_second,
                ceiling=theirs.per_second,
                ceiling_is=named(rival, theirs),
                aim=NO_LESS,
                rival="5,790 graphile-worker",
            )
        )
        whole = "included" if used.is_whole and they_used.is_whole else "not included"
        costs.append(
            Figure(
                workload="w10",
                what=f"burst, CPU per 1,000, database {whole}",
                unit="s",
                measured=used.scaled(1000 / count).total,
                ceiling=they_used.scaled(1000 / count).total,
                ceiling_is=rival.name,
                aim=NO_MORE,
                rival="0.33 graphile-worker",
            )
        )
    return rates + costs


async def stream(stage: Stage, rivals: Sequence[Rival]) -> list[Figure]:
    """Lateness of a steady stream, created five seconds ahead."""
    async with stage.databases.fresh() as database, duetime(database) as server:
        ours = (await steady.stream(stage, [server], database, "w10 steady")).receipts
    theirs = [(rival, await measuring.stream(stage, rival)) for rival in rivals]
    return [
        Figure(
            workload="w10",
            what=f"lateness {what}",
            unit="ms",
            measured=ours.percentile(share),
            ceiling=receipts.percentile(share),
            ceiling_is=named(rival, receipts),
            aim=NO_MORE,
            rival=best,
        )
        for what, share, best in (
            ("p50", 0.5, "1.7 Celery, 2.6 BullMQ"),
            ("p99", 0.99, "16 Celery, 49 Restate"),
        )
        for rival, receipts in theirs
    ]


def named(rival: Rival, receipts: Receipts) -> str:
    """The rival, and how many of its callbacks came before their time."""
    return f"{rival.name}, {receipts.early} early" if receipts.early else rival.name


Column = Callable[[Stage, Sequence[Rival]], Awaitable[list[Figure]]]
COLUMNS: tuple[Column, ...] = (one_by_one, in_batches, bursts, stream)
