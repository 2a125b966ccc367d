"""The servers under load: Duetime itself, its API without a store, and the sink."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from bench import requests
from bench.databases import Database
from bench.load import flood
from bench.process import Process, free_port, started
from bench.receipts import Receipts


class Sink:
    """The sink, seen from outside."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.port = process.port

    async def forget(self) -> None:
        """Start afresh."""
        await self._ask("/-/forget")

    async def count(self) -> int:
        """How many callbacks have arrived."""
        return int(await self._ask("/-/count"))

    async def receipts(self) -> Receipts:
        """What has arrived."""
        return msgspec.json.decode(await self._ask("/-/receipts"), type=Receipts)

    async def _ask(self, path: str) -> bytes:
        self._process.check()
        return (await flood(self.port, [requests.get(path)], 1)).last_body


@asynccontextmanager
async def sink() -> AsyncIterator[Sink]:
    """Run a sink."""
    async with started(["-m", "bench.sink"]) as process:
        process.port = int(await process.line())
        yield Sink(process)


@asynccontextmanager
async def duetime(database: Database, **settings: str) -> AsyncIterator[Process]:
    """Run `duetime serve` on a database, with its defaults but for these settings."""
    port = free_port()
    env = {
        "API_KEY": requests.KEY,
        "DATABASE_URL": database.url,
        "EGRESS_ALLOW": "127.0.0.0/8",
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "LOG_LEVEL": "warning",
        **settings,
    }
    command = ["-c", "import sys; from duetime.cli import main; sys.exit(main())", "serve"]
    async with started(command, env) as process:
        process.port = port
        await _ready(process)
        yield process


@asynccontextmanager
async def storeless() -> AsyncIterator[Process]:
    """Run the same API with a store that keeps nothing."""
    port = free_port()
    async with started(["-m", "bench.storeless", str(port)]) as process:
        process.port = port
        await _ready(process)
        yield process


async def _ready(process: Process) -> None:
    for _ in range(300):
        process.check()
        try:
            answered = await flood(process.port, [requests.get("/readyz")], 1)
        except OSError:
            pass
        else:
            if answered.statuses[b"200"]:
                return
        await asyncio.sleep(0.1)
    raise RuntimeError("the server is not ready after 30 seconds")
