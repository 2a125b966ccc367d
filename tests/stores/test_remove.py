"""Removing timers one by one, whatever their status."""

import asyncio

import pytest

from duetime import ids
from duetime.stores import Change, Insert, Query
from duetime.timer import Status
from tests.factories import (
    NOW,
    claim_of,
    claimed,
    completed,
    insert,
    key_of,
    make_attempt,
    make_event,
    make_spec,
    make_timer,
)

pytestmark = pytest.mark.promise("one-contract")


@pytest.mark.parametrize("status", [Status.PENDING, Status.EXECUTING, Status.COMPLETED])
async def test_a_timer_goes_with_all_that_is_its_own(store, status):
    """Row, key, tags, log and place in the order of waking are gone; the events stay."""
    timer = make_timer(status=status, spec=make_spec(tags=("tag",)))
    event = make_event(timer)
    assert await store.insert([Insert(timer, (event,), (make_attempt(timer),))]) == [None]
    assert await store.remove([timer]) == [True]
    assert await store.get([timer.id]) == [None]
    assert await store.get_by_key([key_of(timer)]) == [None]
    assert await store.attempts(timer.id, None, 10) == []
    assert await store.due(ids.ALL_SHARDS, None, NOW * 2, 10) == []
    assert (await store.search(Query(tenant="default", tag="tag"))).timers == []
    assert await store.events(ids.ALL_SHARDS, None, 10) == [event]
    again = make_timer(timer_id=timer.timer_id)
    assert await store.insert([Insert(again)]) == [None]


async def test_only_what_is_still_as_it_was_read(store):
    """A timer that has changed stays, one that is gone is not removed, and others are not asked."""
    changed, other, gone = make_timer(), make_timer(), make_timer()
    await insert(store, changed, other)
    assert await store.apply([claim_of(changed)]) == [True]
    assert await store.remove([changed, gone, other]) == [False, False, True]
    assert await store.get([changed.id, other.id]) == [claimed(changed), None]


async def test_of_two_in_one_call_one_is_removed(store):
    """The same timer twice is removed once, and nothing at all is an answer too."""
    timer = make_timer()
    await insert(store, timer)
    assert (await store.remove([timer, timer])).count(True) == 1
    assert await store.remove([]) == []


async def test_a_timer_that_was_removed_does_not_come_back(store):
    """A change of it loses."""
    timer = make_timer()
    await insert(store, timer)
    assert await store.remove([timer]) == [True]
    assert await store.apply([claim_of(timer)]) == [False]
    assert await store.get([timer.id]) == [None]


async def test_who_claims_beside_a_removal(store):
    """Of a claim and a removal at once, one wins, for each timer."""
    timers = [make_timer() for _ in range(60)]
    await insert(store, *timers)
    removed, claims = await asyncio.gather(
        store.remove(timers), store.apply([claim_of(timer) for timer in timers])
    )
    assert [one != other for one, other in zip(removed, claims, strict=True)] == [True] * 60
    kept = [claimed(timer) if won else None for timer, won in zip(timers, claims, strict=True)]
    assert await store.get([timer.id for timer in timers]) == kept


async def test_many_at_once(store):
    """More than fit into one statement of any engine, some of them with a log."""
    timers = [make_timer() for _ in range(250)]
    await insert(store, *timers)
    logged = [
        Change(claimed(timer), completed(timer), make_attempt(timer)) for timer in timers[:20]
    ]
    assert all(await store.apply([claim_of(timer) for timer in timers[:20]]))
    assert all(await store.apply(logged))
    now = [change.new for change in logged] + timers[20:]
    assert await store.remove(now) == [True] * 250
    assert await store.search(Query(tenant="default")) == await store.search(Query(tenant="none"))
