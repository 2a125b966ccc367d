"""W11, start-up: from the start of a process to the first callback, beside very many that wait.

Each time one timer is late when the process starts, and another comes due shortly after. Once the
node before has left in good order, and once it was killed, so that its record is still there.
"""

from statistics import median
from typing import NamedTuple

from bench.backlog import timer_at
from bench.databases import Database
from bench.figure import Aim, Figure
from bench.servers import duetime
from bench.stage import Stage
from duetime.benching import requests
from duetime.benching.process import Process
from duetime.benching.receipts import Receipts
from duetime.stores import Insert
from duetime.stores.opening import open_store

WITHIN = 2.0  # seconds
LATE = 60_000  # milliseconds that the first one is late
AHEAD = 3_000  # and after which the second one is due


class Start(NamedTuple):
    """What came of one."""

    first: float  # seconds until the first callback
    late_ms: float  # how late the one was that came due meanwhile


async def run(stage: Stage) -> list[Figure]:
    """Start again and again; the median counts."""
    pending = stage.sizes.start_pending
    async with stage.databases.fresh() as database:
        stage.progress.begin("w11 storing pending timers", pending)
        await database.fill(pending, stage.progress.at)
        async with duetime(database):
            pass  # the first start of all makes what a database needs, and is not measured
        left = [await _start(stage, database, "w11 start") for _ in range(stage.sizes.starts)]
        crashed = []
        for _ in range(stage.sizes.starts):
            async with duetime(database) as server:
                server.kill()
            crashed.append(await _start(stage, database, "w11 start after a crash"))
    return [
        *figures(f"{pending:,} pending, started", left),
        *figures(f"{pending:,} pending, started after a crash", crashed),
    ]


def figures(what: str, starts: list[Start]) -> list[Figure]:
    """The middle one of several starts, and the worst."""
    firsts = [start.first for start in starts]
    return [
        Figure(
            workload="w11",
            what=f"{what}, first callback after",
            unit="s",
            measured=median(firsts),
            aim=Aim("<", WITHIN),
            samples=firsts,
        ),
        Figure(workload="w11", what=f"{what}, at most", unit="s", measured=max(firsts)),
        Figure(
            workload="w11",
            what=f"{what}, lateness of what came due meanwhile",
            unit="ms",
            measured=median(start.late_ms for start in starts),
            samples=[start.late_ms for start in starts],
        ),
    ]


async def _start(stage: Stage, database: Database, task: str) -> Start:
    stage.progress.begin(task)
    await stage.sink.forget()
    url = f"http://127.0.0.1:{stage.sink.port}/hook"
    now = requests.now_ms()
    await _store(database, url, now - LATE, now + AHEAD)
    async with duetime(database) as server:
        return started(server, await stage.arrived(2, within=30))


def started(server: Process, receipts: Receipts) -> Start:
    """What the sink has seen of a start: the one that was not late by a minute came due."""
    return Start((receipts.first_ns - server.started_ns) / 1e9, min(receipts.lateness_ms))


async def _store(database: Database, url: str, *dues: int) -> None:
    """Store timers while no node runs."""
    store = open_store(database.url)
    await store.migrate()
    try:
        await store.insert([Insert(timer_at(url, due)) for due in dues])
    finally:
        await store.close()
