"""Two nodes on one MongoDB: each timer is won once, and events are told once."""

import asyncio

import pytest

from duetime import ids
from duetime.stores import Change, Insert
from duetime.stores.mongodb.address import Address
from duetime.stores.mongodb.store import MongodbStore
from tests.factories import claim_of, claimed, insert, make_attempt, make_event, make_timer


@pytest.fixture
async def rivals(url):
    """Two nodes."""
    stores = [MongodbStore(Address.parse(url)) for _ in range(2)]
    await asyncio.gather(*(store.migrate() for store in stores))
    yield stores
    for store in stores:
        await store.close()


async def test_each_timer_is_won_once(rivals):
    """Batches of two nodes that overlap share the timers out, with their attempts."""
    timers = [make_timer() for _ in range(200)]
    await insert(rivals[0], *timers)
    answers = await asyncio.gather(
        *(
            store.apply(
                [
                    Change(
                        timer,
                        claimed(timer, f"node-{number}"),
                        make_attempt(timer, node=f"node-{number}"),
                    )
                    for timer in timers[:: 1 if number else -1]
                ]
            )
            for number, store in enumerate(rivals)
        )
    )
    assert [one + two for one, two in zip(answers[0][::-1], answers[1], strict=True)] == [1] * 200
    for timer in timers[:20]:
        [stored] = await rivals[0].get([timer.id])
        [attempt] = await rivals[1].attempts(timer.id, None, 9)
        assert stored.progress.claimed_by == attempt.node


async def test_changes_that_tell_of_events_are_won_once(rivals):
    """Two transactions that meet do not both write, and neither gives up."""
    timers = [make_timer() for _ in range(20)]
    await insert(rivals[0], *timers)
    batches = [
        [
            Change(timer, claimed(timer, f"n{number}"), events=(make_event(timer),))
            for timer in timers
        ]
        for number in range(4)
    ]
    answers = await asyncio.gather(
        *(rivals[number % 2].apply(batch) for number, batch in enumerate(batches))
    )
    assert [sum(wins) for wins in zip(*answers, strict=True)] == [1] * 20
    assert len(await rivals[0].events(ids.ALL_SHARDS, None, 99)) == 20


async def test_inserts_that_tell_of_events_are_stored_once(rivals):
    """The events are those of the one that was stored."""
    firsts = [make_timer(timer_id=f"same-{number}") for number in range(10)]
    seconds = [make_timer(timer_id=timer.timer_id) for timer in firsts]
    answers = await asyncio.gather(
        *(
            store.insert([Insert(timer, (make_event(timer),)) for timer in timers])
            for store, timers in zip(rivals, (firsts, seconds), strict=True)
        )
    )
    for pair, taken in zip(
        zip(firsts, seconds, strict=True), zip(*answers, strict=True), strict=True
    ):
        assert [owner is None for owner in taken].count(True) == 1
        assert next(owner for owner in taken if owner) in pair
    told = await rivals[0].events(ids.ALL_SHARDS, None, 99)
    stored = await rivals[0].get([event.timer for event in told])
    assert len(told) == 10
    assert None not in stored


async def test_a_purge_leaves_what_was_begun_anew(rivals):
    """A claim and a purge at once: whatever comes first, nothing is half there."""
    timer = make_timer()
    await insert(rivals[0], timer)
    await asyncio.gather(
        rivals[0].apply([claim_of(timer)]), rivals[1].purge(ids.ALL_SHARDS, 2**53, 10)
    )
    assert await rivals[1].get([timer.id]) == [claimed(timer)]


async def test_each_timer_is_removed_or_claimed_once(rivals):
    """Two who remove the same timers, and one who claims them batch by batch, share them out."""
    timers = [make_timer() for _ in range(200)]
    await insert(rivals[0], *timers)

    async def claim():
        won = []
        for start in range(0, len(timers), 20):
            won += await rivals[1].apply([claim_of(each) for each in timers[start : start + 20]])
        return won

    answers = await asyncio.gather(*(store.remove(timers) for store in rivals), claim())
    assert [sum(wins) for wins in zip(*answers, strict=True)] == [1] * 200
    kept = [claimed(timer) if won else None for timer, won in zip(timers, answers[2], strict=True)]
    assert await rivals[0].get([timer.id for timer in timers]) == kept
