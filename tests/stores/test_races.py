"""Batches that meet: nobody waits for ever, and every version and every key has one winner."""

import asyncio
import random

import pytest

from duetime import ids, model
from duetime.stores import Change, Insert
from duetime.stores.opening import open_store
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
from tests.servers.kinds import DATABASES
from tests.stores.conftest import STORES

RIVALS = 8
STORM = 60.0  # seconds that the calls of one may take
# Stores that write a row at a time, or a partition, meet in the same way however many there are.
IN_BULK = [engine for engine in STORES if engine not in {"cassandra", "dynamodb"}]


def on_each(few, many):
    """Parameters: each store with a few timers, and with more than fit into one statement."""
    return pytest.mark.parametrize(
        ("store", "count"),
        [*((engine, few) for engine in STORES), *((engine, many) for engine in IN_BULK)],
        indirect=["store"],
    )


@pytest.fixture(autouse=True)
def patient_mongodb(monkeypatch):
    """Eight batches that meet keep it busy for seconds, beside all other tests for many of them.

    Who wins is what is looked at here, and not how long a call may take.
    """
    monkeypatch.setattr("duetime.stores.mongodb.store.ANSWER_WITHIN", STORM)


async def storm(*calls):
    """Start them all at once, and let none fail."""
    async with asyncio.timeout(STORM):
        return await asyncio.gather(*calls)


def change_of(timer, rival):
    """A rival's change of a timer: some move it on, and some write it anew."""
    if rival % 2:
        return claim_of(timer, f"rival-{rival}")
    return Change(
        timer,
        with_spec(timer, name=f"rival-{rival}", tags=(f"tag-{rival}", "all")),
        make_attempt(timer, node=f"rival-{rival}"),
        (make_event(timer),),
    )


@on_each(40, 1_100)
async def test_overlapping_changes_have_one_winner_each(store, count):
    """Batches in different orders, of some and of all timers: exactly one wins each version."""
    dice = random.Random(count)
    timers = [make_timer() for _ in range(count)]
    await insert(store, *timers)
    for _ in range(2):
        batches = []
        for rival in range(RIVALS):
            batch = dice.sample(timers, dice.choice([count, count // 2]))
            batches.append([change_of(timer, rival + dice.randrange(2)) for timer in batch])
        answers = await storm(*(store.apply(batch) for batch in batches))
        won = [
            change.new
            for batch, answer in zip(batches, answers, strict=True)
            for change, is_won in zip(batch, answer, strict=True)
            if is_won
        ]
        stored = await store.get([timer.id for timer in timers])
        touched = {change.old.id for batch in batches for change in batch}
        assert sorted(new.id for new in won) == sorted(touched)
        winners = {new.id: new for new in won}
        assert stored == [winners.get(timer.id, timer) for timer in timers]
        timers = [
            model.release(timer, NOW, was_sent=False)
            if timer.status.value == "executing"
            else timer
            for timer in stored
        ]
        released = [
            Change(old, new) for old, new in zip(stored, timers, strict=True) if old is not new
        ]
        assert all(await store.apply(released))


async def test_what_won_brought_its_own(store):
    """The tags and the attempt are the winner's, whoever else tried."""
    timers = [make_timer() for _ in range(50)]
    await insert(store, *timers)
    batches = [[change_of(timer, 2 * rival) for timer in timers] for rival in range(RIVALS)]
    for batch in batches[::2]:
        batch.reverse()
    await storm(*(store.apply(batch) for batch in batches))
    for timer in await store.get([timer.id for timer in timers]):
        [attempt] = await store.attempts(timer.id, None, 10)
        assert attempt.node == timer.spec.name
        assert f"tag-{timer.spec.name.removeprefix('rival-')}" in timer.spec.tags


@on_each(60, 1_500)
async def test_the_same_keys_inserted_in_different_orders(store, count):
    """Each key is stored once, and all others are shown the one that has it."""
    keys = [f"key-{number}" for number in range(count)]
    batches = []
    for rival in range(RIVALS):
        random.Random(rival).shuffle(keys)
        batches.append([make_timer(timer_id=key) for key in keys])
    answers = await storm(*(store.insert([Insert(timer) for timer in batch]) for batch in batches))
    winners = {
        timer.timer_id: timer
        for batch, answer in zip(batches, answers, strict=True)
        for timer, taken in zip(batch, answer, strict=True)
        if taken is None
    }
    assert set(winners) == set(keys)
    assert sum(answer.count(None) for answer in answers) == count
    for batch, answer in zip(batches, answers, strict=True):
        for timer, taken in zip(batch, answer, strict=True):
            assert (taken or timer) == winners[timer.timer_id]


async def test_purging_beside_replacing(store):
    """A finished timer is either dropped whole, or replaced and kept whole."""
    timers = [make_timer() for _ in range(300)]
    await insert(store, *timers)
    ended = [completed(timer) for timer in timers]
    assert all(await store.apply([claim_of(timer) for timer in timers]))
    assert all(
        await store.apply(
            [
                Change(claimed(old), new, make_attempt(claimed(old)))
                for old, new in zip(timers, ended, strict=True)
            ]
        )
    )
    spec = make_spec(tags=("kept",))
    anew = [
        model.replace(timer, NOW + 5, spec=spec, execute_at=NOW + 9, fingerprint=None)
        for timer in ended
    ]
    changes = [Change(old, new) for old, new in zip(ended, anew, strict=True)]
    results = await storm(
        *(store.purge(ids.ALL_SHARDS, NOW + 1, 60) for _ in range(4)),
        *(store.apply(changes[start::4]) for start in range(4)),
        *(store.purge(ids.ALL_SHARDS, NOW + 1, 60) for _ in range(4)),
    )
    dropped = sum(result for result in results if isinstance(result, int))
    won = [
        place + 4 * step
        for place in range(4)
        for step, is_won in enumerate(results[4 + place])
        if is_won
    ]
    assert dropped + len(won) == len(timers)
    stored = await store.get([timer.id for timer in timers])
    expected = [anew[place] if place in set(won) else None for place in range(len(timers))]
    assert stored == expected
    logs = [await store.attempts(timer.id, None, 10) for timer in timers]
    assert [bool(log) for log in logs] == [timer is not None for timer in stored]


@pytest.mark.parametrize("engine", DATABASES)
async def test_ten_that_start_at_once_make_the_tables_once(engine, fresh_database):
    """Of ten nodes that find an empty database, each works afterwards."""
    url = await fresh_database(engine)
    stores = [open_store(url) for _ in range(10)]
    await storm(*(store.migrate() for store in stores))
    timer = make_timer()
    await insert(stores[0], timer)
    assert [await store.get([timer.id]) for store in stores] == [[timer]] * 10
    for store in stores:
        await store.close()
