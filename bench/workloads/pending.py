"""W4, the steady stream beside many timers that are far from due; and what these cost at rest."""

import asyncio
import time
from contextlib import AsyncExitStack
from statistics import median

import msgspec

from bench import meter
from bench.databases import Database
from bench.figure import Aim, Figure, typical
from bench.meter import Meter, Used
from bench.servers import duetime
from bench.stage import Stage
from bench.standstills import Standstills, watched
from bench.workloads.steady import Streamed, stream
from duetime.benching.process import Process
from duetime.benching.receipts import Receipts
from duetime.benching.servers import sink

MOST = 1.1  # times what the fewest take
TURNS_OF_CHANCE = 4  # fewer say nothing
REST = 5.0  # seconds until a server that was busy is taken to be idle


async def run(stage: Stage) -> list[Figure]:
    """The same stream with more and more timers pending, and then at rest with the most.

    A single p99 says little on a shared machine: two standstills of the host, in 15 s, decide it.
    So each processor is watched, and callbacks that a standstill touched are left out; with them,
    the p99 is told too, and has no aim. They take turns, and the median of the turns counts. What
    is seldom, and so in few turns, is in the p99 of all of them together. How much is chance can be
    told from the fewest, every other turn of them beside the rest. Then the fewest and the most run
    side by side: whatever the disk does, it does to both.
    """
    sizes = stage.sizes.pending
    streams: dict[int, list[Streamed]] = {pending: [] for pending in sizes}
    async with AsyncExitStack() as stack:
        standstills = await stack.enter_async_context(watched())
        if standstills.why_not:
            stage.progress.say(f"w4 counts every callback: {standstills.why_not}")
        databases = {
            pending: await stack.enter_async_context(stage.databases.fresh()) for pending in sizes
        }
        for pending, database in databases.items():
            stage.progress.begin("w4 storing pending timers", pending)
            await database.fill(pending, stage.progress.at)
        already = dict.fromkeys(sizes, 0)
        for turn in range(stage.sizes.turns):
            for pending in reversed(sizes) if turn % 2 else sizes:
                task = f"w4 {pending:,} pending, turn {turn + 1}"
                seconds, database = stage.sizes.turn_seconds, databases[pending]
                async with duetime(database) as server:
                    streamed = await stream(
                        stage,
                        [server],
                        database,
                        task,
                        seconds=seconds,
                        already=already[pending],
                    )
                streams[pending].append(_calmed(streamed, standstills))
                already[pending] += streamed.receipts.count
        figures = [
            figure
            for pending in sizes
            for figure in _compared(pending, streams[pending], streams[sizes[0]])
        ]
        figures += _chance(sizes[0], streams[sizes[0]])
        figures += await _side_by_side(stage, databases, already, standstills)
        for database in databases.values():
            await stage.databases.settle(database.url)
        return figures + await _at_rest(stage, databases[sizes[-1]], sizes[-1])


def _calmed(streamed: Streamed, standstills: Standstills) -> Streamed:
    if standstills.why_not:
        return streamed
    return streamed._replace(calm=standstills.undisturbed(streamed.receipts))


def _counted(streamed: Streamed) -> Receipts:
    """Those callbacks that count: all of them, if nobody watched the machine."""
    return streamed.receipts if streamed.calm is None else streamed.calm


def _compared(pending: int, streams: list[Streamed], least: list[Streamed]) -> list[Figure]:
    is_least = streams is least
    aim = None if is_least else Aim("ratio <=", MOST)
    return [
        *_standing_still(pending, streams, None if is_least else least),
        Figure(
            workload="w4",
            what=f"{pending:,} pending, lateness p99",
            unit="ms",
            measured=median(_p99s(streams)),
            ceiling=None if is_least else median(_p99s(least)),
            ceiling_is="the fewest pending",
            aim=aim,
            rival="9.9 Celery, 35 Restate (200,000)",
            samples=_p99s(streams),
        ),
        Figure(
            workload="w4",
            what=f"{pending:,} pending, lateness p99 of all turns together",
            unit="ms",
            measured=_pooled(streams).percentile(0.99),
            ceiling=None if is_least else _pooled(least).percentile(0.99),
            ceiling_is="the fewest pending",
        ),
        *meter.figures(
            "w4",
            f"{pending:,} pending, CPU per timer",
            "ms",
            _cpu(streams),
            least=None if is_least else _cpu(least),
            least_is="the fewest pending",
            aim=aim,
            turns=[streamed.cpu_ms for streamed in streams],
        ),
    ]


def _standing_still(
    pending: int, streams: list[Streamed], least: list[Streamed] | None
) -> list[Figure]:
    """What the standstills did, if there was a watch; it has no aim."""
    if any(streamed.calm is None for streamed in streams):
        return []
    with_all = [streamed.receipts.percentile(0.99) for streamed in streams]
    least_with_all = [streamed.receipts.percentile(0.99) for streamed in least or []]
    every = sum(streamed.receipts.count for streamed in streams)
    return [
        Figure(
            workload="w4",
            what=f"{pending:,} pending, lateness p99, standstills included",
            unit="ms",
            measured=median(with_all),
            ceiling=median(least_with_all) if least_with_all else None,
            ceiling_is="the fewest pending",
            samples=with_all,
        ),
        Figure(
            workload="w4",
            what=f"{pending:,} pending, touched by a standstill",
            unit="% of the callbacks",
            measured=100 * (1 - sum(_counted(streamed).count for streamed in streams) / every),
        ),
    ]


