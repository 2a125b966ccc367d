"""Wires: what the senders send, taken and answered at once, without a socket."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

from duetime.delivery.connection import Connection
from duetime.delivery.receiver import Receiver

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/plain\r\n\r\nok"


class _Transport:
    """The end of a connection at which nobody is, but an answer comes to whatever is written."""

    def __init__(self, wire: "HttpWire", connection: Connection) -> None:
        self._wire = wire
        self._connection = connection
        self._is_closing = False

    def write(self, _data: bytes) -> None:
        self._wire.arrived += 1
        asyncio.get_running_loop().call_soon(self._connection.data_received, ANSWER)

    def get_extra_info(self, _name: str) -> "HttpWire":
        return self._wire

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._is_closing

    def abort(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)


class HttpWire:
    """Opens connections that lead nowhere, in the place of ``Opening``."""

    def __init__(self, on_lost: Callable[[Connection], None]) -> None:
        self.arrived = 0
        self._on_lost = on_lost
        self._ends = os.pipe()  # of which nothing ever comes

    async def open(
        self, receiver: Receiver, address: str, _seconds: float, _certificate: Any = None
    ) -> Connection:
        route = (receiver.origin, address, "")
        connection = Connection(route, read_at_most=64 * 1024, on_lost=self._on_lost)
        connection.connection_made(_Transport(self, connection))
        return connection

    def fileno(self) -> int:
        return self._ends[0]

    def close(self) -> None:
        for end in self._ends:
            os.close(end)


class NatsWire:
    """A connection to NATS on which all is taken; only what a sender asks of it."""

    is_connected = True
    inbox = "_INBOX.guard"
    max_payload = 1 << 20

    def __init__(self) -> None:
        self.arrived = 0

    def publish(self, _subject: str, _data: bytes, **_options: Any) -> None:
        self.arrived += 1

    async def flush(self, _within: float) -> frozenset[str]:
        await asyncio.sleep(0)
        return frozenset()
