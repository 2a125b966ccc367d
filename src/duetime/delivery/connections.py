"""Connections: opened to one receiver at one address, and kept for the next request.

A connection is made to an address that the egress guard has permitted, never to a name, so it
cannot be led elsewhere: there is no DNS here, no proxy and no redirect.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

from duetime.clock import Clock
from duetime.delivery.connection import Connection
from duetime.delivery.receiver import Receiver
from duetime.delivery.trust import trusting

# Receivers close idle connections, many after 5 s. A request written just then is lost without a
# trace of whether it arrived, so connections are given up a little sooner from this side.
IDLE = 4.0

SOON = 1.0  # seconds: a connection closed after that was at rest, and not cut
NO_REUSE = 60.0  # seconds
MOST_CUTTING = 1024


class TlsFailed(Exception):
    """There is a connection, but no TLS on it; the cause says why."""


class Connections:
    """The open ones. Those at rest are bounded: the one that has rested longest goes first."""

    def __init__(self, clock: Clock, *, most_at_rest: int, read_at_most: int) -> None:
        self._clock = clock
        self._most_at_rest = most_at_rest
        self._read_at_most = read_at_most
        self._open: set[Connection] = set()
        self._at_rest: dict[Connection, None] = {}  # the longest first
        self._places: dict[tuple[str, str], list[Connection]] = {}  # the same ones, by place
        self._cutting: dict[tuple[str, str], float] = {}  # until when places are not kept
        self._sweeping: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._tls: asyncio.Future[ssl.SSLContext] | None = None

    @property
    def at_rest(self) -> list[tuple[str, str]]:
        """Where those that are kept lead: origin and address of each."""
        return [connection.place for connection in self._at_rest]

    def take(self, receiver: Receiver, address: str) -> Connection | None:
        """One that is open already and free, the one that was used last."""
        place = (receiver.origin, address)
        while kept := self._places.get(place):
            connection = kept.pop()
            del self._at_rest[connection]
            if not kept:
                del self._places[place]
            # The sweep may be late, as after a pause of the whole process.
            if self._clock.monotonic() < connection.rested_at + IDLE:
                # A receiver that closes after every answer shows it after the first.
                is_proven = connection.exchanges > 1
                if connection.is_reusable and (is_proven or connection.is_quiet()):
                    return connection
                self.was_cut(connection)
            connection.close()
        return None

    def was_cut(self, connection: Connection) -> None:
        """Note down that the other side closed a connection without saying so beforehand.

        A request that is written at that moment is lost, and nobody knows whether it was read. A
        receiver that closes so soon has a new connection for each request for a while.
        """
        now = self._clock.monotonic()
        if now < connection.rested_at + SOON:
            self._cutting.pop(connection.place, None)
            self._cutting[connection.place] = now + NO_REUSE
            if len(self._cutting) > MOST_CUTTING:
                del self._cutting[next(iter(self._cutting))]

    async def open(self, receiver: Receiver, address: str, seconds: float) -> Connection:
        """Make one; OSError if there is none, TimeoutError if not in time, or TlsFailed."""
        async with asyncio.timeout(seconds):
            tls = await self._context() if receiver.is_tls else None
            async with _connected(address, receiver.port) as plain:
                connection = await self._wrap(plain, receiver, address, tls)
        self._open.add(connection)
        return connection

    async def _wrap(
        self, plain: socket.socket, receiver: Receiver, address: str, tls: ssl.SSLContext | None
    ) -> Connection:
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(
                    (receiver.origin, address),
                    read_at_most=self._read_at_most,
                    on_lost=self._on_lost,
                    is_tls=receiver.is_tls,
                ),
                sock=plain,
                ssl=tls,
                server_hostname=receiver.host.rstrip(".") if tls else None,
            )
        except (OSError, ValueError) as error:
            if tls is None:
                raise
            raise TlsFailed from error
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keep one for the next request, if it is good for that."""
        if self._is_closed or not connection.is_reusable:
            connection.close()
            return
        now = connection.rested_at = self._clock.monotonic()
        if now < self._cutting.get(connection.place, 0):
            connection.close()
            return
        self._at_rest[connection] = None
        self._places.setdefault(connection.place, []).append(connection)
        if len(self._at_rest) > self._most_at_rest:
            self._drop(next(iter(self._at_rest)))
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(IDLE, self._sweep)

    def close(self) -> None:
        """Close every one, in use or not, and keep none that is given back later."""
        self._is_closed = True
        for connection in list(self._open):
            connection.close()
        if self._sweeping is not None:
            self._sweeping.cancel()

    def _sweep(self) -> None:
        self._sweeping = None
        while self._at_rest:
            connection = next(iter(self._at_rest))
            left = connection.rested_at + IDLE - self._clock.monotonic()
            if left > 0:
                self._sweeping = asyncio.get_running_loop().call_later(left, self._sweep)
                return
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._forget(connection)
        connection.close()

    def _forget(self, connection: Connection) -> None:
        if connection in self._at_rest:
            del self._at_rest[connection]
            kept = self._places[connection.place]
            kept.remove(connection)
            if not kept:
                del self._places[connection.place]

    def _on_lost(self, connection: Connection) -> None:
        if connection in self._at_rest:
            self.was_cut(connection)
        self._forget(connection)
        self._open.discard(connection)

    async def _context(self) -> ssl.SSLContext:
        """Made once, off the event loop: it reads every certificate that the machine trusts."""
        if self._tls is None or (self._tls.done() and self._tls.exception()):
            self._tls = asyncio.get_running_loop().run_in_executor(None, trusting)
        try:
            return await asyncio.shield(self._tls)
        except OSError as error:
            raise TlsFailed from error


@contextlib.asynccontextmanager
async def _connected(address: str, port: int) -> AsyncIterator[socket.socket]:
    """A socket that is connected, and closed if it was of no use."""
    numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=numeric)
    family, kind, protocol, _, at = found[0]
    plain = socket.socket(family, kind, protocol)
    try:
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(plain, at)
        yield plain
    except BaseException:
        plain.close()
        raise
