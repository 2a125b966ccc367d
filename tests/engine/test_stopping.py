"""A node that stops lets callbacks end, and hands back what it claimed and did not send."""

import asyncio

import pytest

from duetime.errors import StoreError
from duetime.timer import Status
from tests.engine.conftest import Node, running
from tests.waiting import settle


async def test_what_is_claimed_ahead_is_handed_back_at_a_stop(store, clock):
    """What has not left is as if it had never been claimed, and the others may have it at once."""
    node = Node(store, clock, target_concurrency=2)
    timers = [await node.create(delay="1s") for _ in range(10)]
    await node.engine.reader.step()
    clock.advance(1_000)
    await node.dispatch()
    node.sender.hold = asyncio.Event()
    await node.dispatch()
    under_way = dict(node.sent[2:])
    await node.engine.dispatcher.stop()
    await node.commit()
    rows = [await node.get(timer) for timer in timers[2:]]
    executing = [row.id for row in rows if row.status is Status.EXECUTING]
    assert sorted(executing) == sorted(under_way)
    assert {row.progress.attempt for row in rows if row.id not in under_way} == {0}


async def test_claims_that_landed_unheard_are_handed_back_at_a_stop(store, clock):
    """They are looked up once more, and those that find no place are not left to run out."""
    node = Node(store, clock, target_concurrency=2)
    timers = [await node.create(delay="1s") for _ in range(10)]
    await node.engine.reader.step()
    clock.advance(1_000)
    await node.dispatch()
    await node.commit()
    node.sender.hold = asyncio.Event()
    store.failing = "after"
    with pytest.raises(StoreError):
        await node.dispatch()
    store.failing = None
    claimed = [t.id for t in timers if (await node.get(t)).status is Status.EXECUTING]
    assert len(claimed) == 4
    await node.engine.dispatcher.stop()
    await node.commit()
    executing = [t.id for t in timers if (await node.get(t)).status is Status.EXECUTING]
    assert len(executing) == 2
    assert sorted(id_ for id_, _ in node.sent[2:]) == sorted(executing)


@pytest.mark.promise("clean-stop")
async def test_a_graceful_stop_lets_callbacks_end(node, clock):
    """A stop waits until what is under way has ended and is written."""
    engine = await running(node)
    node.sender.hold = asyncio.Event()
    timer = await node.create()
    await settle()
    assert node.sent == [(timer.id, 1)]
    stopping = asyncio.create_task(node.engine.stop(25))
    await settle()
    late = await node.create()
    await settle()
    assert not stopping.done()
    node.sender.hold.set()
    await stopping
    await engine
    assert (await node.get(timer)).status is Status.COMPLETED
    assert (await node.get(late)).status is Status.PENDING


@pytest.mark.promise("clean-stop")
async def test_a_graceful_stop_hands_back_what_takes_too_long(node, store, clock):
    """A receiver that hangs does not hold up the stop; its timer is pending again at once."""
    engine = await running(node)
    node.sender.hold = asyncio.Event()
    timer = await node.create()
    await settle()
    stopping = asyncio.create_task(node.engine.stop(25))
    while not stopping.done():
        await settle()
        clock.advance(1_000)
    await engine
    stored = await node.get(timer)
    assert stored.status is Status.PENDING
    assert stored.wake_at <= clock.now()
    heir = Node(store, clock, "node-2")
    await heir.turn()
    assert heir.sent == [(timer.id, 2)]


@pytest.mark.promise("clean-stop")
async def test_a_stop_with_the_store_gone_still_ends(node, store, clock, caplog):
    """A stop without a store leaves its claims to run out, and the log says so."""
    engine = await running(node)
    node.sender.hold = asyncio.Event()
    timer = await node.create()
    await settle()
    store.failing = "before"
    stopping = asyncio.create_task(node.engine.stop(25))
    while not stopping.done():
        await settle()
        clock.advance(1_000)
    await engine
    assert "could not be handed back" in caplog.text
    store.failing = None
    heir = Node(store, clock, "node-2")
    await heir.turn()
    assert heir.sent == [(timer.id, 2)]
