"""Several nodes: each shard's events are published by one at a time, whoever comes and goes."""

import asyncio

import pytest

from duetime.events.relay import Relay
from duetime.ids import ALL_SHARDS
from duetime.outbox import Outbox
from duetime.stores.memory import MemoryStore
from tests.engine.conftest import Node, running
from tests.events.conftest import Wiretap, waiting
from tests.events.lives import live
from tests.events.reading import check_published
from tests.events.recording import Recording
from tests.waiting import settle, until

pytestmark = pytest.mark.promise("events-arrive")


class Publisher(Node):
    """A node with a relay."""

    def __init__(self, name, ledger, post) -> None:
        super().__init__(Outbox(ledger), post.clock, name)
        self.engine.members.shards = ()
        self.tap = Wiretap(post.stream)
        tenure = self.engine.tenure
        self.relay = Relay(self.store, self.tap, post.clock, tenure=tenure)
        self.relay.wake = self.engine.add_chore("outbox", self.relay.step, self.relay.finish)
        self.store.on_events = self.relay.heed

    async def beat(self) -> None:
        await self.engine.members.step()
        self.engine.tenure.look()

    @property
    def own(self) -> set[int]:
        return set(self.engine.tenure.shards())

    @property
    def published(self) -> set[int]:
        """The shards of what it has published."""
        return {int(event.id[15:18], 16) for wave in self.tap.waves for event in wave}


@pytest.fixture
def ledger():
    return Recording(MemoryStore())


@pytest.fixture
def start(ledger, post):
    return lambda name: Publisher(name, ledger, post)


async def work(clock, seconds, *nodes, writers=()):
    """Let nodes live: everybody writes, beats, and publishes what is theirs."""
    for _ in range(round(seconds * 2)):
        clock.advance(500)
        for node in writers or nodes:
            await live(node.store, 10, now=clock.now())
        for node in nodes:
            await node.beat()
            await node.relay.step()
        own = [shard for node in nodes for shard in node.own]
        assert len(own) == len(set(own))


async def test_events_go_over_with_their_shards(start, post, ledger):
    """A node comes, and takes over; it leaves, and the other takes over again."""
    a = start("a")
    await a.beat()
    await work(post.clock, 2, a)
    b = start("b")
    await work(post.clock, 20, a, b)
    assert b.published == b.published & b.own
    assert len(b.published) > 30
    a.tap.waves.clear()
    await work(post.clock, 2, a, b)
    assert a.published <= a.own
    await b.engine.members.leave()
    b.tap.waves.clear()
    await a.beat()
    assert a.own == set(ALL_SHARDS)
    await b.relay.step()
    assert b.tap.waves == []
    await work(post.clock, 2, a)
    assert await waiting(ledger) == []
    assert check_published(await post.read(), ledger.written) == 0


async def test_a_node_that_is_killed(start, post, ledger):
    """Whatever it wrote is published by the others, as soon as it is found dead."""
    a, b = start("a"), start("b")
    for node in (a, b):
        await node.beat()
    await work(post.clock, 20, a, b)
    await live(b.store, 50, now=post.clock.now())
    had = b.own
    assert had
    await work(post.clock, 9, a, writers=[a])
    assert await waiting(ledger)
    assert not a.own & had
    await work(post.clock, 2, a, writers=[a])
    assert a.own == set(ALL_SHARDS)
    b.tap.waves.clear()
    await b.relay.step()  # it was only asleep
    assert b.tap.waves == []
    await a.relay.step()
    assert await waiting(ledger) == []
    assert check_published(await post.read(), ledger.written) == 0


async def test_a_node_that_stops_publishes_before_it_leaves(start, post, ledger):
    """The others find nothing of its shards but what was written after that."""
    a, b = start("a"), start("b")
    for node in (a, b):
        await node.beat()
    await work(post.clock, 20, a, b)
    engine = await running(b)
    await live(b.store, 50, now=post.clock.now())
    left = []
    leave = b.engine.members.leave

    async def leaving(*args):
        left.append(await ledger.events(b.engine.members.shards, None, 999))
        await leave(*args)

    b.engine.members.leave = leaving
    stopping = asyncio.create_task(b.engine.stop(10))
    await until(lambda: left, "it to leave", every=0.005)
    while not stopping.done():
        post.clock.advance(100)
        await settle()
    await engine
    assert left == [[]]
    await a.beat()
    await a.relay.step()
    assert await waiting(ledger) == []
    assert check_published(await post.read(), ledger.written) == 0


@pytest.mark.parametrize("one_was_killed", [False, True])
async def test_a_node_that_stops_alone_leaves_an_empty_outbox(start, post, ledger, one_was_killed):
    """Also the last outcomes are published, which are written when it has left."""
    node = start("a")
    if one_was_killed:  # its record stands still, and stays
        await start("b").beat()
        await work(post.clock, 30, node, writers=[node])
        assert node.engine.members.is_alone
        node.relay.published = 0
    await node.engine.join()
    engine = await running(node)
    node.sender.hold = asyncio.Event()
    timers = [await node.create() for _ in range(5)]
    await until(lambda: len(node.sent) == 5, "callbacks to be under way", every=0.005)
    stopping = asyncio.create_task(node.engine.stop(10))
    await until(lambda: node.engine.members.has_left, "it to leave", every=0.005)
    assert node.relay.published == 15
    node.sender.hold.set()
    await stopping
    await engine
    assert await waiting(ledger) == []
    assert node.relay.published == 20
    assert len(timers) == 5
    assert check_published(await post.read(), ledger.written) == 0
