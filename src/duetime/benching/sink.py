"""The sink receives callbacks as fast as it can, and keeps what it takes to judge them.

It runs as its own process, prints the port it listens on, and is asked over the same port:
``/-/count``, ``/-/receipts``, ``/-/forget``. Arrival is when the bytes were
read, before anything is done with them. Who calls ``/say`` is answered with something to keep.
"""

import asyncio
import sys
import time
from datetime import datetime
from functools import lru_cache
from typing import cast

import msgspec

from duetime.benching.receipts import Receipts

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_SAID = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 52\r\n"
    b"x-request-id: 0197734e-7000-7abc-8def-0123456789ab\r\nserver: bench\r\n\r\n"
    b'{"ok": true, "order": "A-4711", "state": "accepted"}'
)
_END = b"\r\n\r\n"


class Ledger:
    """Writes down what arrives."""

    def __init__(self) -> None:
        self.receipts = Receipts()
        self._attempts: set[tuple[bytes, bytes]] = set()
        self._timers: set[bytes] = set()

    def note(self, head: bytes, at_ns: int) -> None:
        """Note down one callback by its head, in lower case."""
        receipts = self.receipts
        timer = field(head, b"\r\nwebhook-id: ")
        attempt = (timer, field(head, b"\r\nx-timer-attempt: "))
        late_ns = at_ns - due_ns(field(head, b"\r\nx-timer-due: "))
        receipts.count += 1
        receipts.first_ns = receipts.first_ns or at_ns
        receipts.last_ns = at_ns
        receipts.arrived_ns.append(at_ns)
        receipts.lateness_ms.append(late_ns / 1e6)
        receipts.early += late_ns < 0
        receipts.duplicates += attempt in self._attempts
        self._attempts.add(attempt)
        self._timers.add(timer)

    def answer(self, head: bytes) -> bytes:
        """Answer a question about what arrived."""
        asked = head.split(b" ", 2)[1]
        if asked == b"/-/forget":
            self.__init__()  # type: ignore[misc]
            return _ANSWER
        if asked == b"/-/count":
            return _with_body(b"%d" % self.receipts.count)
        self.receipts.distinct = len(self._timers)
        return _with_body(msgspec.json.encode(self.receipts))


class SinkProtocol(asyncio.Protocol):
    """One connection: just enough HTTP for requests that have a content-length or no body."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        at_ns = time.time_ns()
        buffer = self._buffer + data if self._buffer else data
        answers = []
        while (end := buffer.find(_END)) >= 0:
            head = buffer[: end + 2].lower()
            total = end + len(_END) + int(field(head, b"\r\ncontent-length: ") or 0)
            if len(buffer) < total:
                break
            buffer = buffer[total:]
            if b" /-/" in head[:16]:
                answers.append(self._ledger.answer(head))
            else:
                self._ledger.note(head, at_ns)
                answers.append(_SAID if b" /say " in head[:16] else _ANSWER)
        self._buffer = buffer
        if answers and self._transport is not None:
            self._transport.write(b"".join(answers))


def field(head: bytes, name: bytes) -> bytes:
    """A header's value; the name comes with its line break and colon."""
    start = head.find(name)
    if start < 0:
        return b""
    start += len(name)
    return head[start : head.find(b"\r\n", start)]


@lru_cache(maxsize=65536)
def due_ns(text: bytes) -> int:
    """When a callback was due, by its header."""
    if not text:
        return 0  # no callback of Duetime's: taken, and counted as late as can be
    at = datetime.fromisoformat(text.decode().upper())
    return int(at.timestamp()) * 1_000_000_000 + at.microsecond * 1_000


def _with_body(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


async def serve() -> None:
    """Listen on any free port, say which, and never stop."""
    ledger = Ledger()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SinkProtocol(ledger), "127.0.0.1", 0, backlog=4096)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()
