"""The services under load: Duetime itself, and its API without a store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.databases import Database
from duetime.benching import requests
from duetime.benching.process import Process, free_port, started
from duetime.benching.servers import ready


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
        await ready(process)
        yield process


@asynccontextmanager
async def storeless() -> AsyncIterator[Process]:
    """Run the same API with a store that keeps nothing."""
    port = free_port()
    async with started(["-m", "bench.storeless", str(port)]) as process:
        process.port = port
        await ready(process)
        yield process
