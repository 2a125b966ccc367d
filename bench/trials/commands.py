"""Creates over NATS beside creates over HTTP: ``python -m bench.trials.commands``.

The same timers, made one by one, as many requests under way at once as there are connections: over
HTTP, over NATS by request and reply, and from a stream that was filled before. In turn, on the same
server; the medians count.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from bench.databases import opening
from bench.servers import duetime
from duetime.benching import requests
from duetime.benching.load import flood
from duetime.benching.process import Process
from duetime.clock import SystemClock
from duetime.nats import Message
from duetime.nats.connection import Connection
from duetime.nats.headers import written
from duetime.nats.jetstream import JetStream, Outgoing
from tests.servers.kinds import KINDS

SUBJECT = "duetime.default.timers.create"
QUEUE = "duetime.default.queue.create"
STREAM = "BENCH_COMMANDS"
HEADERS = written({"X-API-Key": requests.KEY})
PORTION = 1_000  # creates that are put into the stream together


class Asking:
    """Asks one request after the other, so many of them at once."""

    def __init__(self, nats: Connection, bodies: Sequence[bytes]) -> None:
        self._nats = nats
        self._waiting = iter(bodies)
        self._left = len(bodies)
        self._inbox = f"{nats.inbox}.bench"
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, at_once: int) -> float:
        """Ask all of it; the answer is how many seconds it took."""
        listening = self._nats.subscribe(self._inbox, self._hear)
        began_at = time.perf_counter()
        for _ in range(at_once):
            self._ask()
        await self._done
        took = time.perf_counter() - began_at
        listening.end()
        return took

    def _ask(self) -> None:
        body = next(self._waiting, None)
        if body is not None:
            self._nats.publish(SUBJECT, body, headers=HEADERS, reply=self._inbox)

    def _hear(self, message: Message) -> None:
        if message.headers["Duetime-Status"] != "201" and not self._done.done():
            self._done.set_exception(RuntimeError(message.data.decode()))
        self._left -= 1
        if not self._left and not self._done.done():
            self._done.set_result(None)
        self._ask()


async def over_http(server: Process, bodies: Sequence[bytes], at_once: int) -> float:
    """How many seconds it takes over HTTP."""
    answered = await flood(server.port, [requests.create(body) for body in bodies], at_once)
    answered.check(b"201", len(bodies))
    return answered.seconds


async def from_stream(nats: Connection, bodies: Sequence[bytes]) -> float:
    """How many seconds it takes until a stream is empty, into which all of them were put."""
    jetstream = JetStream(nats, SystemClock())
    began_at = time.perf_counter()
    for at in range(0, len(bodies), PORTION):
        messages = [Outgoing(QUEUE, body, HEADERS) for body in bodies[at : at + PORTION]]
        for answer in await jetstream.publish_all(messages, 30):
            if isinstance(answer, Exception):
                raise answer
    while (await jetstream.stream_info(STREAM))["state"]["messages"]:  # noqa: ASYNC110 - of others
        await asyncio.sleep(0.01)
    return time.perf_counter() - began_at


class Ways:
    """What is measured of each way, round by round."""

    def __init__(self) -> None:
        self.rates: dict[str, list[float]] = {}
        self.cpu: dict[str, list[float]] = {}  # microseconds a timer

    async def measure(self, way: str, server: Process, work: Awaitable[float], count: int) -> None:
        """Take note of what a round took, of the time and of the server's processor."""
        before = server.cpu_seconds()
        took = await work
        self.rates.setdefault(way, []).append(count / took)
        self.cpu.setdefault(way, []).append((server.cpu_seconds() - before) / count * 1e6)

    def show(self) -> None:
        """Print a line for each; the first round only warmed."""
        http = statistics.median(self.rates["http"][1:])
        for way, each in self.rates.items():
            rate, spent = statistics.median(each[1:]), statistics.median(self.cpu[way][1:])
            print(
                f"{way:8}{rate:9,.0f} creates/s {spent:7.1f} µs of processor"
                f"{rate / http:7.2f} of HTTP"
            )


async def run(store: str, data: Path, count: int, rounds: int, at_once: int) -> None:
    """Measure each way in turn, and print a line for each."""
    due, ways = requests.now_ms() + requests.FAR, Ways()
    bodies = [requests.body(1, due, number) for number in range(count)]
    broker = KINDS["nats"].start()
    settings = {
        "NATS_URL": broker.url(),
        "NATS_COMMANDS": "keys",
        "COMMANDS_STREAM": STREAM,
    }
    try:
        async with (
            opening.opened(store, data) as databases,
            databases.fresh() as database,
            duetime(database, **settings) as server,
        ):
            nats = Connection([broker.url()], SystemClock())
            await nats.connect()
            for _ in range(rounds + 1):
                await ways.measure("http", server, over_http(server, bodies, at_once), count)
                await ways.measure("nats", server, Asking(nats, bodies).run(at_once), count)
                await ways.measure("stream", server, from_stream(nats, bodies), count)
            await nats.close()
    finally:
        broker.close()
    ways.show()


def main() -> None:
    """Run the trial."""
    parser = argparse.ArgumentParser(prog="python -m bench.trials.commands", description=__doc__)
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--data", type=Path, help="a folder for the databases")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        work = run(
            options.store,
            options.data or Path(folder),
            options.count,
            options.rounds,
            options.at_once,
        )
        uvloop.run(work)


if __name__ == "__main__":
    main()
