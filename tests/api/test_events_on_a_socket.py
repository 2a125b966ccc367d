"""GET /events on a socket: who takes nothing, who hangs up, and a server that ends."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from duetime import ids
from duetime.api import events
from duetime.api.app import create_app
from duetime.api.server import ApiServer, listen
from duetime.clock import SystemClock
from duetime.events.feed import place_of
from duetime.events.hub import Hub
from duetime.events.store_feed import StoreFeed
from duetime.outbox import Outbox
from duetime.service import Service
from duetime.stores.memory import MemoryStore
from tests.api.client import KEY
from tests.events.outboxes import event_of, write
from tests.factories import make_timer
from tests.waiting import until

REQUEST = f"GET /events HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\n\r\n".encode()


class Running(NamedTuple):
    """A server with a hub, on real time."""

    server: ApiServer
    serving: asyncio.Task
    address: tuple[str, int]
    hub: Hub
    store: MemoryStore

    async def open(
        self, *, buffer: int = 1 << 20
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Somebody who listens, with so much room for what it has not read yet."""
        mine = socket.socket()
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        mine.setblocking(False)
        await asyncio.get_running_loop().sock_connect(mine, self.address)
        reader, writer = await asyncio.open_connection(sock=mine, limit=1024)
        writer.write(REQUEST)
        await reader.readuntil(b"\n\n")  # the end of the first event, behind the head
        return reader, writer

    async def happen(self) -> None:
        """Let much happen: some MiB."""
        now = SystemClock().now()
        large = {"error": "x" * 50_000}
        events = [event_of(make_timer(), now, data=large) for _ in range(100)]
        await write(self.store, *events)


@pytest.fixture
async def running(sender, monkeypatch) -> AsyncIterator[Running]:
    monkeypatch.setattr(events, "LONGEST_PAUSE", 0.3)
    clock, store = SystemClock(), MemoryStore()
    hub = Hub(StoreFeed(Outbox(store), clock, keep_for=3_600_000), clock)
    service = Service(store, sender, clock, live=hub)
    listener = listen("127.0.0.1", 0)
    server = ApiServer(create_app(service, KEY), drain_for=20)
    server.on_exit = hub.close
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await server.is_listening.wait()
    yield Running(server, serving, listener.getsockname(), hub, store)
    server.should_exit = True
    await serving


@pytest.mark.promise("bounded-memory")
async def test_who_takes_nothing_is_cut_off(running: Running, caplog):
    """When the buffers on the way are full, and it takes nothing for too long; nothing is left."""
    _, writer = await running.open(buffer=4096)
    writer.transport.pause_reading()

    async def flood() -> None:
        while running.hub._readers:
            await running.happen()
            await asyncio.sleep(0.1)

    async with asyncio.timeout(30):
        await flood()
    await until(lambda: not running.server.server_state.connections)
    assert "ASGI" not in caplog.text
    writer.transport.abort()


async def test_who_hangs_up_is_noticed(running: Running):
    """Though nothing happens."""
    _, writer = await running.open()
    assert len(running.hub._readers) == 1
    writer.transport.abort()
    await until(lambda: not running.hub._readers)


@pytest.mark.promise("clean-stop")
async def test_a_server_that_ends_waits_for_nobody(running: Running):
    """Streams are ended by it, with a last word."""
    reader, writer = await running.open()
    running.server.should_exit = True
    async with asyncio.timeout(10):
        rest = await reader.read(-1)
        await running.serving
    writer.close()
    assert b"event: error" in rest
    assert b"this node is stopping" in rest
    assert rest.endswith(b"0\r\n\r\n")


@pytest.mark.slow
@pytest.mark.promise("clean-stop")
async def test_a_server_that_ends_does_not_wait_for_who_takes_nothing(
    running: Running, monkeypatch
):
    """Among very many who do."""
    monkeypatch.setattr(events, "LONGEST_PAUSE", 60.0)
    stuck = [await running.open(buffer=4096) for _ in range(2)]
    for _, writer in stuck:
        writer.transport.pause_reading()
    while _stuck(running) < 2:
        await running.happen()
        await asyncio.sleep(0.1)
    now = ids.first_at(SystemClock().now())
    await until(lambda: place_of(running.hub.position) > now, "all to be handed out")
    others = [await running.open() for _ in range(90)]
    rest = [asyncio.create_task(reader.read(-1)) for reader, _ in others]
    running.server.should_exit = True
    since = asyncio.get_running_loop().time()
    async with asyncio.timeout(15):
        await running.serving
    assert asyncio.get_running_loop().time() - since < 5  # and not 20, or 60
    assert all(b"this node is stopping" in each for each in await asyncio.gather(*rest))
    for _, writer in (*stuck, *others):
        writer.transport.abort()


def _stuck(running: Running) -> int:
    """How many take nothing, and all buffers are full."""
    return sum(each.flow.write_paused for each in running.server.server_state.connections)
