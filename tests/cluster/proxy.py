"""A TCP proxy that stands between a node and its database, and breaks what passes on command."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from tests.cluster.wires import Watcher, wire_of

_CHUNK = 64 * 1024

# With this, closing a connection resets it: the other side learns at once, and loses what was
# under way.
_RESET = struct.pack("ii", 1, 0)


class Proxy:
    """Listens on a port of its own and forwards to a target.

    Everything it can be told to do takes effect at once, on the connections that there are and
    on those to come, until it is told otherwise.
    """

    def __init__(self, host: str, port: int, watcher: Callable[[], Watcher]) -> None:
        self._target = host, port
        self._watcher = watcher
        self._listener: socket.socket | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._pairs: set[_Pair] = set()
        self._cuts = 0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._is_dropping = False
        self._port = 0
        self.held_back = 0  # pieces that wait for the flow to go on
        self.dropped = 0  # answers that never came back
        self.connected = 0  # connections that were taken, ever

    @property
    def port(self) -> int:
        return self._port

    def accept(self) -> None:
        """Take connections; again on the same port after they were refused.

        It listens by itself, for a server of asyncio's that is closed in the moment of a
        connection forgets it: nobody serves it, and nobody closes it.
        """
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self._port))
            self._listener.setblocking(False)
            self._port = self._listener.getsockname()[1]
            asyncio.get_running_loop().add_reader(self._listener, self._take, self._listener)

    def refuse(self) -> None:
        """Take no new connections: whoever tries is refused."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def cut(self) -> None:
        """Reset all connections, on both sides; those that are being made, as soon as they are."""
        self._cuts += 1
        for pair in tuple(self._pairs):
            pair.reset()

    def stall(self) -> None:
        """Forward nothing more, and close nothing."""
        self._flowing.clear()

    def flow(self) -> None:
        """Forward again, also what was held back."""
        self._flowing.set()

    def move_to(self, host: str, port: int) -> None:
        """Forward to another address from now on; connections to the old one are cut."""
        self._target = host, port
        self.cut()

    def drop_answers(self) -> None:
        """Swallow each answer that the watcher awaits, and cut its connection.

        The target has done what was asked by then, and who asked does not hear of it.
        """
        self._is_dropping = True

    def pass_answers(self) -> None:
        """Swallow no more of them."""
        self._is_dropping = False

    def _take(self, listener: socket.socket) -> None:
        try:
            taken, _ = listener.accept()
        except OSError:  # who wanted it is gone already
            return
        taken.setblocking(False)
        self.connected += 1
        self._serving.add(task := asyncio.create_task(self._serve(taken, self._cuts)))
        task.add_done_callback(self._serving.discard)

    async def _serve(self, taken: socket.socket, cuts: int) -> None:
        requests, here = await asyncio.open_connection(sock=taken)
        try:
            answers, there = await asyncio.open_connection(*self._target)
        except OSError:  # nobody listens at the target
            _reset(here)
            return
        pair = _Pair(here, there)
        if self._cuts == cuts:
            await self._forward_both_ways(requests, answers, pair)
        else:
            pair.reset()

    async def _forward_both_ways(
        self, requests: asyncio.StreamReader, answers: asyncio.StreamReader, pair: "_Pair"
    ) -> None:
        watcher = self._watcher()
        self._pairs.add(pair)
        try:
            async with asyncio.TaskGroup() as both_ways:
                both_ways.create_task(self._forward_requests(requests, pair.there, watcher))
                both_ways.create_task(self._forward_answers(answers, pair, watcher))
        except* OSError:
            pair.reset()
        finally:
            self._pairs.discard(pair)
            pair.close()

    async def _forward_requests(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, watcher: Watcher
    ) -> None:
        async for data in self._flow(source):
            watcher.asked(data)
            sink.write(data)
            await sink.drain()
        sink.write_eof()

    async def _forward_answers(
        self, source: asyncio.StreamReader, pair: "_Pair", watcher: Watcher
    ) -> None:
        async for data in self._flow(source):
            if watcher.is_awaited(data) and self._is_dropping:
                self.dropped += 1
                pair.reset()
                return
            pair.here.write(data)
            await pair.here.drain()
        pair.here.write_eof()

    async def _flow(self, source: asyncio.StreamReader) -> AsyncIterator[bytes]:
        """What comes in, as long as it flows."""
        while data := await source.read(_CHUNK):
            self.held_back += 1
            await self._flowing.wait()
            self.held_back -= 1
            yield data

    async def close(self) -> None:
        """Take and keep no connection; what was held back goes nowhere."""
        self.refuse()
        self.cut()
        self.flow()
        await asyncio.gather(*self._serving)


class _Pair(NamedTuple):
    """The two ends of a forwarded connection."""

    here: asyncio.StreamWriter
    there: asyncio.StreamWriter

    def reset(self) -> None:
        for end in self:
            _reset(end)

    def close(self) -> None:
        for end in self:
            end.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):  # it is closed already
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


@asynccontextmanager
async def running_proxy(port: int, watcher: Callable[[], Watcher]) -> AsyncIterator[Proxy]:
    """A proxy to this port of the machine that takes connections while the context lasts."""
    proxy = Proxy("127.0.0.1", port, watcher)
    proxy.accept()
    try:
        yield proxy
    finally:
        await proxy.close()


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy to the server of a database, and the URL of the database through it."""
    wire = wire_of(url)
    async with running_proxy(wire.port(url), wire.watcher) as proxy:
        yield proxy, wire.through(url, proxy.port)