def _p99s(streams: list[Streamed]) -> list[float]:
    return [_counted(streamed).percentile(0.99) for streamed in streams]


def _pooled(streams: list[Streamed]) -> Receipts:
    return Receipts(lateness_ms=[late for each in streams for late in _counted(each).lateness_ms])


async def _side_by_side(
    stage: Stage, databases: dict[int, Database], already: dict[int, int], standstills: Standstills
) -> list[Figure]:
    """Half of the stream to a node with the fewest, the other half to one with the most."""
    ends = {min(databases), max(databases)}
    if len(ends) == 1:
        return []
    halved = msgspec.structs.replace(stage.sizes, per_second=stage.sizes.per_second // 2)
    seconds = stage.sizes.turn_seconds
    streams: dict[int, list[Streamed]] = {pending: [] for pending in ends}
    done = {pending: already[pending] for pending in ends}
    async with sink() as other:
        sinks = dict(zip(sorted(ends), (stage.sink, other), strict=True))
        for turn in range(stage.sizes.turns):
            async with AsyncExitStack() as stack:
                order = sorted(ends, reverse=turn % 2 == 1)  # neither is always the first to start
                nodes = {
                    each: await stack.enter_async_context(duetime(databases[each]))
                    for each in order
                }
                both = await asyncio.gather(
                    *(
                        stream(
                            Stage(stage.databases, sinks[each], stage.progress, halved, stage.data),
                            [nodes[each]],
                            databases[each],
                            f"w4 side by side, turn {turn + 1}",
                            seconds=seconds,
                            already=done[each],
                        )
                        for each in order
                    )
                )
            for each, streamed in zip(order, both, strict=True):
                streams[each].append(_calmed(streamed, standstills))
                done[each] += streamed.receipts.count
    return beside(max(ends), streams[max(ends)], streams[min(ends)])


def beside(pending: int, streams: list[Streamed], least: list[Streamed]) -> list[Figure]:
    """Of each figure the turn whose ratio is the median; all ratios are its samples."""
    turns = [_side(pending, one, other) for one, other in zip(streams, least, strict=True)]
    figures = typical(turns)
    for place, figure in enumerate(figures):
        figure.samples = [turn[place].ratio or 0.0 for turn in turns]
    return figures


def _side(pending: int, streamed: Streamed, least: Streamed) -> list[Figure]:
    """One turn. What the database's own processes use is for both, and cannot be told apart."""
    measured = {
        f"lateness {what}": (
            _counted(streamed).percentile(share),
            _counted(least).percentile(share),
        )
        for what, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
    } | {"the node's CPU per timer": (streamed.cpu_ms.nodes, least.cpu_ms.nodes)}
    return [
        Figure(
            workload="w4",
            what=f"{pending:,} pending, {what}, side by side",
            unit="ms",
            measured=most,
            ceiling=fewest,
            ceiling_is="the fewest, in the same seconds",
            aim=None if what in {"lateness p50", "lateness p90"} else Aim("ratio <=", MOST),
        )
        for what, (most, fewest) in measured.items()
    ]


def _chance(pending: int, streams: list[Streamed]) -> list[Figure]:
    """The same beside the same: as far as this is from 1, the other ratios say nothing."""
    if len(streams) < TURNS_OF_CHANCE:
        return []
    samples = {
        "lateness p99": _p99s(streams),
        "CPU per timer": [streamed.cpu_ms.total for streamed in streams],
    }
    return [
        Figure(
            workload="w4",
            what=f"{pending:,} pending, {what} of every other turn",
            unit="ms",
            measured=median(turns[::2]),
            ceiling=median(turns[1::2]),
            ceiling_is="of the turns between",
        )
        for what, turns in samples.items()
    ]


def _cpu(streams: list[Streamed]) -> Used:
    """That of the turn in the middle."""
    ordered = sorted((streamed.cpu_ms for streamed in streams), key=lambda used: used.total)
    return ordered[len(ordered) // 2]


async def _at_rest(stage: Stage, database: Database, pending: int) -> list[Figure]:
    """What a node costs that has nothing to do, beside its database's server without any node."""
    what = f"{pending:,} pending, at rest"
    alone = await _used_of_a_core(stage, [], f"w4 {pending:,} pending, the server alone, seconds")
    async with duetime(database) as server:
        used = await _used_of_a_core(stage, [server], f"w4 {what}, seconds")
        memory = server.memory_mb()
    is_a_server = alone.database is not None
    return [
        *meter.figures(
            "w4",
            what,
            "% of a core",
            used,
            least=alone if is_a_server else None,
            least_is="the server alone",
            aim=Aim("ceiling +", 1) if is_a_server else Aim("<", 1),
        ),
        Figure(
            workload="w4",
            what=f"{pending:,} pending, memory",
            unit="MB",
            measured=memory,
            aim=Aim("<", 150),
            rival="2,200 Celery (200,000)",
        ),
    ]


async def _used_of_a_core(stage: Stage, nodes: list[Process], task: str) -> Used:
    stage.progress.begin(task, stage.sizes.idle_seconds)
    await asyncio.sleep(REST)
    counting, started = Meter(stage.databases, nodes), time.monotonic()
    for second in range(stage.sizes.idle_seconds):
        await asyncio.sleep(1)
        stage.progress.at(second + 1)
    return counting.used().scaled(100 / (time.monotonic() - started))
