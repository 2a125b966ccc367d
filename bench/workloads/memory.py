"""W12, memory: whether a node grows with what it has fired, and how large a crowd makes it."""

from math import ceil

from bench.figure import Aim, Figure
from bench.servers import duetime
from bench.stage import Stage
from bench.workloads import burst, fired
from duetime.benching.process import Process

WARM_AFTER = 100_000  # timers: until then caches fill, and pools of connections
BYTES_EACH = 200.0
MOST_MB = 200.0


async def run(stage: Stage) -> list[Figure]:
    """A million, round by round, and then very many due at one instant, on a fresh node."""
    return [*await _growth(stage), await _crowd(stage)]


async def _growth(stage: Stage) -> list[Figure]:
    retention = f"{stage.sizes.retention_seconds}s"
    async with stage.databases.fresh() as database, duetime(database, RETENTION=retention) as node:
        held = []
        for number in range(stage.sizes.rounds):
            await fired.fire(stage, node, f"w12 round {number + 1}")
            held.append(node.memory_mb())
    return grown(held, stage.sizes.fired)


def grown(held_mb: list[float], count: int) -> list[Figure]:
    """What was held after each round, of as many timers each, beside when it was warm.

    A run that is over before that can only have grown: it says nothing, and has no aim.
    """
    each = count / len(held_mb)
    rounds = ceil(min(WARM_AFTER, count / 10) / each)
    warm = rounds - 1
    later = (len(held_mb) - 1 - warm) * each
    return [
        Figure(
            workload="w12",
            what=f"{count:,} fired, growth per timer",
            unit="bytes",
            measured=(held_mb[-1] - held_mb[warm]) * 1024 * 1024 / later,
            aim=Aim("<", BYTES_EACH) if rounds * each >= WARM_AFTER else None,
        ),
        Figure(
            workload="w12",
            what=f"{count:,} fired, memory at the end",
            unit="MB",
            measured=held_mb[-1],
            ceiling=held_mb[warm],
            ceiling_is=f"after {round(rounds * each):,}",
            samples=held_mb,
        ),
    ]


async def _crowd(stage: Stage) -> Figure:
    peaks: list[float] = []

    def look(server: Process) -> None:
        peaks.append(server.peak_mb())

    count = stage.sizes.crowd
    await burst.fired(stage, count, look=look)
    return Figure(
        workload="w12",
        what=f"{count:,} due at one instant, the most memory",
        unit="MB",
        measured=peaks[-1],
        aim=Aim("<", MOST_MB),
    )
