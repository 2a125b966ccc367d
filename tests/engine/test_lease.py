"""A lease says until when a node may send, and ends before others take the node for dead."""

import pytest

from duetime.engine.members import Members
from duetime.errors import StoreUnavailable
from duetime.stores.memory import MemoryStore
from duetime.testing import FlakyStore
from tests.engine.heartbeats import beat, joined


@pytest.fixture
def store():
    return MemoryStore()


@pytest.mark.promise("stalled-sends-nothing")
async def test_a_lease_ends_before_anybody_can_take_the_node_for_dead(store, clock):
    """A lease counts from before the heartbeat was asked for, and death from after it was seen."""
    deaths = []
    a = Members("a", store, clock)
    b = Members("b", store, clock, on_death=deaths.append)
    await joined(clock, a, b)
    slow = store.put_record

    async def slow_put(old, new):
        clock.advance(700)
        return await slow(old, new)

    store.put_record = slow_put
    asked_at = clock.monotonic()
    await a._beat()
    assert a.lease.until == asked_at + 10
    store.put_record = slow
    await b.step()
    while not deaths:
        clock.advance(1)
        await b.step()
        assert not (deaths and a.lease.holds(clock.monotonic()))
    assert clock.monotonic() - a.lease.until < 1


@pytest.mark.promise("stalled-sends-nothing")
async def test_a_lease_that_has_ended_does_not_come_back(store, clock):
    """A heartbeat that comes late begins another lease, for others may have acted in between."""
    a = Members("a", store, clock)
    await a.step()
    lease = a.lease
    clock.advance(9_999)
    await a.step()
    assert a.lease is lease
    assert lease.holds(clock.monotonic())
    clock.advance(10_000)
    await a.step()
    assert a.lease is not lease
    assert a.lease.holds(clock.monotonic())
    assert not lease.holds(clock.monotonic())


async def test_a_heartbeat_that_was_answered_after_the_lease_begins_another(store, clock):
    """It may have landed after the others had given the node up."""
    a = Members("a", store, clock)
    await a.step()
    lease = a.lease
    clock.advance(9_000)
    put = store.put_record

    async def slow_put(old, new):
        clock.advance(1_000)
        return await put(old, new)

    store.put_record = slow_put
    await a.step()
    assert a.lease is not lease
    assert not lease.holds(clock.monotonic())


async def test_a_look_that_took_long_takes_nobody_for_dead(store, clock):
    """A record has stood still until the look was asked for, not until it was answered."""
    deaths = []
    a = Members("a", store, clock, on_death=deaths.append)
    b = Members("b", store, clock)
    await joined(clock, a, b)
    await a.step()
    records = store.records

    async def slow_records(kind):
        stale = await records(kind)
        clock.advance(10_000)
        return stale

    store.records = slow_records
    await a.step()
    assert deaths == []


async def test_who_has_left_keeps_its_claims(store, clock):
    """Nobody takes it for dead, so it may end what it has begun, without a heartbeat."""
    a = Members("a", store, clock)
    await a.step()
    await a.leave()
    clock.advance(60_000)
    assert a.lease.holds(clock.monotonic())


async def test_who_could_not_leave_loses_its_claims(store, clock):
    """Its record is still there, and will be taken for a dead node's."""
    flaky = FlakyStore(store)
    a = Members("a", flaky, clock)
    await a.step()
    flaky.failing = "before"
    with pytest.raises(Exception, match="as told"):
        await a.leave()
    clock.advance(10_000)
    assert not a.lease.holds(clock.monotonic())


async def test_who_comes_back_asks_whether_it_may(store, clock):
    """After others may have taken it for dead, and not before; a failed question is repeated."""
    asked = []

    async def readmit():
        asked.append(clock.monotonic())
        if len(asked) == 1:
            raise StoreUnavailable("away")

    a = Members("a", store, clock, readmit=readmit)
    await beat(clock, a, times=5)
    assert asked == []
    clock.advance(10_000)
    with pytest.raises(StoreUnavailable):
        await a.step()
    assert not a.lease.holds(clock.monotonic())
    await a.step()
    assert len(asked) == 2
    assert a.lease.holds(clock.monotonic())
