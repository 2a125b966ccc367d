"""The subscriber is the sink of NATS: it takes messages as fast as it can, and judges them later.

It runs as its own process (``python -m bench.subscriber PORT SUBJECT``), and is asked over HTTP
like the other sink, on the port that it prints. While messages come it only keeps their heads, with
the time at which the bytes were read: so it is never the slower side.
"""

import asyncio
import sys
import time
from typing import cast

import uvloop

from duetime.benching.sink import Ledger, SinkProtocol

_CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
_CRLF = b"\r\n"


class PatientLedger(Ledger):
    """Writes down what arrived when it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[tuple[bytes, int]] = []

    def keep(self, head: bytes, at_ns: int) -> None:
        """Keep a message for later."""
        self._kept.append((head, at_ns))

    def answer(self, head: bytes) -> bytes:
        if b"/-/count" in head:  # asked again and again while they come
            self.receipts.count += len(self._kept)
            told = super().answer(head)
            self.receipts.count -= len(self._kept)
            return told
        kept, self._kept = self._kept, []
        for message, at_ns in kept:
            self.note(message.lower(), at_ns)
        return super().answer(head)


class Subscription(asyncio.Protocol):
    """The connection to the server: just enough of its protocol to count messages with headers."""

    def __init__(self, ledger: PatientLedger, subject: str) -> None:
        self._ledger = ledger
        self._subject = subject
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self.is_heard = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(_CONNECT + b"SUB %b 1\r\nPING\r\n" % self._subject.encode())

    def data_received(self, data: bytes) -> None:
        at_ns = time.time_ns()
        buffer = self._buffer + data if self._buffer else data
        start = 0
        while (end := buffer.find(_CRLF, start)) >= 0:
            begin = end + 2
            if buffer.startswith(b"HMSG ", start):
                before, size = buffer[start:end].rsplit(b" ", 2)[1:]
                if len(buffer) < begin + int(size) + 2:
                    break
                self._ledger.keep(buffer[begin : begin + int(before)], at_ns)
                begin += int(size) + 2
            elif buffer.startswith(b"PING", start) and self._transport is not None:
                self._transport.write(b"PONG\r\n")
            elif buffer.startswith(b"PONG", start):
                self.is_heard.set()
            start = begin
        self._buffer = buffer[start:]


async def serve(port: int, subject: str) -> None:
    """Listen to the server, and for questions on any free port, which is told."""
    ledger = PatientLedger()
    loop = asyncio.get_running_loop()
    _, subscription = await loop.create_connection(
        lambda: Subscription(ledger, subject), "127.0.0.1", port
    )
    await subscription.is_heard.wait()
    server = await loop.create_server(lambda: SinkProtocol(ledger), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))
