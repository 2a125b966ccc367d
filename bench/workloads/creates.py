"""W1, creating timers: one by one on 64 connections, and a thousand at a time."""

from bench import bare
from bench.figure import Aim, Figure
from bench.servers import duetime, storeless
from bench.stage import Stage, check_stored
from duetime.benching import requests
from duetime.benching.load import flood

CONNECTIONS = 64
BATCH = 1_000
BATCH_CONNECTIONS = 4


async def run(stage: Stage) -> list[Figure]:
    """Measure both ways, each beside its ceiling."""
    return [await _one_by_one(stage), *await _batches(stage)]


async def _one_by_one(stage: Stage) -> Figure:
    count = stage.sizes.creates
    load = [requests.create(body) for body in bodies_of(stage, count)]
    stage.progress.begin("w1 the API without a store, one by one", count)
    async with storeless() as server:
        await flood(server.port, load[:500], CONNECTIONS)  # warm
        answered = await flood(server.port, load, CONNECTIONS, stage.progress.at)
        answered.check(b"201", count)
        ceiling = count / answered.seconds
    measured = await one_by_one(stage, load)
    aim = stage.databases.aims.creates
    return Figure(
        workload="w1",
        what="creates, one by one, 64 connections",
        unit="/s",
        measured=measured,
        ceiling=ceiling,
        ceiling_is="API without a store",
        aim=None if aim is None else Aim("ratio >=", aim),
        rival="7,855 BullMQ; durable: 3,374 Restate",
    )


async def one_by_one(stage: Stage, load: list[bytes], **settings: str) -> float:
    """Creates a second, each in a request of its own."""
    stage.progress.begin("w1 creates one by one", len(load))
    async with stage.databases.fresh() as database:
        async with duetime(database, **settings) as server:
            await flood(server.port, load[:500], CONNECTIONS)
            answered = await flood(server.port, load, CONNECTIONS, stage.progress.at)
            answered.check(b"201", len(load))
        await check_stored(database, len(load) + len(load[:500]))
    return len(load) / answered.seconds


async def in_batches(stage: Stage, load: list[bytes], count: int, **settings: str) -> float:
    """Creates a second, of so many in these requests."""
    stage.progress.begin("w1 creates in batches of 1,000", count)
    async with stage.databases.fresh() as database:
        async with duetime(database, **settings) as server:
            answered = await flood(server.port, load, BATCH_CONNECTIONS)
            answered.check(b"200", len(load))
        await check_stored(database, count)
    return count / answered.seconds


async def _batches(stage: Stage) -> list[Figure]:
    """Beside each way in which the bare driver inserts; the aim is set by the first."""
    count = stage.sizes.batched
    load = requests.batches(bodies_of(stage, count), BATCH)
    ceilings = [await _bare(stage, way, count) for way in stage.databases.bare_ways]
    measured = await in_batches(stage, load, count)
    return [
        Figure(
            workload="w1",
            what="creates, batches of 1,000",
            unit="/s",
            measured=measured,
            ceiling=ceiling,
            ceiling_is=way,
            aim=None if place else Aim("ratio >=", stage.databases.aims.batches),
            rival="" if place else "36,153 pg-boss",
        )
        for place, (way, ceiling) in enumerate(
            zip(stage.databases.bare_ways, ceilings, strict=True)
        )
    ]


async def _bare(stage: Stage, way: str, count: int) -> float:
    """Rows a second, inserted by the bare driver."""
    stage.progress.begin(f"w1 {way}, transactions of 1,000", count)
    async with stage.databases.fresh() as database:
        return await bare.timers_per_second(stage.databases.kind, way, database.url, count, BATCH)


def bodies_of(stage: Stage, count: int) -> list[bytes]:
    """Timers that are far from due."""
    due = requests.now_ms() + requests.FAR
    return [requests.body(stage.sink.port, due, number) for number in range(count)]
