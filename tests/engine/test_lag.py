"""An engine that is behind by its own fault holds creates back; a receiver's fault never does."""

import asyncio

import pytest

from duetime.brake import REFUSE_FROM
from duetime.errors import StoreError, Unavailable
from duetime.stores import Insert
from tests.engine.conftest import Node
from tests.engine.crowds import HANGING, HangingSender
from tests.factories import make_timer


@pytest.mark.promise("only-itself")
async def test_a_receiver_that_hangs_never_keeps_creates_out(store, clock):
    """However many timers wait for it, and for how long, creates are taken at once."""
    node = Node(store, clock)
    HangingSender(node)
    for _ in range(3_000):
        await node.create(callback=HANGING, delay="1s")
    clock.advance(1_000)
    for _ in range(6):  # takes 500 each
        await node.turn()
    for _ in range(30):
        clock.advance(2_000)
        await node.turn()
        assert node.engine.lag() == 0
        async with asyncio.timeout(5):
            await node.create(callback=HANGING)
    assert node.engine.status().behind_ms > REFUSE_FROM


@pytest.mark.promise("only-itself")
async def test_receivers_that_fill_the_node_keep_no_creates_out(store, clock):
    """A node whose places are all taken waits for others, not for itself."""
    node = Node(store, clock, max_in_flight=20)
    node.sender.hold = asyncio.Event()
    for n in range(100):
        await node.create(callback={"type": "http", "url": f"https://{n}.example/"})
    await node.turn()
    assert node.engine.targets.free == 0
    clock.advance(REFUSE_FROM)
    assert node.engine.status().behind_ms >= REFUSE_FROM
    async with asyncio.timeout(5):
        await node.create()
    node.sender.hold.set()


async def test_a_backlog_keeps_no_creates_out(store, clock):
    """What was late when it was found is worked off beside what is new."""
    node = Node(store, clock)
    await store.insert([Insert(make_timer(created_at=clock.now())) for _ in range(2_000)])
    clock.advance(7_200_000)
    for _ in range(2):
        await node.engine.reader.step()
    assert len(node.engine.agenda) >= 1_000
    assert node.engine.status().behind_ms > REFUSE_FROM
    async with asyncio.timeout(5):
        await node.create()


async def test_an_engine_that_is_behind_refuses_and_recovers(node, store, clock):
    """While claims cannot be written, more timers that are due now would only be late too."""
    due = await node.create(delay="1s")
    await node.engine.reader.step()
    clock.advance(1_000 + REFUSE_FROM)
    with pytest.raises(Unavailable, match="this node is 10 s behind"):
        await node.create()
    later = await node.create(delay="1h")
    assert await node.get(later)
    await node.turn()
    assert node.sent == [(due.id, 1)]
    made = await node.create()
    await node.turn()
    assert node.sent[1:] == [(made.id, 1)]


async def test_claims_that_fail(node, store, clock):
    """What the dispatcher took and could not claim is in doubt, not lost; the rest is behind."""
    for _ in range(600):
        await node.create(delay="1s")
    clock.advance(1_000)
    store.failing = "before"
    for _ in range(3):
        with pytest.raises(StoreError):
            await node.dispatch()
    clock.advance(REFUSE_FROM)
    store.failing = None
    with pytest.raises(Unavailable):
        await node.create()
    for _ in range(5):
        await node.turn()
    assert node.engine.lag() == 0
    assert await node.create()
