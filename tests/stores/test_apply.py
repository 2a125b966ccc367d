"""Comparing and setting: every race is decided here."""

import asyncio
import itertools
from itertools import pairwise

import pytest
from msgspec import Raw
from msgspec.structs import replace

from duetime import ids, model
from duetime.stores import Change, Query
from duetime.timer import HttpCallback, Status
from tests.factories import (
    NOW,
    claim_of,
    claimed,
    completed,
    insert,
    make_attempt,
    make_event,
    make_spec,
    make_timer,
    with_spec,
)

pytestmark = pytest.mark.promise("one-contract")


async def test_a_change_of_the_newest_version_is_written(store):
    """A change whose old version is the stored one wins."""
    timer = make_timer()
    await insert(store, timer)
    change = claim_of(timer)
    assert await store.apply([change]) == [True]
    assert await store.get([timer.id]) == [change.new]


async def test_a_change_of_an_older_version_is_not_written(store):
    """A change that was made from a stale read loses and leaves the row as it is."""
    timer = make_timer()
    await insert(store, timer)
    first, second = claim_of(timer, "one"), claim_of(timer, "two")
    assert await store.apply([first]) == [True]
    assert await store.apply([second]) == [False]
    assert await store.get([timer.id]) == [first.new]


async def test_a_version_that_is_ahead_loses_too(store):
    """Only the very version that was read counts, not a higher one."""
    timer = make_timer()
    await insert(store, timer)
    ahead = claimed(timer)
    assert await store.apply([Change(ahead, completed(timer))]) == [False]


async def test_a_version_that_is_ahead_loses_whatever_it_brings(store, subtests):
    """Neither new content nor events make it win, and nothing of it is written."""
    for has_spec, has_events in itertools.product((True, False), repeat=2):
        with subtests.test(has_spec=has_spec, has_events=has_events):
            timer = make_timer()
            await insert(store, timer)
            ahead = claimed(timer)
            new = with_spec(ahead, name="new") if has_spec else completed(timer)
            events = (make_event(new),) if has_events else ()
            assert await store.apply([Change(ahead, new, make_attempt(ahead), events)]) == [False]
            assert await store.get([timer.id]) == [timer]
            assert await store.attempts(timer.id, None, 10) == []
            assert await store.events(ids.ALL_SHARDS, None, 10) == []


async def test_a_timer_that_is_gone_loses(store):
    """A change of a timer that is not stored loses and stores nothing."""
    timer = make_timer()
    assert await store.apply([claim_of(timer)]) == [False]
    assert await store.get([timer.id]) == [None]


async def test_losers_do_not_stop_winners(store):
    """Each change of a batch is decided alone: stale, gone and fresh ones side by side."""
    stale, fresh, gone, other = (make_timer() for _ in range(4))
    await insert(store, stale, fresh, other)
    await store.apply([claim_of(stale)])
    batch = [claim_of(timer, "late") for timer in (stale, fresh, gone, other)]
    assert await store.apply(batch) == [False, True, False, True]
    (was_stale, was_fresh, was_gone, was_other) = await store.get(
        [timer.id for timer in (stale, fresh, gone, other)]
    )
    assert was_stale == claimed(stale)
    assert was_fresh == batch[1].new
    assert was_gone is None
    assert was_other == batch[3].new


async def test_a_gone_one_alone_does_not_stop_winners(store):
    """A timer that was dropped meanwhile loses; the rest of its batch is written."""
    gone, fresh = make_timer(), make_timer()
    await insert(store, fresh)
    event = make_event(gone)
    batch = [
        Change(gone, claimed(gone), make_attempt(gone), (event,)),
        Change(fresh, claimed(fresh), make_attempt(fresh)),
    ]
    assert await store.apply(batch) == [False, True]
    assert await store.attempts(gone.id, None, 10) == []
    assert await store.attempts(fresh.id, None, 10) == [make_attempt(fresh)]
    assert await store.events(ids.ALL_SHARDS, None, 10) == []


