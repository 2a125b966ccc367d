"""W1, creating timers: one by one on 64 connections, and a thousand at a time."""

from bench import requests
from bench.figure import Aim, Figure
from bench.load import flood
from bench.process import started
from bench.servers import duetime, storeless
from bench.stage import Stage, check_stored

CONNECTIONS = 64
BATCH = 1_000
BATCH_CONNECTIONS = 4


async def run(stage: Stage) -> list[Figure]:
    """Measure both ways, each beside its ceiling."""
    return [await _one_by_one(stage), await _batches(stage)]


async def _one_by_one(stage: Stage) -> Figure:
    count = stage.sizes.creates
    bodies = _bodies(stage, count)
    load = [requests.create(body) for body in bodies]
    stage.progress.begin("w1 the API without a store, one by one", count)
    async with storeless() as server:
        await flood(server.port, load[:500], CONNECTIONS)  # warm
        answered = await flood(server.port, load, CONNECTIONS, stage.progress.at)
        answered.check(b"201", count)
        ceiling = count / answered.seconds
    stage.progress.begin("w1 creates one by one", count)
    with stage.folder() as folder:
        async with duetime(folder / "w1.db") as server:
            await flood(server.port, load[:500], CONNECTIONS)
            answered = await flood(server.port, load, CONNECTIONS, stage.progress.at)
            answered.check(b"201", count)
        check_stored(folder / "w1.db", count + len(load[:500]))
    return Figure(
        workload="w1",
        what="creates, one by one, 64 connections",
        unit="/s",
        measured=count / answered.seconds,
        ceiling=ceiling,
        ceiling_is="API without a store",
        aim=Aim("ratio >=", 0.55),
        rival="7,855 BullMQ; durable: 3,374 Restate",
    )


async def _batches(stage: Stage) -> Figure:
    count = stage.sizes.batched
    load = requests.batches(_bodies(stage, count), BATCH)
    with stage.folder() as folder:
        stage.progress.begin("w1 bare sqlite3, transactions of 1,000", count)
        arguments = ["-m", "bench.bare_driver", str(folder / "bare.db"), str(count), str(BATCH)]
        async with started(arguments) as bare:
            ceiling = float(await bare.line())
            await bare.ended()
    stage.progress.begin("w1 creates in batches of 1,000", count)
    with stage.folder() as folder:
        async with duetime(folder / "w1.db") as server:
            answered = await flood(server.port, load, BATCH_CONNECTIONS)
            answered.check(b"200", len(load))
        check_stored(folder / "w1.db", count)
    return Figure(
        workload="w1",
        what="creates, batches of 1,000",
        unit="/s",
        measured=count / answered.seconds,
        ceiling=ceiling,
        ceiling_is="bare sqlite3",
        aim=Aim("ratio >=", 0.45),
        rival="36,153 pg-boss",
    )


def _bodies(stage: Stage, count: int) -> list[bytes]:
    due = requests.now_ms() + requests.FAR
    return [requests.body(stage.sink.port, due, number) for number in range(count)]
