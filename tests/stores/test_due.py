"""The due index: what needs attention, oldest first."""

import pytest
from msgspec import Raw

from duetime import ids, model
from duetime.stores import Change, Due, Key, Waking
from duetime.timer import HttpCallback
from tests.factories import NOW, claim_of, completed, insert, make_spec, make_timer

pytestmark = pytest.mark.promise("one-contract")


def at(wake_at, **overrides):
    return make_timer(execute_at=wake_at, **overrides)


def lines(timers):
    """The lines of the due index for these timers."""
    return [Waking.of(timer) for timer in timers]


async def test_what_wakes_until_then_is_due(store):
    """A timer is due at its wake_at, not one millisecond before."""
    earlier, now, later = at(NOW - 1), at(NOW), at(NOW + 1)
    await insert(store, later, now, earlier)
    assert await store.due(ids.ALL_SHARDS, None, NOW, 10) == lines([earlier, now])
    assert await store.due(ids.ALL_SHARDS, None, NOW - 2, 10) == []


async def test_oldest_first_and_ties_by_id(store):
    """The order is by wake_at, and by id where that is equal."""
    timers = [at(NOW + place % 3) for place in range(12)]
    await insert(store, *timers)
    expected = sorted(timers, key=lambda timer: (timer.wake_at, timer.id))
    assert await store.due(ids.ALL_SHARDS, None, NOW + 9, 100) == lines(expected)


async def test_the_limit_holds(store):
    """No more than the limit is answered, the oldest of all."""
    timers = [at(NOW + place) for place in range(5)]
    await insert(store, *timers)
    assert await store.due(ids.ALL_SHARDS, None, NOW + 9, 3) == lines(timers[:3])
    assert await store.due(ids.ALL_SHARDS, None, NOW + 9, 0) == []


async def test_paging_through_one_instant(store, subtests):
    """More timers at one instant than the limit are all seen, once each, page by page."""
    timers = [at(NOW) for _ in range(20)] + [at(NOW + 1) for _ in range(3)]
    await insert(store, *timers)
    for limit in (1, 3, 7, 10):
        with subtests.test(limit=limit):
            seen = []
            after = None
            while page := await store.due(ids.ALL_SHARDS, after, NOW + 1, limit):
                assert len(page) <= limit
                seen += page
                after = page[-1].place
            assert seen == sorted(lines(timers))


async def test_lines_say_what_is_needed_to_choose(store):
    """A line has the version and the weight of its timer, so that only what is needed is read."""
    small, large = at(NOW), at(NOW + 1, spec=with_payload(b'"' + b"x" * 100_000 + b'"'))
    await insert(store, small, large)
    claim = claim_of(small)
    await store.apply([claim])
    found = await store.due(ids.ALL_SHARDS, None, NOW + 10**6, 10)
    assert found == sorted(lines([claim.new, large]))
    assert found[0].weight > 100_000 > found[1].weight
    lighter = model.replace(large, NOW, spec=small.spec, execute_at=NOW + 2, fingerprint=None)
    await store.apply([Change(large, lighter)])
    assert await store.due(ids.ALL_SHARDS, None, NOW + 2, 10) == lines([lighter])


async def test_many_large_timers_are_read(store):
    """However large they are, all that were asked for are answered."""
    spec = with_payload(b'"' + b"x" * 2 * 1024 * 1024 + b'"')
    timers = [at(NOW + place) for place in range(100)]
    timers += [at(NOW + place, spec=spec) for place in range(100, 150)]
    await insert(store, *timers)
    asked = [timer.id for timer in timers]
    found = [timer.id for timer in await store.get(asked) if timer]
    assert found == asked
    keys = [Key(timer.tenant, timer.group, timer.timer_id, timer.shard) for timer in timers]
    assert [timer.id for timer in await store.get_by_key(keys) if timer] == asked


def with_payload(payload):
    return make_spec(callback=HttpCallback(url="http://a.example/", payload=Raw(payload)))


async def test_many_are_due_at_once(store):
    """A page of thousands has no gaps, no repeats, and keeps the order."""
    timers = [at(NOW + place % 7) for place in range(2_500)]
    await insert(store, *timers)
    expected = sorted(timers, key=lambda timer: (timer.wake_at, timer.id))
    assert await store.due(ids.ALL_SHARDS, None, NOW + 9, 2_100) == lines(expected[:2_100])
    assert await store.due(ids.ALL_SHARDS, None, NOW + 9, 9_999) == lines(expected)