async def test_one_timer_twice_in_a_batch_in_order(store):
    """Two changes of one timer take effect in the order given."""
    timer, other = make_timer(), make_timer()
    await insert(store, timer, other)
    first = claim_of(timer)
    second = Change(first.new, completed(timer), make_attempt(first.new))
    assert await store.apply([first, claim_of(other), second]) == [True, True, True]
    assert await store.get([timer.id, other.id]) == [second.new, claimed(other)]
    assert await store.attempts(timer.id, None, 10) == [make_attempt(first.new)]


async def test_one_timer_many_times_in_a_batch_in_order(store):
    """However many changes of one timer there are, each finds what the one before it left."""
    timer = make_timer()
    await insert(store, timer)
    versions = [timer]
    for number in range(4):
        versions.append(with_spec(versions[-1], name=f"{number}"))
    changes = [Change(old, new) for old, new in pairwise(versions)]
    assert await store.apply(changes) == [True] * 4
    assert await store.get([timer.id]) == versions[-1:]


async def test_one_timer_twice_from_the_same_version(store):
    """Of two changes of one version in a batch, the first wins."""
    timer = make_timer()
    await insert(store, timer)
    first, second = claim_of(timer, "one"), claim_of(timer, "two")
    assert await store.apply([first, second]) == [True, False]
    assert await store.get([timer.id]) == [first.new]


async def test_the_order_of_two_changes_is_not_guessed(store):
    """A change that would only win after a later one of its batch loses."""
    timer = make_timer()
    await insert(store, timer)
    first = claim_of(timer)
    second = Change(first.new, completed(timer))
    assert await store.apply([second, first]) == [False, True]
    assert await store.get([timer.id]) == [first.new]


async def test_of_many_concurrent_changes_one_wins(store):
    """Many nodes claim one timer at once: exactly one of them gets it."""
    timer = make_timer()
    await insert(store, timer)
    rivals = [claim_of(timer, f"node-{number}") for number in range(50)]
    answers = await asyncio.gather(*(store.apply([rival]) for rival in rivals))
    winners = [rival.new for rival, (won,) in zip(rivals, answers, strict=True) if won]
    assert len(winners) == 1
    assert await store.get([timer.id]) == winners


async def test_rival_batches_share_out_the_timers(store):
    """Batches that overlap never both win a timer, and every timer is won by one."""
    timers = [make_timer() for _ in range(40)]
    await insert(store, *timers)
    batches = [[claim_of(timer, f"node-{number}") for timer in timers] for number in range(5)]
    answers = await asyncio.gather(*(store.apply(batch) for batch in batches))
    assert [sum(wins) for wins in zip(*answers, strict=True)] == [1] * 40


async def test_a_large_batch_is_applied(store):
    """A batch of 2,500 is decided one by one and answered in order."""
    timers = [make_timer() for _ in range(2_500)]
    await insert(store, *timers)
    early = {0, 700, 1_023, 2_499}
    await store.apply([claim_of(timers[place], "early") for place in early])
    answers = await store.apply([claim_of(timer, "late") for timer in timers])
    assert [place for place, won in enumerate(answers) if not won] == sorted(early)
    assert await store.get([timer.id for timer in timers]) == [
        claimed(timer, "early" if place in early else "late") for place, timer in enumerate(timers)
    ]


async def test_attempt_and_events_are_written_with_the_row(store):
    """A change that wins writes its attempt and its events."""
    timer = make_timer()
    await insert(store, timer)
    events = (make_event(timer, at=NOW), make_event(timer, at=NOW + 1, type="timer.fired"))
    assert await store.apply([Change(timer, claimed(timer), make_attempt(timer), events)]) == [True]
    assert await store.attempts(timer.id, None, 10) == [make_attempt(timer)]
    assert await store.events(ids.ALL_SHARDS, None, 10) == list(events)


async def test_a_losing_change_writes_nothing(store):
    """A change that loses leaves no attempt and no event behind."""
    timer = make_timer()
    await insert(store, timer)
    await store.apply([claim_of(timer)])
    late = Change(timer, claimed(timer, "late"), make_attempt(timer), (make_event(timer),))
    assert await store.apply([late]) == [False]
    assert await store.attempts(timer.id, None, 10) == []
    assert await store.events(ids.ALL_SHARDS, None, 10) == []


