"""Timers written on one node and looked after by another: passed on, or found by a poll."""

import asyncio
import logging
import random
from contextlib import asynccontextmanager

import pytest

from duetime.engine.herald import LARGEST, MOST_WAITING, Herald
from duetime.engine.notices import IMMINENT
from duetime.engine.reader import MOST_HEARD
from duetime.requests import UpdateTimer
from duetime.stores import Waking
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.testing import FlakyStore
from duetime.timer import Kind, Outcome, Status
from tests.engine.conftest import DeafStore, Node, create_for, join
from tests.factories import make_timer
from tests.waiting import settle


@pytest.fixture
def memory():
    return MemoryStore()


@pytest.fixture
async def pair(memory, clock):
    """Two nodes that share the shards of one store."""
    a, b = (Node(FlakyStore(memory), clock, name) for name in "ab")
    for node in (a, b):
        memory.listen(node.engine.hear)
    await join(clock, a, b)
    for node in (a, b):
        node.store.calls.clear()
    return a, b


@asynccontextmanager
async def running(*nodes: Node):
    """Nodes with all their loops."""
    engines = [asyncio.create_task(node.engine.run()) for node in nodes]
    await settle()
    yield
    stopping = [asyncio.create_task(node.engine.stop(1)) for node in nodes]
    while not all(each.done() for each in stopping):
        await settle()
        nodes[0].clock.advance(100)
    await asyncio.gather(*stopping, *engines)


async def test_a_timer_of_another_nodes_shard_is_passed_on(pair, clock):
    """Its own node has it on its agenda before it is due, and no poll was needed."""
    a, b = pair
    timer = await create_for(b, a, delay="1s")
    assert timer.id not in a.engine.agenda
    await a.engine.herald.step()
    await settle()
    await b.engine.reader.step()
    assert b.store.calls == ["get"]
    clock.advance(1_000)
    await a.dispatch()
    await b.dispatch()
    assert a.sent == []
    assert b.sent == [(timer.id, 1)]


async def test_hearing_does_not_put_off_the_poll(pair, clock):
    """It comes when it would have come."""
    a, b = pair
    assert await b.engine.reader.step() == 1.0
    clock.advance(600)
    await create_for(b, a, delay="1s")
    await a.engine.herald.step()
    await settle()
    assert await b.engine.reader.step() == pytest.approx(0.4)
    clock.advance(400)
    await create_for(b, a, delay="1s")
    await a.engine.herald.step()
    await settle()
    b.store.calls.clear()
    await b.engine.reader.step()
    assert "due" in b.store.calls


async def test_a_timer_of_an_own_shard_is_not_announced(pair, clock):
    """It goes straight onto the agenda."""
    a, _ = pair
    timer = await create_for(a, a, delay="1s")
    assert timer.id in a.engine.agenda
    assert not a.engine.herald._waiting


async def test_a_timer_that_is_due_at_once_is_started_where_it_was_written(pair, clock):
    """Passing it on would take longer than starting it."""
    a, b = pair
    timer = await create_for(b, a, delay=f"{IMMINENT}ms")
    clock.advance(IMMINENT)
    await a.dispatch()
    assert (timer.id, 1) in a.sent
    await a.engine.herald.step()
    assert "announce" not in a.store.calls


async def test_a_timer_that_is_due_much_later_is_not_announced(pair):
    """Its node will read it when its time is near."""
    a, b = pair
    await create_for(b, a, delay="1m")
    await a.engine.herald.step()
    assert "announce" not in a.store.calls


async def test_a_node_that_is_alone_announces_no_timer(memory, clock):
    """A node that is alone announces nothing, for nobody would listen."""
    node = Node(FlakyStore(memory), clock)
    await node.engine.members.step()
    node.store.calls.clear()
    for _ in range(20):
        await node.create(delay="1s")
    await node.engine.herald.step()
    assert "announce" not in node.store.calls
    assert len(node.engine.agenda) == 20


async def test_a_retry_is_passed_on_too(pair, clock):
    """Whoever writes a timer takes care that its node hears of it."""
    a, b = pair
    a.sender.answer = Outcome(kind=Kind.HTTP, status_code=500, error="HTTP 500", retryable=True)
    policy = {"max_attempts": 2, "initial_interval": "1s", "jitter": 0}
    timer = await create_for(b, a, delay="10ms", retry_policy=policy)
    clock.advance(10)
    await a.dispatch()
    await a.commit()
    await a.engine.herald.step()
    await settle()
    await b.engine.reader.step()
    clock.advance(1_000)
    await b.dispatch()
    assert b.sent == [(timer.id, 2)]


async def test_a_timer_that_was_moved_away_is_forgotten(pair, clock):
    """A stale entry of another node's timer costs not even a lost race."""
    a, b = pair
    timer = await create_for(b, a, delay=f"{IMMINENT}ms")
    assert timer.id in a.engine.agenda
    await a.service.update(OPERATOR, timer.id, UpdateTimer(delay="3s"))
    assert timer.id not in a.engine.agenda
    timer = await create_for(b, a, delay=f"{IMMINENT}ms")
    await a.service.cancel(OPERATOR, timer.id)
    assert timer.id not in a.engine.agenda


