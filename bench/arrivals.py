"""Arrivals: a receiver that answers when it is told to, and notes when each callback came."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple, cast

from duetime.benching.sink import due_ns, field

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_END = b"\r\n\r\n"


class Arrival(NamedTuple):
    """One callback: when it came, and when it was due, in seconds."""

    at: float
    due: float


class Arrivals:
    """What has arrived, by the path it was sent to, and how many were under way at once."""

    def __init__(self, answer_after: float) -> None:
        self.answer_after = answer_after
        self.port = 0
        self.came: dict[str, list[Arrival]] = defaultdict(list)
        self.under_way: dict[str, int] = defaultdict(int)
        self.most: dict[str, int] = defaultdict(int)

    def begin(self, path: str, head: bytes) -> None:
        """A callback has come."""
        due = due_ns(field(head, b"\r\nx-timer-due: ")) / 1e9
        self.came[path].append(Arrival(time.time(), due))
        self.under_way[path] += 1
        self.most[path] = max(self.most[path], self.under_way[path])

    def lateness_ms(self, path: str, since: float = 0.0) -> list[float]:
        """How late they were, or how long after that moment those came that were due before."""
        return [1000 * (each.at - max(each.due, since)) for each in self.came[path]]

    def per_second(self, path: str, since: float, seconds: int) -> list[int]:
        """How many came in each of so many seconds."""
        counts = [0] * seconds
        for each in self.came[path]:
            second = int(each.at - since)
            if each.at >= since and second < seconds:
                counts[second] += 1
        return counts


class _Connection(asyncio.Protocol):
    """One connection: just enough HTTP for callbacks that have a content-length."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(_END)) >= 0:
            head = self._buffer[: end + 2].lower()
            total = end + len(_END) + int(field(head, b"\r\ncontent-length: ") or 0)
            if len(self._buffer) < total:
                return
            self._buffer = self._buffer[total:]
            path = head.split(b" ", 2)[1].decode()
            self._arrivals.begin(path, head)
            if self._arrivals.answer_after:
                loop = asyncio.get_running_loop()
                loop.call_later(self._arrivals.answer_after, self._answer, path)
            else:
                self._answer(path)

    def _answer(self, path: str) -> None:
        self._arrivals.under_way[path] -= 1
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_ANSWER)


@asynccontextmanager
async def receiving(answer_after: float = 0.0) -> AsyncIterator[Arrivals]:
    """Be a receiver on a port of its own."""
    arrivals = Arrivals(answer_after)
    server = await asyncio.get_running_loop().create_server(
        lambda: _Connection(arrivals), "127.0.0.1", 0, backlog=4096
    )
    arrivals.port = server.sockets[0].getsockname()[1]
    try:
        yield arrivals
    finally:
        server.close()
