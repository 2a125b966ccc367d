"""The HTTP server: uvicorn, with limits on headers, and with its errors in our envelope."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from duetime.api.envelope import Code, Reply, encode
from duetime.api.joined import JoinedWrites
from duetime.errors import ConfigurationError

MOST_HEADERS = 100
BACKLOG = 4096
MOST_HEADER_BYTES = 32 * 1024

# Seconds that a request may take until its headers are here: nobody else waits for them. The same
# for the rest of a body whose request has been answered. All other bodies are timed by the app.
LONGEST_HEAD = 30.0


class _Protocol(HttpToolsProtocol):
    """Bounds what a client may send before its request reaches the app."""

    _header_bytes = 0
    _is_in_head = False
    _has_ended = False  # a request, with what was received last
    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", JoinedWrites(transport, self.loop)))
        self._set_alarm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_alarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._has_ended = False
        super().data_received(data)
        # Usually a request comes in one piece, and needs no alarm.
        if self._alarm is None and not self._has_ended and self._is_idle():
            self._set_alarm()

    def on_message_begin(self) -> None:
        self._header_bytes = 0
        self._is_in_head = True
        super().on_message_begin()
        self.scope["abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._stop_alarm()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._has_ended = True
        self._stop_alarm()
        super().on_message_complete()

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

    def _is_idle(self) -> bool:
        """Tell whether the app waits for nothing here."""
        if self.transport.is_closing():
            return False
        return self.cycle is None or self.cycle.response_complete

    def _set_alarm(self) -> None:
        self._alarm = self.loop.call_later(LONGEST_HEAD, self._give_up)

    def _stop_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _give_up(self) -> None:
        self._alarm = None
        if self._is_in_head:
            self.send_400_response(f"its headers did not arrive within {LONGEST_HEAD:.0f} s")
        else:
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
        self.on_exit: Callable[[], Awaitable[None]] | None = None  # ends answers that go on and on

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.on_exit is not None:
            await self.on_exit()
        await super().shutdown(sockets)

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