async def test_a_crowded_shard_comes_before_what_is_later_in_others(store):
    """However unevenly they lie, the oldest of all shards come first."""
    crowd = [at(NOW + place, shard=1) for place in range(150)]
    others = [at(NOW + 1_000 + shard, shard=shard) for shard in range(2, 64)]
    await insert(store, *crowd, *others)
    assert await store.due(ids.ALL_SHARDS, None, NOW + 9_999, 100) == lines(crowd[:100])
    expected = crowd[100:] + others
    place = Waking.of(crowd[99]).place
    assert await store.due(ids.ALL_SHARDS, place, NOW + 9_999, 200) == lines(expected)


async def test_behind_a_place_that_is_gone(store):
    """The place to go on from need not hold a timer any more."""
    first, second = at(NOW), at(NOW + 2)
    await insert(store, first, second)
    between = Due(NOW + 1, "ffffffff-ffff-7fff-bfff-ffffffffffff")
    assert await store.due(ids.ALL_SHARDS, between, NOW + 9, 10) == lines([second])


async def test_behind_a_place_that_lies_ahead_nothing_is_due(store):
    """Who goes on from a later time than is asked for finds nothing, at that instant neither."""
    timers = sorted((at(NOW + 5) for _ in range(3)), key=lambda timer: timer.id)
    await insert(store, *timers)
    first = Waking.of(timers[0]).place
    assert await store.due(ids.ALL_SHARDS, first, NOW + 4, 10) == []
    assert await store.due(ids.ALL_SHARDS, first, NOW + 5, 10) == lines(timers[1:])


async def test_only_the_shards_asked_for(store):
    """Timers of other shards are left out, at the same instant too."""
    timers = {shard: at(NOW, shard=shard) for shard in (0, 1, 7, 4095)}
    await insert(store, *timers.values())
    found = await store.due({1, 4095, 2000}, None, NOW, 10)
    assert sorted(ids.shard_of(line.id) for line in found) == [1, 4095]
    assert await store.due([], None, NOW, 10) == []


async def test_paging_within_shards(store):
    """A limit counts only the timers of the shards asked for."""
    mine = [at(NOW + place, shard=3) for place in range(4)]
    others = [at(NOW + place, shard=4) for place in range(4)]
    await insert(store, *mine, *others)
    page = await store.due(range(4), None, NOW + 9, 3)
    assert page == lines(mine[:3])
    assert await store.due(range(4), page[-1].place, NOW + 9, 3) == lines(mine[3:])


async def test_all_tenants_together(store):
    """The engine looks after every tenant."""
    timers = [at(NOW, tenant="a"), at(NOW + 1, tenant="b")]
    await insert(store, *timers)
    assert await store.due(ids.ALL_SHARDS, None, NOW + 1, 10) == lines(timers)


async def test_a_claim_is_due_when_it_ends(store):
    """An executing timer wakes when its claim runs out, so that a dead node's are found."""
    timer = at(NOW)
    await insert(store, timer)
    change = claim_of(timer)
    await store.apply([change])
    assert await store.due(ids.ALL_SHARDS, None, NOW + 29_999, 10) == []
    assert await store.due(ids.ALL_SHARDS, None, NOW + 30_000, 10) == lines([change.new])


async def test_what_never_wakes_is_never_due(store):
    """Paused, canceled and completed timers are not due."""
    timers = [at(NOW) for _ in range(3)]
    await insert(store, *timers)
    news = [model.pause(timers[0], NOW), model.cancel(timers[1], NOW), completed(timers[2])]
    await store.apply([Change(old, new) for old, new in zip(timers, news, strict=True)])
    assert await store.due(ids.ALL_SHARDS, None, NOW + 10**9, 10) == []


async def test_a_moved_timer_is_due_at_its_new_time(store):
    """A change of wake_at moves the timer in the index."""
    timer = at(NOW + 1_000)
    await insert(store, timer)
    fired = model.fire(timer, NOW)
    await store.apply([Change(timer, fired)])
    assert await store.due(ids.ALL_SHARDS, None, NOW, 10) == lines([fired])
