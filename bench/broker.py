"""The broker is a NATS server of the benchmark's own, and a process that listens to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from duetime.benching.process import started
from duetime.benching.servers import Sink

TOPIC = "orders.expire"


class NoBroker(Exception):
    """There is no NATS server for this machine."""


@asynccontextmanager
async def broker(*, jetstream: bool = False) -> AsyncIterator[str]:
    """Run a server; its URL."""
    from tests.servers.kinds import KINDS  # noqa: PLC0415 - they come with the tests
    from tests.servers.unavailable import Unavailable  # noqa: PLC0415

    kind = KINDS["nats"]
    try:
        server = kind.server(kind.install(), jetstream=jetstream)
    except (Unavailable, RuntimeError) as error:
        raise NoBroker(str(error)) from error
    with server:
        yield server.url()


@asynccontextmanager
async def subscriber(url: str) -> AsyncIterator[Sink]:
    """Run a sink for all messages on the topic."""
    port = url.rpartition(":")[2]
    async with started(["-m", "bench.subscriber", port, TOPIC]) as process:
        process.port = int(await process.line())
        yield Sink(process)
