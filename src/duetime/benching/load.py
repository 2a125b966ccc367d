"""The load generator writes requests that were built beforehand on a number of kept connections.

It reads of each answer only the status and the length, so that it is never the slower side.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

from duetime.benching.failures import BenchFailed

_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


class Answered(NamedTuple):
    """What came of a load."""

    seconds: float
    statuses: Counter[bytes]
    last_body: bytes

    def check(self, status: bytes, count: int) -> None:
        """Raise unless there were so many answers, all with this status."""
        if self.statuses != {status: count}:
            shown = {text.decode(): number for text, number in self.statuses.items()}
            raise BenchFailed(f"expected {count} answers {status.decode()}, got {shown}")


class _Load:
    """The requests still to be sent, and what was answered so far."""

    def __init__(self, requests: Sequence[bytes], on_progress: Callable[[int], None]) -> None:
        self.waiting: Iterator[bytes] = iter(requests)
        self.total = len(requests)
        self.answered = 0
        self.statuses: Counter[bytes] = Counter()
        self.last_body = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_progress = on_progress

    def note(self, status: bytes) -> None:
        self.statuses[status] += 1
        self.answered += 1
        if self.answered % 500 == 0:
            self._on_progress(self.answered)
        if self.answered == self.total and not self.done.done():
            self.done.set_result(None)

    def fail(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError(reason))


class _Connection(asyncio.Protocol):
    """One connection: a request at a time, and then the next one."""

    def __init__(self, load: _Load) -> None:
        self._load = load
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self.is_free = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send_next(self) -> None:
        """Send the next request, if there is one left."""
        request = next(self._load.waiting, None)
        self.is_free = request is None
        if request is not None and self._transport is not None:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        end = buffer.find(_END)
        total = end + len(_END) + _length(buffer, end)
        if end < 0 or len(buffer) < total:
            self._buffer = buffer
            return
        self._buffer = b""
        self.is_free = True
        self._load.last_body = buffer[end + len(_END) :]
        self._load.note(buffer[9:12])
        self.on_free()

    def on_free(self) -> None:
        """Go on at once."""
        self.send_next()

    def connection_lost(self, error: Exception | None) -> None:
        self._load.fail(f"the server hung up: {error}")

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class _PacedConnection(_Connection):
    """A connection that waits to be told when to send."""

    def on_free(self) -> None:
        pass


async def flood(
    port: int,
    requests: Sequence[bytes],
    connections: int,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Answered:
    """Send all requests as fast as they are answered."""
    load = _Load(requests, on_progress)
    open_ones = await _connect(port, load, connections, _Connection)
    started = time.perf_counter()
    for connection in open_ones:
        connection.send_next()
    return await _finished(load, open_ones, started)


async def pace(
    ports: Sequence[int],
    requests: Sequence[bytes],
    per_second: float,
    connections: int,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Answered:
    """Send so many requests a second, whether or not the earlier ones were answered.

    Each goes to one of the ports at random; all have the same number of connections. Only when a
    server stalls for so long that no connection is free does the pace suffer.
    """
    load = _Load(requests, on_progress)
    open_ones = [
        connection
        for port in ports
        for connection in await _connect(port, load, connections // len(ports), _PacedConnection)
    ]
    started = time.perf_counter()
    try:
        for place in range(len(requests)):
            ahead = started + place / per_second - time.perf_counter()
            if ahead > 0:
                await asyncio.sleep(ahead)
            # In turn: a connection that nothing is sent on is closed by the server after a while.
            turn = place % len(open_ones)
            if turn == 0:
                random.shuffle(open_ones)
            in_turn = open_ones[turn:] + open_ones[:turn]
            while (free := next((one for one in in_turn if one.is_free), None)) is None:
                if load.done.done():
                    return await _finished(load, open_ones, started)
                await asyncio.sleep(0.001)
            free.send_next()
    except BaseException:
        load.done.cancel()  # nobody will ask what came of it
        raise
    return await _finished(load, open_ones, started)


async def _connect(
    port: int, load: _Load, count: int, kind: type[_Connection]
) -> list[_Connection]:
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda: kind(load), "127.0.0.1", port) for _ in range(count)
    ]
    return [connection for _, connection in made]


async def _finished(load: _Load, connections: list[_Connection], started: float) -> Answered:
    try:
        await load.done
    finally:
        seconds = time.perf_counter() - started
        for connection in connections:
            connection.close()
    return Answered(seconds, load.statuses, load.last_body)


def _length(buffer: bytes, end: int) -> int:
    start = buffer.find(_LENGTH, 0, end)
    return int(buffer[start + len(_LENGTH) : buffer.find(b"\r\n", start)]) if start >= 0 else 0
