"""Servers that are killed, restarted, stopped and paused under load: every event arrives."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from duetime.clock import SystemClock
from duetime.engine.loop import Loop, Trouble
from duetime.events import stream as streams
from duetime.events.relay import Relay
from duetime.events.stream import EventStream
from duetime.nats import jetstream as jetstreams
from duetime.nats.jetstream import JetStream
from duetime.outbox import Outbox
from duetime.stores.sqlite.store import SqliteStore
from tests.events.conftest import Office, waiting
from tests.events.lives import live
from tests.events.reading import check_published, read_stream
from tests.events.recording import Recording
from tests.ports import free_port
from tests.waiting import eventually, until

pytestmark = [pytest.mark.promise("events-arrive"), pytest.mark.slow]

NAME = "EVENTS"


class Load:
    """Writers that go on whatever becomes of NATS, and a relay beside them."""

    def __init__(self, store: Recording, relay: Relay, *, pause: float = 0.01) -> None:
        self.store = store
        self.relay = relay
        self._pause = pause  # between what each writer writes
        self.outbox = Outbox(store)
        self._is_over = asyncio.Event()
        self._clock = SystemClock()
        self._loop = Loop("outbox", self._clock, Trouble(self._clock))
        relay.wake = self._loop.wake
        self.outbox.on_events = relay.heed

    @asynccontextmanager
    async def running(self):
        async with asyncio.TaskGroup() as group:
            group.create_task(self._loop.run(self.relay.step))
            for _ in range(3):
                group.create_task(self._write())
            yield
            self._is_over.set()
            await eventually(self._is_empty, "the outbox to be empty")
            self._loop.stop()

    async def more(self, count: int = 1_000) -> None:
        """Wait until so many more events were written."""
        wanted = len(self.store.written) + count
        await until(lambda: len(self.store.written) >= wanted, f"{count} more events", every=0.01)

    async def published(self, count: int = 1_000) -> None:
        """Wait until so many more were published."""
        wanted = self.relay.published + count
        await until(lambda: self.relay.published >= wanted, f"{count} published", every=0.01)

    async def _write(self) -> None:
        while not self._is_over.is_set():
            await live(self.outbox, 20, now=self._clock.now())
            await asyncio.sleep(self._pause)

    async def _is_empty(self) -> bool:
        return await waiting(self.store) == []


@pytest.fixture
async def make_load(connected, tmp_path, monkeypatch):
    """Makes a load for a stream on these servers."""
    monkeypatch.setattr(streams, "ANSWERED_WITHIN", 1.0)
    monkeypatch.setattr(jetstreams, "PATIENCE", 1.0)
    database = SqliteStore(tmp_path / "duetime.db", synchronous="off")
    await database.migrate()
    store = Recording(database)
    clock = SystemClock()

    async def make(*servers, **options):
        jetstream = JetStream(await connected(*(server.url() for server in servers)), clock)
        stream = EventStream(jetstream, name=NAME, prefix="duetime", replicas=len(servers))
        return Load(store, Relay(store, stream, clock, tenure=Office()), **options)

    yield make
    await database.close()


@pytest.fixture
async def load(own, make_load):
    return await make_load(own)


@pytest.fixture
def cluster(own_server):
    """Three servers that keep a copy of the stream each."""
    ports = [free_port() for _ in range(3)]
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    return [
        own_server(
            "nats",
            configuration=f"cluster {{ name: c, listen: '127.0.0.1:{port}', routes: [{routes}] }}",
        )
        for port in ports
    ]


async def check(load, own, stranger) -> None:
    """All that was written is in the stream, once and in order."""
    found = await read_stream(await stranger(own.url()), NAME)
    assert check_published(found, load.store.written) == 0


async def test_a_server_that_is_killed(load, own, stranger):
    """Three times in the middle of it."""
    async with load.running():
        for _ in range(3):
            await load.published()
            own.crash()
            await load.more()
            own.start()
    await check(load, own, stranger)


async def test_a_server_that_is_restarted(load, own, stranger, caplog):
    """In order, and away for a while; the log says it once."""
    async with load.running():
        await load.published()
        own.stop()
        await load.more(2_000)
        own.start()
        await load.published()
    await check(load, own, stranger)
    assert caplog.text.count("events cannot be published") == 1


async def test_a_server_that_is_paused(load, own, stranger):
    """It has taken messages, and nobody knows how many, when it is given up."""
    async with load.running():
        for _ in range(2):
            await load.published()
            own.pause()
            await until(lambda: load.relay.is_failing, "the relay to notice")
            await load.more()
            own.resume()
    await check(load, own, stranger)


async def test_a_cluster_that_loses_its_leader(cluster, make_load, stranger, monkeypatch):
    """Twice in the middle of it: what was acknowledged is there, and the order is kept."""
    load = await make_load(*cluster, pause=0.5)
    monkeypatch.setattr(streams, "ANSWERED_WITHIN", 5.0)  # others are elected meanwhile
    async with load.running():
        for _ in range(2):
            await load.published(500)
            leader = await led_by(cluster, stranger)
            leader.crash()
            await load.more(500)
            leader.start()
            await load.published(500)
    await check(load, cluster[0], stranger)


async def led_by(cluster, stranger):
    """The server that leads the stream."""
    client = await stranger(cluster[0].url())
    leader = (await client.jetstream().stream_info(NAME)).cluster.leader
    await client.close()
    return next(server for server in cluster if leader == f"at_{server.port}")
