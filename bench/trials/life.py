"""Where the microseconds of a timer's life go: ``python -m bench.trials.life --store postgres``.

Four loads, each on a node of its own: creates one by one, creates in batches, a burst, and the
steady stream, in which a timer is created and fired. What a node has used of the processors is told
by ``/proc``, thread by thread. That of its event loop is shared out by where py-spy, which must be
installed, found it at work: a sample counts for the innermost part that it is in. What the sampling
itself costs is in the figures.
"""

import argparse
import asyncio
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import uvloop

from bench.awake import kept_awake
from bench.databases import opening
from bench.progress import Progress
from bench.servers import duetime
from bench.sizes import Sizes
from bench.stage import Stage
from bench.workloads import burst, steady
from bench.workloads.creates import BATCH, BATCH_CONNECTIONS, CONNECTIONS, bodies_of
from duetime.benching import requests, usage
from duetime.benching.load import flood
from duetime.benching.process import Process, started
from duetime.benching.servers import sink

PER_SECOND = 400  # samples
CREATES = 10_000
BATCHED = 60_000
BURST = 20_000
LEAD = 10_000  # milliseconds in which the burst is created
JUST_BEFORE = 0.3  # seconds before it is due

# The parts, and which files are theirs: whichever is found first, from the inside to the outside.
PARTS: dict[str, tuple[str, ...]] = {
    "HTTP in: server, routing, key": (
        *("uvicorn/", "starlette/", "api/server.py", "api/joined.py", "api/app.py"),
        *("api/auth.py", "api/bodies.py", "api/gate.py", "api/proxies.py", "api/streaming.py"),
    ),
    "decode, check, draft": (
        *("api/timers.py", "api/request.py", "decoding.py", "requests.py", "drafts.py"),
        *("creates.py", "service.py", "tenancy/", "brake.py"),
    ),
    "answer": ("api/views.py", "api/envelope.py", "api/answers.py"),
    "audit": ("auditing.py",),
    "read ahead": ("engine/reader.py", "engine/notices.py"),
    "HTTP out: headers, request, answer": ("delivery/", "engine/errands.py"),
    "claim: from the agenda to the row": (
        *("engine/dispatcher.py", "engine/departures.py", "engine/targets.py"),
        "engine/agenda.py",
    ),
    "commit: from the outcome to the row": ("engine/committer.py",),
    "write: ledger and driver": ("ledger.py", "batcher.py", "stores/", "asyncpg/"),
}
REST = "the event loop itself, and the rest"


class Life(NamedTuple):
    """What one timer took in a load, in microseconds, by part; and in all other threads."""

    parts: dict[str, float]
    threads: float
    database: float | None


@asynccontextmanager
async def sampled(server: Process, into: Path) -> AsyncIterator[None]:
    """Sample a process until the end of this."""
    spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if spy is None:
        raise SystemExit("py-spy is not installed: pip install py-spy")
    how = ["record", "--gil", "--format", "raw", "--rate", str(PER_SECOND), "--function"]
    what = ["--duration", "unlimited", "--output", str(into), "--pid", str(server.pid)]
    said = into.with_suffix(".err")
    async with started([*how, *what], program=spy, name="py-spy", errors=said) as sampling:
        await asyncio.sleep(1)  # until it samples
        yield
        os.kill(sampling.pid, signal.SIGINT)  # then it writes what it has
        await sampling.ended()


def shares(raw: str) -> Counter[str]:
    """How many samples of the event loop each part has, of what py-spy wrote."""
    found: Counter[str] = Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        if "asyncio/runners.py" in stack:
            found[_part_of(stack.split(";"))] += int(count)
    return found


def _part_of(frames: list[str]) -> str:
    for frame in reversed(frames):
        for part, files in PARTS.items():
            if any(f"({file}" in frame or f"/{file}" in frame for file in files):
                return part
    return REST


