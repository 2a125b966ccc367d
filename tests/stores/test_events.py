"""The outbox: what has happened and was not told yet."""

import pytest

from duetime import ids, model
from duetime.outbox import Outbox
from duetime.stores import Change, Insert
from duetime.timer import Kind, Outcome
from tests.factories import NODE, NOW, claim_of, insert, make_event, make_timer

pytestmark = pytest.mark.promise("one-contract")


async def tell(store, *events_of):
    """Insert timers with their events."""
    assert await store.insert([Insert(timer, events) for timer, events in events_of]) == [
        None for _ in events_of
    ]


async def test_events_come_by_id(store):
    """Events are told in the order of their ids, and a page goes on behind the last."""
    timers = [make_timer() for _ in range(4)]
    events = [make_event(timer, at=NOW + place) for place, timer in enumerate(timers)]
    shuffled = [2, 0, 3, 1]
    await tell(store, *((timers[place], (events[place],)) for place in shuffled))
    assert await store.events(ids.ALL_SHARDS, None, 9) == events
    assert await store.events(ids.ALL_SHARDS, None, 2) == events[:2]
    assert await store.events(ids.ALL_SHARDS, events[1].id, 9) == events[2:]


async def test_every_field_of_an_event_comes_back(store):
    """What is read equals what was written, also the data."""
    timer = make_timer()
    data = {"error": '"é"]', "count": 3, "nested": {"list": [1, None, True, 1.5]}}
    event = make_event(timer, type="timer.failed", version=4, data=data)
    await tell(store, (timer, (event,)))
    assert await store.events(ids.ALL_SHARDS, None, 9) == [event]


async def test_events_of_the_shards_asked_for(store):
    """Events of other shards are somebody else's to tell."""
    timers = [make_timer(shard=shard) for shard in (1, 2, 3)]
    events = [make_event(timer, at=NOW + place) for place, timer in enumerate(timers)]
    await tell(store, *((timer, (event,)) for timer, event in zip(timers, events, strict=True)))
    assert await store.events({1, 3}, None, 9) == [events[0], events[2]]
    assert await store.events({1, 3}, None, 1) == [events[0]]
    assert await store.events([], None, 9) == []


async def test_published_events_are_forgotten(store):
    """An event that was told is not told again; unknown ids are ignored."""
    timer = make_timer()
    events = tuple(make_event(timer, at=NOW + place) for place in range(3))
    await tell(store, (timer, events))
    await store.published([events[0].id, events[2].id, "unknown", events[1].id[:-1], ""])
    assert await store.events(ids.ALL_SHARDS, None, 9) == [events[1]]
    await store.published([events[0].id])
    await store.published([])
    assert await store.events(ids.ALL_SHARDS, None, 9) == [events[1]]


async def test_many_events_are_published_at_once(store):
    """Thousands are told and forgotten in one call."""
    timers = [make_timer() for _ in range(50)]
    events = [make_event(timers[place // 50], at=NOW + place) for place in range(2_500)]
    told = [(timer, tuple(events[50 * n : 50 * n + 50])) for n, timer in enumerate(timers)]
    await tell(store, *told)
    assert await store.events(ids.ALL_SHARDS, None, 9_999) == events
    await store.published([event.id for event in events])
    assert await store.events(ids.ALL_SHARDS, None, 9_999) == []


@pytest.mark.promise("events-complete")
async def test_a_large_batch_tells_of_each_change(store):
    """Hundreds of changes with two events each, one of which loses: the others are told whole."""
    outbox = Outbox(store)
    timers = [make_timer() for _ in range(500)]
    await insert(outbox, *timers)
    [canceled] = await store.apply([Change(timers[7], model.cancel(timers[7], NOW))])
    assert canceled
    claims = [claim_of(timer) for timer in timers]
    won = await outbox.apply(claims)
    assert won == [place != 7 for place in range(500)]
    ok = Outcome(kind=Kind.OK, status_code=200)
    ended = [
        Change(claim.new, model.finish(claim.new, ok, NOW + 1, 0.5))
        for claim, is_ours in zip(claims, won, strict=True)
        if is_ours
    ]
    assert all(await outbox.apply(ended))
    told: dict[str, list[tuple[int, str]]] = {}
    for event in await store.events(ids.ALL_SHARDS, None, 9_999):
        told.setdefault(event.timer, []).append((event.version, event.type))
    whole = [(1, "created"), (2, "due"), (2, "attempt_started"), (3, "completed")]
    assert told.pop(timers[7].id) == whole[:1]
    assert len(told) == 499
    assert all(events == whole for events in told.values())


@pytest.mark.promise("events-complete")
async def test_changes_of_one_timer_in_one_batch_are_told_in_order(store):
    """Each takes effect after the one before it, and what loses is not told."""
    outbox = Outbox(store)
    timer = make_timer()
    await insert(outbox, timer)
    paused = model.pause(timer, NOW)
    resumed = model.resume(paused, NOW)
    claimed = model.claim(resumed, NODE, NOW, 10_000)
    canceled = model.cancel(resumed, NOW)
    changes = [
        Change(timer, paused),
        Change(paused, resumed),
        Change(resumed, claimed),
        Change(resumed, canceled),
    ]
    assert await outbox.apply(changes) == [True, True, True, False]
    assert [event.type for event in await store.events(ids.ALL_SHARDS, None, 9)] == [
        "created",
        "paused",
        "resumed",
        "due",
        "attempt_started",
    ]