async def test_a_losing_change_is_found_by_nothing_that_it_asked_for(store):
    """The timer is found as it is, and not by the tags and the name of a change that lost."""
    timer = make_timer(spec=make_spec(name="old", tags=("old",)))
    await insert(store, timer)
    claim = claim_of(timer)
    await store.apply([claim])
    late = with_spec(timer, name="late", tags=("late",))
    assert await store.apply([Change(timer, late)]) == [False]
    for wanted, found in (("late", []), ("old", [claim.new])):
        for query in (
            Query(tenant="default", tag=wanted),
            Query(tenant="default", name_prefix=wanted),
        ):
            assert (await store.search(query)).timers == found


async def test_nothing_to_apply_is_fine(store):
    """An empty batch has an empty answer."""
    assert await store.apply([]) == []


async def test_another_spec_is_written(store):
    """Where the user changed what was asked for, all of it is replaced."""
    timer = make_timer(spec=make_spec(name="old", tags=("a", "b"), correlation_id="old"))
    await insert(store, timer)
    spec = make_spec(
        callback=HttpCallback(url="https://example.com/new", payload=Raw(b"[ 1 ]")),
        name="new",
        tags=("b", "c"),
        correlation_id="new",
    )
    new = model.replace(timer, NOW + 1, spec=spec, execute_at=NOW + 9, fingerprint="new")
    assert await store.apply([Change(timer, new)]) == [True]
    assert await store.get([timer.id]) == [new]
    for found in (
        Query(tenant="default", tag="b"),
        Query(tenant="default", tag="c"),
        Query(tenant="default", name_prefix="new"),
        Query(tenant="default", correlation_id="new"),
        Query(tenant="default", execute_before=NOW + 10),
    ):
        assert (await store.search(found)).timers == [new]
    for lost in (
        Query(tenant="default", tag="a"),
        Query(tenant="default", name_prefix="old"),
        Query(tenant="default", correlation_id="old"),
    ):
        assert (await store.search(lost)).timers == []


CHANGES = {
    "content": lambda timer: with_spec(timer, name=None, tags=()),
    "fire": lambda timer: model.fire(timer, NOW + 1),
    "pause": lambda timer: model.pause(timer, NOW + 1),
    "cancel": lambda timer: model.cancel(timer, NOW + 1),
    "expire": lambda timer: model.expire(timer, NOW + 1),
    "fingerprint": lambda timer: replace(timer, version=9, fingerprint="other"),
    "times": lambda timer: replace(timer, version=9, executed_at=NOW, execute_at=NOW - 1),
    "completed": lambda timer: completed(timer, NOW + 1),
}


async def test_whatever_changed_is_read_back(store, subtests):
    """The stored row is the new timer, whichever of its fields changed."""
    for name, change in CHANGES.items():
        with subtests.test(name):
            timer = make_timer(fingerprint="one", spec=make_spec(name="n", tags=("t",)))
            await insert(store, timer)
            new = change(timer)
            assert await store.apply([Change(timer, new)]) == [True]
            assert await store.get([timer.id]) == [new]


async def test_changes_of_different_kinds_share_a_batch(store):
    """Claims, reschedules and rewrites in one batch are all written, each in its place."""
    timers = [make_timer() for _ in range(6)]
    await insert(store, *timers)
    late = claim_of(timers[4])
    await store.apply([late])
    news = [
        claimed(timers[0]),
        model.fire(timers[1], NOW + 1),
        with_spec(timers[2], name="new"),
        claimed(timers[3]),
        with_spec(timers[4], name="too late"),
        model.cancel(timers[5], NOW),
    ]
    changes = [Change(old, new) for old, new in zip(timers, news, strict=True)]
    assert await store.apply(changes) == [True, True, True, True, False, True]
    news[4] = late.new
    assert await store.get([timer.id for timer in timers]) == news
    assert (await store.get([timers[5].id]))[0].status is Status.CANCELED
