"""A proxy on a real socket that opens tunnels by CONNECT, and misbehaves on demand."""

import asyncio
from typing import Self

from tests.delivery.receiver import Request

OPENED = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 proxy\r\n\r\n"


class ConnectProxy:
    """Asks for the credentials that it was made with, and knows the names that it was told of.

    ``answer`` takes the place of a tunnel; ``hangs`` the place of any answer.
    """

    def __init__(self, *, authorization: str = "", hosts: dict[str, str] | None = None) -> None:
        self.port = 0
        self.asked: list[Request] = []
        self.answer: bytes | None = None
        self.hangs = False
        self.arrived = asyncio.Event()  # somebody asks
        self.gone = asyncio.Event()  # and has hung up, having got no tunnel
        self._authorization = authorization
        self._hosts = hosts or {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)

    @property
    def targets(self) -> list[str]:
        """What tunnels were asked for to."""
        return [request.path for request in self.asked]

    def url(self, credentials: str = "") -> str:
        return f"http://{credentials}127.0.0.1:{self.port}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = Request(await reader.readuntil(b"\r\n\r\n"), b"")
            self.asked.append(request)
            self.arrived.set()
            assert request.method == "CONNECT"
            if self.hangs:
                await reader.read(1)
            elif self.answer is not None:
                writer.write(self.answer)
                await writer.drain()
            elif request.headers.get("proxy-authorization", "") != self._authorization:
                writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 2\r\n\r\nno")
            else:
                await self._tunnel(request.path, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self.gone.set()

    async def _tunnel(
        self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        host, _, port = target.rpartition(":")
        try:
            there = await asyncio.open_connection(
                self._hosts.get(host, host).strip("[]"), int(port)
            )
        except OSError:
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            return
        writer.write(OPENED)
        await asyncio.gather(_pass_on(reader, there[1]), _pass_on(there[0], writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    finally:
        writer.close()
