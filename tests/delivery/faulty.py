"""A receiver on a real socket that has one fault, and none after that: what comes later is served.

So whatever a fault has done to a connection or to the sender shows with the next request.
"""

import asyncio
import socket
import ssl
import struct
from dataclasses import dataclass
from typing import Literal, Self

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_RESET = struct.pack("ii", 1, 0)  # to close is to reset


@dataclass(frozen=True)
class Fault:
    """What a receiver says, and what it does then."""

    says: bytes = b""
    then: Literal["go on", "close", "reset", "hang", "drip", "flood"] = "go on"
    again: bytes = b"x"  # what drips, or floods
    hears: bool = True  # the request, before it says anything


class FaultyReceiver:
    """Has its fault with the first connection."""

    def __init__(self, fault: Fault, tls: ssl.SSLContext | None = None) -> None:
        self.fault: Fault | None = fault
        self.port = 0
        self.connections = 0
        self.requests: list[bytes] = []
        self.flooded = 0  # bytes that were taken of a flood
        self.gone = asyncio.Event()  # a connection has ended
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)

    @property
    def at(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._tasks.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fault, self.fault = self.fault, None
        try:
            if fault is not None:
                await self._misbehave(fault, reader, writer)
                if fault.then != "go on":
                    return
            while True:
                await self._hear(reader)
                writer.write(GOOD)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self.gone.set()

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        self.requests.append(await reader.readuntil(b"\r\n\r\n"))

    async def _misbehave(
        self, fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if fault.hears:
            await self._hear(reader)
        writer.write(fault.says)
        await writer.drain()
        if fault.then == "reset":
            plain: socket.socket = writer.get_extra_info("socket")
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()
        elif fault.then == "hang":
            await reader.readexactly(1)
        while fault.then in {"drip", "flood"}:
            writer.write(fault.again)
            await writer.drain()
            self.flooded += len(fault.again)
            await asyncio.sleep(0.01 if fault.then == "drip" else 0)
