"""A receiver of callbacks: a small HTTP/1.1 server that answers all alike, and tells of each."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import cast

import httptools

from duetime.cli.arrival import Arrival, OnArrival
from duetime.clock import Clock, Millis, SystemClock

_MOST_BYTES = 16 * 1024 * 1024
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NO_BODY = frozenset({204, 304})


@asynccontextmanager
async def running_receiver(
    host: str,
    port: int,
    on_arrival: OnArrival,
    *,
    status: int = 200,
    delay: Millis = 0,
    clock: Clock | None = None,
) -> AsyncIterator[int]:
    """Listen while the context lasts; it gives the port, which is a free one for port 0."""
    connections: set[_Connection] = set()
    the_clock = clock or SystemClock()

    def connected() -> _Connection:
        return _Connection(connections, on_arrival, status, delay / 1000, the_clock)

    server = await asyncio.get_running_loop().create_server(connected, host, port)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        await _take_no_more(server)
        server.close()
        for connection in tuple(connections):
            connection.close()
        await server.wait_closed()


async def _take_no_more(server: asyncio.Server) -> None:
    """Stop listening, and return once all that was accepted has its connection.

    One that is still being made when its server is closed is forgotten by Python 3.11: it is
    neither served nor closed.
    """
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):  # the event loop of Windows, which makes them at once
        for listener in server.sockets:
            loop.remove_reader(listener.fileno())
    for _ in range(2):  # it is made in one pass of the event loop, and told so in the next
        await asyncio.sleep(0)


class _Connection(asyncio.Protocol):
    """One connection: requests are answered in the order they came."""

    def __init__(
        self,
        connections: "set[_Connection]",
        on_arrival: OnArrival,
        status: int,
        delay: float,
        clock: Clock,
    ) -> None:
        self._connections = connections
        self._on_arrival = on_arrival
        self._status = status
        self._delay = delay
        self._clock = clock
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[tuple[Arrival | None, bytes, bool]] = deque()
        self._is_over = False  # nothing more is read
        self._answering: asyncio.Task[None] | None = None
        self._begin()

    def close(self) -> None:
        if self._answering:
            self._answering.cancel()
        self._transport.close()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        self._connections.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._connections.discard(self)
        if self._answering:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(b"501 Not Implemented")
        except httptools.HttpParserError:
            self._refuse(b"400 Bad Request")

    # What the parser calls

    def on_message_begin(self) -> None:
        self._begin()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._headers.get("expect", "").lower() == "100-continue" and not self._waiting:
            self._transport.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size <= _MOST_BYTES:
            self._body.append(body)
        elif not self._is_over:
            self._refuse(b"413 Content Too Large")

    def on_message_complete(self) -> None:
        arrival = Arrival(
            at=self._clock.now(),
            method=self._parser.get_method().decode("latin-1"),
            path=self._url.decode("latin-1"),
            headers=self._headers,
            body=b"".join(self._body),
        )
        if not self._is_over:
            stays_open = self._parser.should_keep_alive()
            self._queue(arrival, _answer(self._status, stays_open=stays_open), stays_open)

    def _queue(self, arrival: Arrival | None, answer: bytes, stays_open: bool) -> None:  # noqa: FBT001
        self._is_over = not stays_open
        self._waiting.append((arrival, answer, stays_open))
        if self._answering is None:
            self._answering = asyncio.get_running_loop().create_task(self._answer_all())

    async def _answer_all(self) -> None:
        while self._waiting:
            arrival, answer, stays_open = self._waiting[0]
            if arrival:
                self._on_arrival(arrival)
                if self._delay:
                    await asyncio.sleep(self._delay)
            self._transport.write(answer)
            self._waiting.popleft()
            if not stays_open:
                self._transport.close()
        self._answering = None

    def _begin(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._size = 0

    def _refuse(self, status: bytes) -> None:
        """Answer what cannot be read, after all that could be, and hang up."""
        head = b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        self._queue(None, head, stays_open=False)


def _answer(status: int, *, stays_open: bool) -> bytes:
    """An answer without a body."""
    length = b"" if status in _NO_BODY else b"Content-Length: 0\r\n"
    connection = b"" if stays_open else b"Connection: close\r\n"
    return b"HTTP/1.1 %d Received\r\n" % status + length + connection + b"\r\n"
