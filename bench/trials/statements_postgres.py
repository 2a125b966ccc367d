"""What each statement costs PostgreSQL: ``python -m bench.trials.statements_postgres``.

The loads of ``bench.trials.life``, on a server of our own that keeps ``pg_stat_statements``. The
server's time has waiting in it, for processors that others use as well; bytes of the write-ahead
log and blocks that were looked at are the same in every run. What a commit waits for the disk is in
none of them.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import asyncpg
import uvloop

from bench.databases.postgres import PostgresSchemas
from bench.progress import Progress
from bench.servers import duetime
from bench.sizes import Sizes
from bench.stage import Stage
from bench.workloads import burst, steady
from bench.workloads.creates import BATCH, BATCH_CONNECTIONS, CONNECTIONS, bodies_of
from duetime.benching import requests
from duetime.benching.load import flood
from duetime.benching.servers import sink
from tests.servers.kinds import KINDS

CREATES = 10_000
BATCHED = 30_000
BURST = 10_000
STEADY = Sizes(seconds=15)
SHOWN = 4  # statements of a load, those that took longest

WRITING = re.compile(r'(INSERT INTO|UPDATE|DELETE FROM|COPY) "?\w+"?\."?(\w+)')
READING = re.compile(r"FROM \w+\.(\w+)")
LONGEST_NAME = 70

_READ = """
SELECT query, calls, total_exec_time + total_plan_time AS ms, wal_bytes, shared_blks_hit AS blocks
FROM pg_stat_statements
WHERE query LIKE '%bench\\_%' AND query !~ '^(SELECT count|CREATE|ALTER|DROP)'
ORDER BY total_exec_time + total_plan_time DESC LIMIT $1
"""


class Statement(NamedTuple):
    """One statement, as often as a load had it run."""

    name: str
    calls: int
    micros: float
    wal: float
    blocks: float


def name_of(query: str) -> str:
    """What a statement does to which tables."""
    written = [f"{verb.split()[0].lower()} {table}" for verb, table in WRITING.findall(query)]
    read = [f"select {table}" for table in READING.findall(query)[:1]]
    careful = " unless there" if "ON CONFLICT DO NOTHING" in query else ""
    return (", ".join(written or read) or query)[:LONGEST_NAME] + careful


class Trial:
    """Runs the loads, and reads what the server says of each."""

    def __init__(self, stage: Stage, connection: asyncpg.Connection) -> None:
        self._stage = stage
        self._connection = connection

    async def creates(self, load: list[bytes], connections: int) -> list[Statement]:
        """Creates, in requests that are given."""
        async with self._stage.databases.fresh() as database, duetime(database) as server:
            async with self._counting():
                await flood(server.port, load, connections)
            return await self._read()

    async def burst(self) -> list[Statement]:
        """All at one instant; what is done until they are created is not counted."""
        async with self._counting():
            await burst.fired(self._stage, BURST)
        found = await self._read()
        return [each for each in found if not each.name.startswith(("insert timers", "copy"))]

    async def stream(self) -> list[Statement]:
        """Created and fired, 200 a second."""
        async with self._stage.databases.fresh() as database, duetime(database) as server:
            async with self._counting():
                await steady.stream(self._stage, [server], database, "steady")
            return await self._read()

    @asynccontextmanager
    async def _counting(self) -> AsyncIterator[None]:
        await self._connection.execute("SELECT pg_stat_statements_reset()")
        yield
        await asyncio.sleep(1)  # for what is gathered before it is written

    async def _read(self) -> list[Statement]:
        return [
            Statement(
                name_of(row["query"]),
                row["calls"],
                row["ms"] * 1000,
                row["wal_bytes"],
                row["blocks"],
            )
            for row in await self._connection.fetch(_READ, SHOWN)
        ]


def table(loads: dict[str, tuple[list[Statement], int]]) -> str:
    """All of it, by load and statement, for one timer."""
    lines = [
        "| load | statement | calls | µs of the server a timer | bytes of log | blocks |",
        "|---|---|---|---|---|---|",
    ]
    for load, (found, count) in loads.items():
        lines += [
            f"| {load} | {each.name} | {each.calls:,} | {each.micros / count:.1f} "
            f"| {float(each.wal) / count:,.0f} | {each.blocks / count:.1f} |"
            for each in found
        ]
    return "\n".join(lines)


async def measure(url: str, pid: int, folder: Path) -> dict[str, tuple[list[Statement], int]]:
    """Each load after the other."""
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    async with sink() as receiver:
        stage = Stage(PostgresSchemas(url, pid=pid), receiver, Progress(), STEADY, folder)
        trial = Trial(stage, connection)
        bodies = bodies_of(stage, BATCHED)
        singles = [requests.create(body) for body in bodies[:CREATES]]
        batches = requests.batches(bodies, BATCH)
        loads = {
            "create": (await trial.creates(singles, CONNECTIONS), CREATES),
            "in a batch": (await trial.creates(batches, BATCH_CONNECTIONS), BATCHED),
        }
        loads["fire, in a burst"] = (await trial.burst(), BURST)
        streamed = STEADY.per_second * STEADY.seconds
        loads["create and fire, 200 a second"] = (await trial.stream(), streamed)
    await connection.close()
    return loads


def main() -> None:
    """Start a server, and print the table."""
    kind, options = KINDS[PostgresSchemas.server], PostgresSchemas.server_options
    settings = options["settings"] | {
        "shared_preload_libraries": "pg_stat_statements",
        "pg_stat_statements.track_planning": "on",
    }
    results = Path(__file__).resolve().parents[1] / "results"
    results.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="data-", dir=results) as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL is somebody else
        how = {**options, "settings": settings, "within": folder}
        with kind.server(kind.install(), **how) as server:
            print(table(uvloop.run(measure(server.url(), server.pid, folder))))


if __name__ == "__main__":
    main()
