"""Retention: finished timers are dropped, and nothing else is."""

import asyncio

import pytest
from msgspec.structs import replace

from duetime import ids, model
from duetime.stores import Change, Insert, Query
from duetime.timer import FINISHED, Status
from tests.factories import (
    NOW,
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


def finished(updated_at=NOW, **overrides):
    return make_timer(status=Status.COMPLETED, wake_at=None, updated_at=updated_at, **overrides)


async def test_only_finished_timers_are_dropped(store, subtests):
    """Completed, failed and canceled timers go; those that may still fire stay."""
    for status in Status:
        with subtests.test(status.value):
            timer = make_timer(status=status, wake_at=None)
            await insert(store, timer)
            assert await store.purge(ids.ALL_SHARDS, NOW + 1, 10) == (status in FINISHED)
            assert await store.get([timer.id]) == [None if status in FINISHED else timer]


async def test_only_those_changed_before_then(store):
    """What finished at or after that time is kept."""
    old, new = finished(NOW - 1), finished(NOW)
    await insert(store, old, new)
    assert await store.purge(ids.ALL_SHARDS, NOW, 10) == 1
    assert await store.get([old.id, new.id]) == [None, new]


async def test_the_limit_holds(store):
    """No more than the limit is dropped at once, and the rest by the next calls."""
    await insert(store, *(finished() for _ in range(5)))
    dropped = [await store.purge(ids.ALL_SHARDS, NOW + 1, 2) for _ in range(4)]
    assert dropped == [2, 2, 1, 0]


async def test_only_the_shards_asked_for(store):
    """Timers of other shards stay."""
    mine, other = finished(shard=1), finished(shard=2)
    await insert(store, mine, other)
    assert await store.purge({1, 3}, NOW + 1, 10) == 1
    assert await store.get([mine.id, other.id]) == [None, other]
    assert await store.purge([], NOW + 1, 10) == 0


async def test_all_that_is_a_timers_goes_with_it(store):
    """The execution log, the key and the tags go too; another timer's stay."""
    spec = make_spec(tags=("tag",))
    timer, other = make_timer(spec=spec), make_timer(spec=spec)
    await insert(store, timer, other)
    claims = [Change(one, claimed(one), make_attempt(one)) for one in (timer, other)]
    await store.apply(claims)
    await store.apply([Change(claims[0].new, completed(timer))])
    assert await store.purge(ids.ALL_SHARDS, NOW + 1, 10) == 1
    assert await store.attempts(timer.id, None, 10) == []
    assert await store.attempts(other.id, None, 10) == [make_attempt(other)]
    assert await store.get_by_key([key_of(timer)]) == [None]
    assert (await store.search(Query(tenant="default", tag="tag"))).timers == [claims[1].new]
    again = make_timer(timer_id=timer.timer_id)
    assert await store.insert([Insert(again)]) == [None]


async def test_who_comes_back_under_the_same_id_has_nothing_of_who_was_dropped(store):
    """A timer that another store hands over again is found by its own tags, and has no log."""
    timer = finished(spec=make_spec(tags=("old",)))
    assert await store.insert([Insert(timer, attempts=(make_attempt(timer),))]) == [None]
    assert await store.purge(ids.ALL_SHARDS, NOW + 1, 10) == 1
    again = replace(timer, spec=make_spec(tags=("new",)))
    await insert(store, again)
    assert (await store.search(Query(tenant="default", tag="old"))).timers == []
    assert (await store.search(Query(tenant="default", tag="new"))).timers == [again]
    assert await store.attempts(timer.id, None, 10) == []


async def test_events_outlive_their_timer(store):
    """What was not told yet is still told, though its timer is gone."""
    timer = finished()
    event = make_event(timer)
    await store.insert([Insert(timer, (event,))])
    assert await store.purge(ids.ALL_SHARDS, NOW + 1, 10) == 1
    assert await store.events(ids.ALL_SHARDS, None, 10) == [event]


async def test_a_dropped_timer_does_not_come_back(store):
    """A change of a timer that was dropped meanwhile loses."""
    timer = finished()
    await insert(store, timer)
    await store.purge(ids.ALL_SHARDS, NOW + 1, 10)
    assert await store.apply([Change(timer, replace(timer, version=2))]) == [False]
    assert await store.get([timer.id]) == [None]


async def test_a_change_of_a_dropped_timer_spares_who_has_its_key_since(store):
    """A key may be another timer's by now, at the same version: the change was not made for it."""
    timer = finished(timer_id="same")
    await insert(store, timer)
    assert await store.purge(ids.ALL_SHARDS, NOW + 1, 10) == 1
    heir = make_timer(timer_id="same")
    await insert(store, heir)
    assert await store.apply([Change(timer, replace(timer, version=2))]) == [False]
    assert await store.get([timer.id, heir.id]) == [None, heir]


async def test_who_is_begun_anew_beside_a_purge_is_dropped_or_kept(store):
    """Whoever was told that the change won finds it, and whoever lost finds nothing."""
    timers = [finished() for _ in range(200)]
    await insert(store, *timers)
    news = [
        model.replace(timer, NOW + 1, spec=make_spec(), execute_at=NOW + 9, fingerprint=None)
        for timer in timers
    ]
    changes = [Change(old, new) for old, new in zip(timers, news, strict=True)]
    dropped, *answers = await asyncio.gather(
        store.purge(ids.ALL_SHARDS, NOW + 1, 200), *(store.apply([change]) for change in changes)
    )
    kept = [new if won else None for new, (won,) in zip(news, answers, strict=True)]
    assert await store.get([timer.id for timer in timers]) == kept
    assert dropped == kept.count(None)


async def test_who_has_a_retention_of_its_own_is_kept_for_so_long(keeping_store):
    """The usual retention does not touch it, however old, and its own ends it on time."""
    store = keeping_store
    spec = make_spec(retention=5_000)
    own, usual = finished(spec=spec), finished()
    waiting = make_timer(spec=spec)
    await insert(store, own, usual, waiting)
    assert await store.purge(ids.ALL_SHARDS, NOW * 2, 10) == 1
    assert await store.drop_outlived(ids.ALL_SHARDS, NOW + 4_999, 10) == 0
    assert await store.get([own.id, usual.id]) == [own, None]
    assert await store.drop_outlived({own.shard + 1}, NOW + 5_000, 10) == 0
    assert await store.drop_outlived({own.shard}, NOW + 5_000, 10) == 1
    assert await store.get([own.id, waiting.id]) == [None, waiting]
    assert await store.get_by_key([key_of(own)]) == [None]


async def test_its_own_retention_counts_from_the_end(keeping_store):
    """A timer that finishes, is begun anew and finishes again is kept from the last time on."""
    store = keeping_store
    timers = [make_timer(spec=make_spec(retention=5_000), wake_at=NOW) for _ in range(3)]
    await insert(store, *timers)
    assert all(await store.apply([Change(one, claimed(one)) for one in timers]))
    ends = [Change(claimed(one), completed(one, NOW + 10), make_attempt(one)) for one in timers]
    assert all(await store.apply(ends))
    again = model.replace(
        ends[0].new, NOW + 20, spec=timers[0].spec, execute_at=NOW + 30, fingerprint=None
    )
    plain = model.replace(
        ends[1].new, NOW + 20, spec=make_spec(), execute_at=NOW + 30, fingerprint=None
    )
    canceled = model.cancel(plain, NOW + 40)
    assert await store.apply([Change(ends[0].new, again), Change(ends[1].new, plain)]) == [True] * 2
    assert await store.apply([Change(plain, canceled)]) == [True]
    assert await store.drop_outlived(ids.ALL_SHARDS, NOW + 5_010, 2) == 1
    left = await store.get([timer.id for timer in timers])
    assert left == [again, canceled, None]
    assert await store.attempts(timers[2].id, None, 10) == []
    assert await store.purge(ids.ALL_SHARDS, NOW + 41, 10) == 1