class Trial:
    """Measures one node at a time."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self._stage = stage
        self._folder = folder

    async def creates(self, load: list[bytes], connections: int, count: int) -> Life:
        async with self._stage.databases.fresh() as database, duetime(database) as server:
            await flood(server.port, load[: connections * 4], connections)  # warm
            async with sampled(server, self._raw):
                before = self._used(server)
                await flood(server.port, load, connections)
                after = self._used(server)
            return self._life(before, after, count)

    async def burst(self) -> Life:
        noted: list[tuple[float, float, float | None]] = []

        async def watch(server: Process) -> None:
            await asyncio.sleep(LEAD / 1000 - JUST_BEFORE - 1)
            async with sampled(server, self._raw):
                noted.append(self._used(server))
                while await self._stage.sink.count() < BURST:  # noqa: ASYNC110 - as the stage does
                    await asyncio.sleep(0.1)
                await asyncio.sleep(0.3)  # until nearly all outcomes are written
                noted.append(self._used(server))

        watching: list[asyncio.Task[None]] = []

        def prepare(server: Process) -> None:
            watching.append(asyncio.create_task(watch(server)))

        if await burst.fire(self._stage, BURST, LEAD, prepare=prepare) is None:
            raise SystemExit("the machine is too slow: the burst was due before it was created")
        await asyncio.gather(*watching)
        return self._life(noted[0], noted[1], BURST)

    async def stream(self) -> Life:
        sizes = self._stage.sizes
        async with self._stage.databases.fresh() as database, duetime(database) as server:
            async with sampled(server, self._raw):
                before = self._used(server)
                await steady.stream(self._stage, [server], database, "steady")
                after = self._used(server)
            return self._life(before, after, sizes.per_second * sizes.seconds)

    @property
    def _raw(self) -> Path:
        return self._folder / "samples.txt"

    def _used(self, server: Process) -> tuple[float, float, float | None]:
        """The processor time of the event loop, of all threads, and of the database."""
        loop = usage.thread_cpu_seconds(server.pid, server.pid)
        return loop, server.cpu_seconds(), self._stage.databases.cpu_seconds()

    def _life(
        self,
        before: tuple[float, float, float | None],
        after: tuple[float, float, float | None],
        count: int,
    ) -> Life:
        micros = 1e6 / count
        loop, whole = (after[0] - before[0]) * micros, (after[1] - before[1]) * micros
        database = None
        if before[2] is not None and after[2] is not None:
            database = (after[2] - before[2]) * micros
        found = shares(self._raw.read_text())
        total = sum(found.values()) or 1
        parts = {part: loop * found[part] / total for part in (*PARTS, REST)}
        return Life(parts, whole - loop, database)


def table(lives: dict[str, Life]) -> str:
    """All of it, a column for each load."""
    names = list(lives)
    lines = [f"| µs a timer | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    rows = {part: [lives[name].parts[part] for name in names] for part in (*PARTS, REST)}
    rows["other threads (SQLite's)"] = [lives[name].threads for name in names]
    if all(lives[name].database is not None for name in names):
        rows["the database"] = [lives[name].database or 0.0 for name in names]
    rows["all"] = [sum(column) for column in zip(*rows.values(), strict=True)]
    lines += [
        f"| {part} | {' | '.join(f'{value:.0f}' if value >= 0.5 else '' for value in values)} |"
        for part, values in rows.items()
    ]
    return "\n".join(lines)


async def measure(store: str, folder: Path) -> dict[str, Life]:
    """Each load after the other."""
    async with opening.opened(store, folder) as databases, sink() as receiver:
        stage = Stage(databases, receiver, Progress(), Sizes(), folder)
        trial = Trial(stage, folder)
        bodies = bodies_of(stage, BATCHED)
        singles = [requests.create(body) for body in bodies[:CREATES]]
        return {
            "create": await trial.creates(singles, CONNECTIONS, CREATES),
            "in a batch": await trial.creates(
                requests.batches(bodies, BATCH), BATCH_CONNECTIONS, BATCHED
            ),
            "fire, in a burst": await trial.burst(),
            "create and fire, 200 a second": await trial.stream(),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.trials.life")
    parser.add_argument("--store", default="sqlite", help=", ".join(opening.NAMES))
    options = parser.parse_args()
    results = Path(__file__).resolve().parents[1] / "results"
    results.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="data-", dir=results) as folder:
        Path(folder).chmod(0o755)  # PostgreSQL is somebody else
        with kept_awake() as idle:
            lives = uvloop.run(measure(options.store, Path(folder)))
    print(f"idle processors: {idle}\n\n{table(lives)}")


if __name__ == "__main__":
    main()
