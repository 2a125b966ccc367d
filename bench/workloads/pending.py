"""W4, the steady stream beside many timers that are far from due; and what these cost at rest."""

import asyncio
import time

from bench.backlog import fill
from bench.figure import Aim, Figure
from bench.process import Process
from bench.servers import duetime
from bench.stage import Stage
from bench.workloads.steady import Streamed, stream

REST = 5.0  # seconds until a server that was busy is taken to be idle


async def run(stage: Stage) -> list[Figure]:
    """The same stream with more and more timers pending, and then at rest with the most."""
    figures: list[Figure] = []
    least: Streamed | None = None
    for pending in stage.sizes.pending:
        with stage.folder() as folder:
            database = folder / "w4.db"
            stage.progress.begin("w4 storing pending timers", pending)
            await fill(database, pending, stage.progress.at)
            async with duetime(database) as server:
                streamed = await stream(stage, server, database, f"w4 {pending:,} pending")
                least = least or streamed
                figures += _compared(pending, streamed, least)
                if pending == stage.sizes.pending[-1]:
                    figures += await _at_rest(stage, server, pending)
    return figures


def _compared(pending: int, streamed: Streamed, least: Streamed) -> list[Figure]:
    is_least = streamed is least
    p99, least_p99 = streamed.receipts.percentile(0.99), least.receipts.percentile(0.99)
    aim = None if is_least else Aim("ratio <=", 1.2)
    return [
        Figure(
            workload="w4",
            what=f"{pending:,} pending, lateness p99",
            unit="ms",
            measured=p99,
            ceiling=None if is_least else least_p99,
            ceiling_is="the fewest pending",
            aim=aim,
            rival="9.9 Celery, 35 Restate (200,000)",
        ),
        Figure(
            workload="w4",
            what=f"{pending:,} pending, CPU per timer",
            unit="ms",
            measured=streamed.cpu_ms,
            ceiling=None if is_least else least.cpu_ms,
            ceiling_is="the fewest pending",
            aim=aim,
        ),
    ]


async def _at_rest(stage: Stage, server: Process, pending: int) -> list[Figure]:
    stage.progress.begin(f"w4 at rest with {pending:,} pending, seconds", stage.sizes.idle_seconds)
    await asyncio.sleep(REST)
    cpu, started = server.cpu_seconds(), time.monotonic()
    for second in range(stage.sizes.idle_seconds):
        await asyncio.sleep(1)
        stage.progress.at(second + 1)
    used = server.cpu_seconds() - cpu
    return [
        Figure(
            workload="w4",
            what=f"{pending:,} pending, at rest",
            unit="% of a core",
            measured=100 * used / (time.monotonic() - started),
            aim=Aim("<", 1),
        ),
        Figure(
            workload="w4",
            what=f"{pending:,} pending, memory",
            unit="MB",
            measured=server.memory_mb(),
            aim=Aim("<", 150),
            rival="2,200 Celery (200,000)",
        ),
    ]
