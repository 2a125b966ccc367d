"""A link is one connection to one server, from its greeting to its loss.

What is sent in one turn of the event loop is written together, and whoever waits in that turn for
the server to have it shares one PING. What is lost with a link is lost: there is no other to send
it over.
"""

import asyncio
import math
import os
import re
import socket
import ssl
import struct
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from duetime import __version__
from duetime.clock import Alarm, Clock, time_limit
from duetime.errors import ConfigurationError, MessageTooLarge, NatsUnavailable
from duetime.nats import tls as default_tls
from duetime.nats.credentials import Credentials
from duetime.nats.parser import Delivery, Line, Parser, ProtocolError
from duetime.nats.servers import Server

MOST_UNSENT = 8 * 1024 * 1024  # bytes that wait for a server that does not read
_MOST_AT_ONCE = 1024 * 1024  # bytes that are put together before they are written
_GONE_WITHIN = 1.0  # seconds
_UNANSWERED = 2  # PINGs after which a server is taken for gone

_PING = b"PING\r\n"
_PONG = b"PONG\r\n"
_CRLF = b"\r\n"
_REFUSED = re.compile(r'permissions violation for publish to "(.+)"', re.IGNORECASE)
_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|U([0-9a-f]{8})|(.))")  # as Go quotes
_MOST_REFUSED = 100_000  # subjects between two PONGs
_LONGEST_COMPLAINT = 512
# What closes a socket at once, and throws away what has not left yet.
_NOT_LINGERING = struct.pack("ii", 1, 0)


class Info(msgspec.Struct):
    """What a server says of itself, as far as it matters here."""

    max_payload: int = 1024 * 1024
    headers: bool = False
    tls_required: bool = False
    tls_available: bool = False
    nonce: str = ""
    connect_urls: list[str] = []


_read_info = msgspec.json.Decoder(Info).decode


class _Group:
    """Those who wait for one PONG."""

    __slots__ = ("until", "waiters")

    def __init__(self) -> None:
        self.until = math.inf  # by the monotonic clock, when the first of them gives up
        self.waiters: list[asyncio.Future[frozenset[str]]] = []


