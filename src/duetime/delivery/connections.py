"""Connections: those that are open, each kept for the next request to its receiver and address."""

import asyncio

from duetime.clock import Clock
from duetime.delivery.client_certificate import ClientCertificate
from duetime.delivery.connection import Connection
from duetime.delivery.opening import Opening, Tunnel
from duetime.delivery.receiver import Receiver

# Receivers close idle connections, many after 5 s. A request written just then is lost without a
# trace of whether it arrived, so connections are given up a little sooner from this side.
IDLE = 4.0

SOON = 1.0  # seconds: a connection closed after that was at rest, and not cut
NO_REUSE = 60.0  # seconds: then a receiver that cut connections may show that it has changed
MOST_CUTTING = 1024  # routes remembered for that


class Connections:
    """The open ones. Those at rest are bounded: the one that has rested longest goes first."""

    def __init__(
        self, clock: Clock, *, most_at_rest: int, read_at_most: int, tunnel: Tunnel | None = None
    ) -> None:
        self._clock = clock
        self._most_at_rest = most_at_rest
        self._opening = Opening(read_at_most=read_at_most, on_lost=self._on_lost, tunnel=tunnel)
        self._open: set[Connection] = set()
        self._at_rest: dict[Connection, None] = {}  # the longest first
        self._by_route: dict[tuple[str, str, str], list[Connection]] = {}  # the same ones
        self._cutting: dict[tuple[str, str, str], float] = {}  # until when those there are not kept
        self._sweeping: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def at_rest(self) -> list[tuple[str, str]]:
        """Where those that are kept lead: origin and address of each."""
        return [connection.route[:2] for connection in self._at_rest]

    def take(
        self, receiver: Receiver, address: str, certificate: ClientCertificate | None = None
    ) -> Connection | None:
        """One that is open already and free, the one that was used last.

        Only one on which this very client certificate was shown, or none where there is none.
        """
        route = (receiver.origin, address, certificate.id if certificate else "")
        while kept := self._by_route.get(route):
            connection = kept.pop()
            del self._at_rest[connection]
            if not kept:
                del self._by_route[route]
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
            self._cutting.pop(connection.route, None)
            self._cutting[connection.route] = now + NO_REUSE
            if len(self._cutting) > MOST_CUTTING:
                del self._cutting[next(iter(self._cutting))]

    async def open(
        self,
        receiver: Receiver,
        address: str,
        seconds: float,
        certificate: ClientCertificate | None = None,
    ) -> Connection:
        """Make one; OSError, TimeoutError, TlsFailed or ProxyFailed if there is none."""
        connection = await self._opening.open(receiver, address, seconds, certificate)
        self._open.add(connection)
        return connection

    def give_back(self, connection: Connection, *, was_used: bool = True) -> None:
        """Keep one for the next request, if it is good for that.

        One that was not used has not stopped resting: the other side sees no more of it than that.
        """
        if self._is_closed or not connection.is_reusable:
            connection.close()
            return
        now = self._clock.monotonic()
        if was_used or not connection.rested_at:
            connection.rested_at = now
        if now < self._cutting.get(connection.route, 0):
            connection.close()
            return
        self._at_rest[connection] = None
        self._by_route.setdefault(connection.route, []).append(connection)
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
            kept = self._by_route[connection.route]
            kept.remove(connection)
            if not kept:
                del self._by_route[connection.route]

    def _on_lost(self, connection: Connection) -> None:
        if connection in self._at_rest:
            self.was_cut(connection)
        self._forget(connection)
        self._open.discard(connection)
