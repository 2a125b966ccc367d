"""The processes of a benchmark, seen from outside: the receiver, the load generator, the node."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from duetime.benching import requests
from duetime.benching.failures import BenchFailed
from duetime.benching.load import flood
from duetime.benching.orders import GO, READY, Done, Failed, Order, Sent
from duetime.benching.process import Process, started
from duetime.benching.receipts import Receipts

READY_WITHIN = 30.0  # seconds

# -P: the working directory may hold files that are named like modules.
_PROGRAM = ("-P", "-m", "duetime.cli.bench_main")

_read = msgspec.json.Decoder(Sent | Done | Failed).decode


class Sink:
    """The receiver."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.port = process.port
        self.pid = process.pid

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


class Generator:
    """The load generator."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.pid = process.pid

    async def prepare(self, order: Order) -> None:
        """Have all requests of an order built."""
        self._process.tell(msgspec.json.encode(order))
        if (answer := (await self._process.answer()).strip()) != READY:
            raise BenchFailed(f"the load generator is not ready: {answer}")

    async def go(self, on_progress: Callable[[int], None]) -> Done:
        """Have them sent, and wait until all are answered."""
        self._process.tell(GO)
        while True:
            answer = _read(await self._process.answer())
            if isinstance(answer, Done):
                return answer
            if isinstance(answer, Failed):
                raise BenchFailed(f"the load generator could not go on: {answer.why}")
            on_progress(answer.count)


@asynccontextmanager
async def sink(errors: Path | None = None) -> AsyncIterator[Sink]:
    """Run a receiver."""
    async with started([*_PROGRAM, "receiver"], name="the receiver", errors=errors) as process:
        process.port = int(await process.answer())
        yield Sink(process)


@asynccontextmanager
async def generator(errors: Path | None = None) -> AsyncIterator[Generator]:
    """Run a load generator."""
    async with started([*_PROGRAM, "load"], name="the load generator", errors=errors) as process:
        yield Generator(process)


@asynccontextmanager
async def node(settings: bytes, port: int, errors: Path | None = None) -> AsyncIterator[Process]:
    """Run a node, and return once it is ready.

    Its settings come as JSON, with secrets in them: they are in no argument and no environment.
    """
    async with started([*_PROGRAM, "node"], name="the node", errors=errors) as process:
        process.port = port
        process.tell(settings)
        await ready(process)
        yield process


async def ready(process: Process) -> None:
    """Wait until a server says that it is ready."""
    pause = 0.1
    for _ in range(int(READY_WITHIN / pause)):
        process.check()
        try:
            answered = await flood(process.port, [requests.get("/readyz")], 1)
        except OSError:
            pass
        else:
            if answered.statuses[b"200"]:
                return
        await asyncio.sleep(pause)
    raise BenchFailed(f"the server is not ready after {READY_WITHIN:.0f} seconds")
