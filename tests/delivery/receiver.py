"""A receiver on a real socket that misbehaves on demand, and remembers all that reached it.

The path says how it behaves: ``/status/503``, ``/hang``, ``/reset`` ... Query parameters become
headers of the answer: ``/status/429?Retry-After=5``.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, urlsplit

CERTIFICATES = Path(__file__).parent / "certificates"


@dataclass(frozen=True)
class Request:
    """One request as it came over the wire."""

    head: bytes
    body: bytes

    @property
    def method(self) -> str:
        return self.head.split(b" ", 1)[0].decode()

    @property
    def path(self) -> str:
        return self.head.split(b" ", 2)[1].decode()

    @property
    def fields(self) -> list[tuple[str, str]]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = [line.split(":", 1) for line in lines if line]
        return [(name.lower(), value.strip()) for name, value in pairs]

    @property
    def headers(self) -> dict[str, str]:
        return dict(self.fields)


class Receiver:
    """Accepts connections until it is left."""

    def __init__(
        self,
        certificate: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.port = port
        self.requests: list[Request] = []
        self.connections = 0
        self.prepared = b""  # an answer that is too long for a path
        self.arrived = asyncio.Event()  # a request is here
        self.gone = asyncio.Event()  # a connection was closed by the other side
        self._host = host
        self._certificate = certificate
        self._tls = tls  # instead of one with that certificate
        self.clients: list[str | None] = []  # what the certificate of each connection names
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        context = self._tls
        if self._certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATES / self._certificate, CERTIFICATES / "key.pem")
        self._server = await asyncio.start_server(self._accept, self._host, self.port, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    def url(self, path: str = "/status/200", host: str = "127.0.0.1") -> str:
        scheme = "https" if self._certificate or self._tls else "http"
        return f"{scheme}://{host}:{self.port}{path}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        peer = writer.get_extra_info("peercert")
        self.clients.append(peer["subject"][0][0][1] if peer else None)
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await self._read(reader)
                behaviour = request.path.split("?")[0].split("/")[1]
                answer = self._behaviours.get(behaviour, Receiver._status)
                await answer(self, request, reader, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            self.gone.set()
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Request:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(Request(head, b"").headers.get("content-length", "0"))
        request = Request(head, await reader.readexactly(length))
        self.requests.append(request)
        self.arrived.set()
        return request

    async def _status(
        self, request: Request, _: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        url = urlsplit(request.path)
        status = url.path.split("/")[2]
        head = f"HTTP/1.1 {status} \r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in parse_qsl(url.query))
        if status in {"204", "304"}:
            writer.write(f"{head}\r\n".encode())
        else:
            body = "" if request.method == "HEAD" else "ok"
            writer.write(f"{head}Content-Length: 2\r\n\r\n{body}".encode())

    async def _raw(
        self, request: Request, _: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        text = dict(parse_qsl(urlsplit(request.path).query)).get("text", "")
        writer.write(text.encode())
        await writer.drain()
        raise ConnectionError

    async def _say(
        self, request: Request, _: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Send the text, or what the ``hex`` stands for, in pieces of ``by`` bytes, and go on."""
        asked = dict(parse_qsl(urlsplit(request.path).query))
        text = bytes.fromhex(asked["hex"]) if "hex" in asked else asked["text"].encode()
        await self._send(text, int(asked.get("by", len(text))), writer)

    async def _prepared(
        self, request: Request, _: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Send what was prepared, likewise."""
        asked = dict(parse_qsl(urlsplit(request.path).query))
        await self._send(self.prepared, int(asked["by"]), writer)

    async def _send(self, text: bytes, by: int, writer: asyncio.StreamWriter) -> None:
        for start in range(0, len(text), by):
            writer.write(text[start : start + by])
            await asyncio.sleep(0)

    async def _later(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer after so many seconds."""
        await asyncio.sleep(float(dict(parse_qsl(urlsplit(request.path).query))["after"]))
        await self._status(Request(b"GET /status/200 \r\n", b""), reader, writer)

    async def _hang(
        self, _: Request, reader: asyncio.StreamReader, __: asyncio.StreamWriter
    ) -> None:
        await reader.readexactly(1)

    async def _reset(
        self, _: Request, __: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.transport.abort()
        raise ConnectionError

    async def _endless(
        self, _: Request, __: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + bytes(65_536) + b"\r\n")
            await writer.drain()

    async def _dripping(
        self, _: Request, __: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1\r\nx\r\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    _behaviours: dict[str, Callable[..., Awaitable[None]]] = {  # noqa: RUF012 - a constant
        "raw": _raw,
        "say": _say,
        "prepared": _prepared,
        "later": _later,
        "hang": _hang,
        "reset": _reset,
        "endless": _endless,
        "dripping": _dripping,
    }
