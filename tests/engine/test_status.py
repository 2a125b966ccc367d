"""What the engine says of itself, and what the janitor drops."""

import asyncio

from duetime.errors import NotFound
from duetime.timer import Status
from tests.engine.conftest import Node
from tests.waiting import settle


async def test_behind_is_how_late_the_oldest_unstarted_timer_is(node, clock):
    """A timer that is due and not started yet counts."""
    await node.create(delay="1s")
    await node.engine.reader.step()
    assert node.engine.status().behind_ms == 0
    clock.advance(3_500)
    assert node.engine.status().behind_ms == 2_500
    await node.turn()
    assert node.engine.status().behind_ms == 0


async def test_a_timer_that_ended_as_it_waited_is_not_late(node, clock):
    """Its receiver hangs, and its deadline has passed."""
    await node.engine.members.step()
    node.sender.hold = asyncio.Event()
    for _ in range(20):
        await node.create(deadline="2s")
    await node.turn()
    clock.advance(8_000)
    await node.engine.members.step()
    assert node.engine.status().behind_ms == 8_000
    for _ in range(2):
        await node.turn()
    assert node.engine.status().behind_ms == 0
    node.sender.hold.set()
    await settle()


async def test_an_engine_whose_parts_stand_still_is_not_alive(node, clock):
    """Liveness is about passes made, not about the process being there."""
    engine = asyncio.create_task(node.engine.run())
    await settle()
    assert node.engine.status().alive
    assert node.engine.status().writable

    async def stuck(*_):
        await asyncio.Event().wait()

    node.store.store.due = stuck
    for _ in range(20):
        clock.advance(1_000)
        await settle()
    assert not node.engine.status().alive
    engine.cancel()


async def test_a_store_that_takes_no_writes_is_not_writable(node, store, clock):
    """A store is writable as long as heartbeats can be written."""
    await node.engine.members.step()
    assert node.engine.status().writable
    store.failing = "before"
    clock.advance(20_000)
    assert not node.engine.status().writable


async def test_the_janitor_drops_finished_timers_after_their_retention(store, clock):
    """Finished ones go, waiting ones stay."""
    node = Node(store, clock, retention=60_000)
    done = await node.create()
    waiting = await node.create(delay="1h")
    await node.turn()
    assert (await node.get(done)).status is Status.COMPLETED
    clock.advance(59_999)
    await node.engine.janitor.step()
    assert await node.get(done)
    clock.advance(2)
    await node.engine.janitor.step()
    assert await node.get(waiting)
    try:
        await node.get(done)
    except NotFound:
        return
    raise AssertionError("it is still there")


async def test_without_retention_nothing_is_dropped(node, clock, store):
    """Finished timers are kept for ever unless a retention is set."""
    done = await node.create()
    await node.turn()
    clock.advance(10**12)
    await node.engine.janitor.step()
    assert await node.get(done)
    assert "purge" not in store.calls