async def test_what_gathers_is_announced_together(clock):
    """Many lines in one announcement, a bounded number of them, and none beyond what may wait."""
    memory, wakes, heard = MemoryStore(), [], []
    memory.listen(heard.append)
    herald = Herald(memory, wake=lambda: wakes.append(1))
    line = Waking.of(make_timer())
    for _ in range(MOST_WAITING + 5):
        herald.tell(line)
    assert len(wakes) == 1
    while await herald.step() == 0:
        pass
    await settle()
    assert [len(news.waking) for news in heard] == [LARGEST] * (MOST_WAITING // LARGEST)


@pytest.mark.promise("bounded-memory")
async def test_a_flood_of_news_is_bounded(pair, clock):
    """News that do not fit are dropped, and the poll finds what they told of."""
    a, b = pair
    timer = await create_for(b, a, delay="1s")
    b.engine.reader.hear([Waking.of(timer)] * (MOST_HEARD + 5))
    assert len(b.engine.reader._heard) == MOST_HEARD


async def test_what_a_node_loses_to_another_is_dropped_and_passed_on(memory, clock):
    """The newcomer may have read that stretch of time before the timer was written."""
    a, b = (Node(FlakyStore(memory), clock, name) for name in "ab")
    for node in (a, b):
        memory.listen(node.engine.hear)
    await a.engine.members.step()
    await a.engine.reader.step()
    await b.engine.members.step()
    await a.engine.members.step()
    await b.engine.members.step()  # it has its shards now
    await b.engine.reader.step()
    timers = [await a.create(delay="1s") for _ in range(100)]  # a takes them for its own
    await a.engine.members.step()
    await a.engine.reader.step()
    mine = [timer for timer in timers if timer.shard in a.engine.members.shards]
    assert 0 < len(mine) < 100
    assert len(a.engine.agenda) == len(mine)
    await a.engine.herald.step()
    await settle()
    await b.engine.reader.step()
    assert len(b.engine.agenda) == 100 - len(mine)


async def fired_after(a: Node, b: Node, clock, **fields) -> int:
    """How late, in milliseconds, b fires a timer that a has written."""
    async with running(a, b):
        for _ in range(40):
            clock.advance(100)
            await settle()
        timer = await create_for(b, a, **fields)
        while (await a.get(timer)).status is not Status.COMPLETED:
            clock.advance(10)
            await settle()
        assert (timer.id, 1) in b.sent
        return (await a.get(timer)).executed_at - timer.execute_at


async def test_an_engine_that_hears_fires_in_time(memory, clock):
    """With all loops; the poll would come half a second later."""
    a, b = (Node(FlakyStore(memory), clock, name) for name in "ab")
    late = await fired_after(a, b, clock, delay="2500ms")
    assert late <= 50


async def test_an_engine_that_hears_nothing_fires_at_its_next_poll(memory, clock):
    """News are hints: nothing depends on them but how soon."""
    a, b = (DeafStore(memory), DeafStore(memory))
    late = await fired_after(Node(a, clock, "a"), Node(b, clock, "b"), clock, delay="2500ms")
    assert 50 < late <= 1_100
    assert "announce" in a.calls


async def test_news_that_cannot_be_told_trouble_nobody_but_the_log(memory, clock, caplog):
    """Creating goes on; the poll finds what was not told."""
    caplog.set_level(logging.INFO, logger="duetime.engine")
    a, b = (Node(FlakyStore(memory), clock, name) for name in "ab")

    async def broken(news):
        if news.waking:
            raise ZeroDivisionError

    async with running(a, b):
        for _ in range(40):
            clock.advance(100)
            await settle()
        a.store.announce = broken
        timers = [await create_for(b, a, delay=f"{500 + n}ms") for n in range(3)]
        for _ in range(30):
            clock.advance(100)
            await settle()
        assert {id_ for id_, _ in b.sent} >= {timer.id for timer in timers}
    assert len([line for line in caplog.messages if "herald failed" in line]) == 1


@pytest.mark.promise("one-node-per-attempt")
async def test_three_nodes_fire_each_timer_once_and_in_time(memory, clock):
    """Three running nodes fire each timer once and in time, whichever of them it was created on."""
    nodes = [Node(FlakyStore(memory), clock, name) for name in "abc"]
    chance = random.Random(3)
    async with running(*nodes):
        for _ in range(50):
            clock.advance(100)
            await settle()
        timers = [
            await chance.choice(nodes).create(
                delay=f"{chance.randrange(4_000)}ms",
                callback={"type": "http", "url": f"https://{chance.randrange(100)}.example/"},
            )
            for _ in range(200)
        ]
        for _ in range(500):
            clock.advance(10)
            await settle()
        sent = [each for node in nodes for each in node.sent]
        assert sorted(sent) == sorted((timer.id, 1) for timer in timers)
        assert all(node.sent for node in nodes)
        done = [await nodes[0].get(timer) for timer in timers]
    assert max(timer.executed_at - timer.execute_at for timer in done) <= 100
