"""The HTTP server: uvicorn, with limits on headers, and with its errors in our envelope."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from duetime.api.envelope import Code, Reply, encode
from duetime.errors import ConfigurationError

MOST_HEADERS = 100
BACKLOG = 4096
MOST_HEADER_BYTES = 32 * 1024


class _Protocol(HttpToolsProtocol):
    """Bounds what a client may send before its request reaches the app."""

    _header_bytes = 0

    def on_message_begin(self) -> None:
        self._header_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        if len(self.headers) >= MOST_HEADERS:
            raise ValueError("too many headers")
        super().on_header(name, value)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or too much of it, in the envelope as well."""
        reply = Reply(400, f"not a request that this server takes: {msg}", code=Code.INVALID)
        body = encode(reply)
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            b"connection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
        )
        self.transport.close()

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > MOST_HEADER_BYTES:
            raise ValueError("headers too large")


class ApiServer(uvicorn.Server):
    """A uvicorn server on a socket of ours, that leaves the signals to whoever runs it."""

    def __init__(self, app: ASGIApp, *, drain_for: float) -> None:
        config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=max(int(drain_for), 1),
        )
        super().__init__(config)
        self.is_listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """Open the port, or say why it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another with PORT or HOST"
        ) from None
    listener.setblocking(False)
    return listener