class Link(asyncio.Protocol):
    """One connection. ``hear`` is given what comes in, ``changed`` is called when the server tells
    anew of itself, ``failed`` with what it complains of, and ``lost`` once, with the reason.
    """

    def __init__(
        self,
        server: Server,
        clock: Clock,
        *,
        hear: Callable[[Delivery], None],
        changed: Callable[["Link"], None] = lambda _: None,
        failed: Callable[[str], None] = lambda _: None,
        lost: Callable[["Link", str], None] = lambda _link, _why: None,
    ) -> None:
        self.server = server
        self.info = Info()
        self.is_lost = False
        self.is_tls = False
        self.since = clock.monotonic()
        self._clock = clock
        self._hear: Callable[[Delivery], None] = _too_soon
        self._hear_once_open = hear
        self.changed = changed
        self.failed = failed
        self._tell_lost = lost
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._gone = asyncio.Event()
        self._parser = Parser()
        self._greeted: asyncio.Future[None] = self._loop.create_future()
        self._said = ""  # the last complaint of the server
        self._why = ""  # it was lost, if it was
        self._out: list[bytes] = []
        self._size = 0  # of these
        self._is_scheduled = False
        self._is_full = False
        self._group: _Group | None = None  # whose PING goes out with this turn
        self._pings: deque[_Group] = deque()
        self._refused: set[str] = set()  # subjects, since the last PONG
        self._silent = 0  # PINGs of ours since the last PONG
        self._alarm: Alarm | None = None
        self._alarm_at = math.inf

    async def open(
        self, credentials: Credentials, tls: ssl.SSLContext | None, name: str, within: float
    ) -> None:
        """Connect, and return once the server has let us in. NatsUnavailable says why not."""
        try:
            async with time_limit(self._clock, within):
                await self._open(credentials, tls, name)
        except (OSError, ConfigurationError, ProtocolError, NatsUnavailable) as error:
            self.drop(_reason(error))
            await self.gone()
            raise NatsUnavailable(self._why) from None
        except BaseException:  # it was cancelled
            self.drop("nobody waits for it")
            raise
        self._hear = self._hear_once_open

    async def _open(self, credentials: Credentials, tls: ssl.SSLContext | None, name: str) -> None:
        server = self.server
        await self._loop.create_connection(lambda: self, server.host, server.port)
        await self._greeted
        if self.is_lost:  # by what came with its greeting
            raise NatsUnavailable(self._why)
        if not self.info.headers:
            raise ProtocolError("its version is too old: it knows no headers")
        if server.is_tls or tls is not None or self.info.tls_required:
            await self._secure(tls or default_tls.context())
        connect = {
            "verbose": False,
            "pedantic": False,
            "tls_required": self.is_tls,
            "name": name,
            "lang": "python",
            "version": __version__,
            "protocol": 1,
            "headers": True,
            "no_responders": True,
            **credentials.shown_to(server, self.info.nonce),
        }
        self._out.append(b"CONNECT " + msgspec.json.encode(connect) + _CRLF)
        await self.answered(math.inf)

    async def _secure(self, tls: ssl.SSLContext) -> None:
        if not (self.info.tls_required or self.info.tls_available):
            raise ProtocolError("it has no TLS")
        if not self._parser.is_empty:
            raise ProtocolError("it said something before TLS had begun")
        name = self.server.name or self.server.host
        self._transport = await self._loop.start_tls(
            self._transport, self, tls, server_hostname=name
        )
        if self._transport is None:
            raise ProtocolError("it closed the connection")
        self.is_tls = True
        # Whoever is on the way may have named these, and they would be shown our credentials.
        self.info.connect_urls = []
        self._transport.set_write_buffer_limits(MOST_UNSENT)

    def publish(self, head: bytes, headers: bytes, data: bytes) -> None:
        """Put a message into what is written at the end of this turn."""
        size = len(headers) + len(data)
        if size > self.info.max_payload:
            raise MessageTooLarge(
                f"the message has {size} bytes with its headers, and the NATS server takes "
                f"{self.info.max_payload} at most"
            )
        if self._is_full:
            raise NatsUnavailable("the NATS server does not keep up with what is published")
        self._out += (head, headers, data, _CRLF)
        self._size += size
        if not self._is_scheduled:
            self._schedule()
        elif self._size > _MOST_AT_ONCE:
            self._write()

    def put(self, line: bytes) -> None:
        """Put an operation into what is written at the end of this turn."""
        self._out.append(line)
        if not self._is_scheduled:
            self._schedule()

    def answered(self, within: float) -> "asyncio.Future[frozenset[str]]":
        """Done when the server has all that was put so far: which subjects it refused of that."""
        waiter: asyncio.Future[frozenset[str]] = self._loop.create_future()
        group = self._group
        if group is None:
            group = self._group = _Group()
            if not self._is_scheduled:
                self._schedule()
        group.waiters.append(waiter)
        until = self._clock.monotonic() + within
        if until < group.until:
            group.until = until
            self._set_alarm(until)
        return waiter

    def tick(self) -> None:
        """See whether the server still answers: called every so often."""
        if self._silent >= _UNANSWERED:
            self.drop("it no longer answers")
            return
        self._silent += 1
        if self._group is None:
            self._group = _Group()
            self._schedule()

    def drop(self, why: str) -> None:
        """Give it up at once; nothing that has not left yet leaves any more."""
        if self.is_lost:
            return
        if self._transport is not None:
            with suppress(OSError, ValueError, AttributeError):
                plain = self._transport.get_extra_info("socket")
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOT_LINGERING)
            self._transport.abort()
        self._end(why)

    def close(self) -> None:
        """Hang up, once all that there was has been answered: TLS has its own farewell, which the
        other side may keep us waiting for.
        """
        if not self.is_lost:
            self._transport.abort()
            self._end("it was closed")

    async def gone(self) -> None:
        """Wait until nothing is left of it, which takes no longer than a few turns of the loop."""
        if self._transport is not None:
            # After a failed TLS handshake, nobody may tell that it is over.
            await self._clock.wait(self._gone, _GONE_WITHIN)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(MOST_UNSENT)
        if self.is_lost:  # it took too long
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        said = _complaint(self._said) if self._said else ""
        self._end(said or (_reason(exc) if exc else "it closed the connection"))

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False

    def data_received(self, data: bytes) -> None:
        if self.is_lost:
            return
        try:
            for operation in self._parser.feed(data):
                if operation.__class__ is Delivery:
                    self._hear(operation)
                elif operation.__class__ is Line:
                    self._obey(operation)
        except (ProtocolError, msgspec.MsgspecError) as error:
            self.drop(_reason(error))

    def _obey(self, line: Line) -> None:
        name, rest = line
        if name == b"PONG":
            self._ponged()
        elif name == b"PING":
            self.put(_PONG)
        elif name == b"INFO":
            self.info = _read_info(rest)
            if not self._greeted.done():
                self._greeted.set_result(None)
            self.changed(self)
        elif name == b"-ERR":
            said = rest.decode("utf-8", "replace").strip().strip("'")
            if refused := _REFUSED.match(said):
                self._refused.add(_ESCAPE.sub(_unescaped, refused[1]))
                if len(self._refused) > _MOST_REFUSED:
                    raise ProtocolError("it complains without end")
            else:
                self._said = said[:_LONGEST_COMPLAINT]
            self.failed(said[:_LONGEST_COMPLAINT])

    def _ponged(self) -> None:
        self._silent = 0
        if not self._pings:
            return
        group = self._pings.popleft()
        refused = _NONE
        if self._refused:
            refused = frozenset(self._refused)
            self._refused.clear()
        for waiter in group.waiters:
            if not waiter.done():
                waiter.set_result(refused)

    def _schedule(self) -> None:
        self._is_scheduled = True
        self._loop.call_soon(self._write_scheduled)

    def _write_scheduled(self) -> None:
        self._is_scheduled = False
        if self._group is not None:
            self._out.append(_PING)
            self._pings.append(self._group)
            self._group = None
        self._write()

    def _write(self) -> None:
        """Write what there is. The PING comes with the last of a turn: what the server refuses of
        all before it is told to those who wait for its answer, and to nobody else.
        """
        if self._out and not self.is_lost:
            data = b"".join(self._out)
            self._out.clear()
            self._size = 0
            self._transport.write(data)
            if self._is_full and self._transport.get_write_buffer_size() > 2 * MOST_UNSENT:
                self.drop("it does not read what is sent to it")

    def _set_alarm(self, until: float) -> None:
        if until < self._alarm_at and until != math.inf:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_at = until
            self._alarm = self._clock.alarm(until - self._clock.monotonic(), self._ring)

    def _ring(self) -> None:
        """Somebody's patience may be at its end: then the link is given up for all."""
        self._alarm, self._alarm_at = None, math.inf
        waiting = [*self._pings, *([self._group] if self._group else [])]
        first = min((group.until for group in waiting), default=math.inf)
        if first <= self._clock.monotonic():
            self.drop("it did not answer in time")
        else:
            self._set_alarm(first)

    def _end(self, why: str) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        self._why = why
        if self._alarm is not None:
            self._alarm.cancel()
        self._out.clear()
        groups = [*self._pings, *([self._group] if self._group else [])]
        self._pings.clear()
        self._group = None
        for waiter in (waiter for group in groups for waiter in group.waiters):
            if not waiter.done():
                waiter.set_exception(NatsUnavailable(_lost(why)))
        if not self._greeted.done():
            self._greeted.set_exception(NatsUnavailable(why))
            self._greeted.exception()  # if nobody waits for it
        self._tell_lost(self, why)


_NONE: frozenset[str] = frozenset()


def _unescaped(escape: re.Match[str]) -> str:
    """The character that one stands for, which a server does not write as it is."""
    number = escape[1] or escape[2]
    return escape[3] if number is None else chr(min(int(number, 16), sys.maxunicode))


def _too_soon(_: Delivery) -> None:
    """Nobody listens yet, and who speaks is not known before TLS has begun."""
    raise ProtocolError("it sent a message before it let us in")


def _lost(why: str) -> str:
    return f"the connection to the NATS server was lost: {why}"


def _complaint(said: str) -> str:
    """What a server said before it hung up."""
    if said.lower().startswith(("authorization", "user auth", "account auth", "authentication")):
        return f"it does not let us in with our credentials: {said}"
    return f"it said: {said}"


def _reason(error: BaseException) -> str:
    """What went wrong, for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, msgspec.MsgspecError):
        return "it sent what no NATS server says"
    if isinstance(error, OSError):
        is_known = error.errno is not None and error.errno > 0
        return os.strerror(error.errno or 0) if is_known else error.strerror or str(error)
    return str(error) or type(error).__name__
