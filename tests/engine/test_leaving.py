"""A node that leaves takes its record away, and is not taken for dead."""

import pytest

from duetime.engine.holds import Holds
from duetime.engine.members import Members
from duetime.errors import StoreUnavailable
from duetime.ids import ALL_SHARDS
from duetime.nodes import LEAVING, NODE_KIND
from duetime.stores.memory import MemoryStore
from duetime.tenancy.rules import Rules
from duetime.tenancy.tenant import Tenant
from duetime.testing import FlakyStore
from tests.engine.heartbeats import beat, joined, record


@pytest.fixture
def store():
    return MemoryStore()


async def test_a_node_that_leaves_is_gone_at_once_and_not_dead(store, clock):
    """Leaving takes the record away; nobody looks for its claims."""
    deaths = []
    a = Members("a", store, clock, on_death=deaths.append)
    b = Members("b", store, clock)
    await joined(clock, a, b)
    await b.leave()
    await a.step()
    assert a.shards == ALL_SHARDS
    await beat(clock, a, times=10)
    assert deaths == []


async def test_a_node_that_is_leaving_does_not_write_its_record_again(store, clock):
    """A pass that comes late leaves no trace."""
    a = Members("a", store, clock)
    await a.step()
    await a.leave()
    await a.step()
    assert await store.records(NODE_KIND) == []


async def test_leaving_is_tried_again(store, clock):
    """Once the store is back, the record goes."""
    flaky = FlakyStore(store)
    a = Members("a", flaky, clock)
    await a.step()
    flaky.failing = "before"
    with pytest.raises(Exception, match="as told"):
        await a.leave()
    assert not a.has_left
    flaky.failing = None
    await a.leave()
    assert a.has_left
    assert await store.records(NODE_KIND) == []


async def test_news_that_get_lost_are_no_reason_to_have_stayed(store, clock):
    """The record is gone, and that counts."""

    class Mute(FlakyStore):
        async def announce(self, news):
            raise StoreUnavailable("nobody hears")

    a = Members("a", store, clock)
    await a.step()
    a._store = Mute(store)
    await a.leave()
    assert a.has_left


async def test_who_is_leaving_has_a_record_of_another_kind_until_it_has_gone(store, clock):
    """Whoever must know that it still works can: for as long as it may take to end."""
    a = Members("a", store, clock, ttl=5_000)
    await a.step()
    await a.leave(drain_for=25)
    [leaving] = await store.records(LEAVING)
    assert leaving.name == "a"
    assert record(leaving).ttl == 30_000
    await a.leave(drain_for=25)  # as after a lost answer
    assert await store.records(LEAVING) == [leaving]
    await a.leave_no_trace()
    assert await store.records(LEAVING) == []
    assert await store.records(NODE_KIND) == []


async def test_there_is_always_one_of_its_records(store, clock):
    """The second is written before the first goes: nobody who looks at both finds neither."""
    seen = []
    put = store.put_record

    async def watched_put(old, new):
        answer = await put(old, new)
        seen.append([len(await store.records(kind)) for kind in (NODE_KIND, LEAVING)])
        return answer

    a = Members("a", store, clock)
    await a.step()
    store.put_record = watched_put
    await a.leave()
    await a.leave_no_trace()
    assert seen == [[1, 1], [0, 1], [0, 0]]


async def test_who_never_left_goes_without_a_trace(store, clock):
    """It was turned away before it did anything."""
    a = Members("a", store, clock)
    await a.step()
    await a.leave_no_trace()
    assert await store.records(NODE_KIND) + await store.records(LEAVING) == []
    await a.step()
    assert await store.records(NODE_KIND) == []


async def test_those_that_crashed_at_leaving_are_forgotten(store, clock):
    """A day later, by whoever goes then."""
    crashed, a = Members("crashed", store, clock), Members("a", store, clock)
    await crashed.step()
    await crashed.leave()
    await a.step()
    await a.leave_no_trace()
    assert [each.name for each in await store.records(LEAVING)] == ["crashed"]
    clock.advance(86_400_001)
    b = Members("b", store, clock)
    await b.step()
    await b.leave_no_trace()
    assert await store.records(LEAVING) == []


async def test_who_makes_something_by_older_tenants_shows_it_to_the_end(store, clock):
    """While it is there, when it leaves, and while it lingers; and no longer than that."""
    rules = Rules(store, clock)
    a = Members("a", store, clock, holds=Holds(rules))
    await a.step()

    async def changed(name: str) -> int:
        tenant = Tenant(name=name, created_at=0, updated_at=0)
        assert await rules.put(rules.tenants, name, None, tenant)
        return rules.tenants.revision

    async def shown(kind: str) -> int:
        [written] = await store.records(kind)
        return record(written).makes_by

    first = await changed("one")
    await a.step()
    assert await shown(NODE_KIND) == first
    with rules.making():
        second = await changed("two")
        await a.step()
        assert await shown(NODE_KIND) == first
        await a.leave()
        await a.linger()
        assert await shown(LEAVING) == first
    await a.linger()
    assert await shown(LEAVING) == second
