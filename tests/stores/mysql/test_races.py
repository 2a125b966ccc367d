"""Batches that meet in MySQL: nobody waits for ever, and every version has one winner."""

import asyncio
import random

import pytest

from duetime import ids, model
from duetime.errors import StoreUnavailable
from duetime.stores import Change, Insert
from duetime.stores.mysql import statements
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
from tests.servers.mysql import rows as ask_rows
from tests.servers.mysql import session
from tests.stores.mysql.conftest import hold, until_waiting

RIVALS = 8


async def storm(*calls):
    """Start them all at once, and let none fail."""
    async with asyncio.timeout(60):
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


@pytest.mark.parametrize("count", [40, 1_100])
async def test_overlapping_changes_have_one_winner_each(mysql, count):
    """Batches in different orders, of some and of all timers: exactly one wins each version."""
    dice = random.Random(count)
    timers = [make_timer() for _ in range(count)]
    await insert(mysql, *timers)
    for _ in range(2):
        batches = []
        for rival in range(RIVALS):
            batch = dice.sample(timers, dice.choice([count, count // 2]))
            batches.append([change_of(timer, rival + dice.randrange(2)) for timer in batch])
        answers = await storm(*(mysql.apply(batch) for batch in batches))
        won = [
            change.new
            for batch, answer in zip(batches, answers, strict=True)
            for change, is_won in zip(batch, answer, strict=True)
            if is_won
        ]
        stored = await mysql.get([timer.id for timer in timers])
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
        assert all(await mysql.apply(released))


async def test_what_won_brought_its_own(mysql):
    """The tags and the attempt are the winner's, whoever else tried."""
    timers = [make_timer() for _ in range(50)]
    await insert(mysql, *timers)
    batches = [[change_of(timer, 2 * rival) for timer in timers] for rival in range(RIVALS)]
    for batch in batches[::2]:
        batch.reverse()
    await storm(*(mysql.apply(batch) for batch in batches))
    for timer in await mysql.get([timer.id for timer in timers]):
        [attempt] = await mysql.attempts(timer.id, None, 10)
        assert attempt.node == timer.spec.name
        assert f"tag-{timer.spec.name.removeprefix('rival-')}" in timer.spec.tags


async def test_a_key_that_is_taken_while_the_rest_of_its_batch_is_looked_at(mysql, somebody):
    """Whoever committed it first has it, and is the answer."""
    taken, rival, late = (
        make_timer(timer_id="a"),
        make_timer(timer_id="b"),
        make_timer(timer_id="b"),
    )
    await insert(mysql, taken)
    id_ = f"x'{rival.id.replace('-', '')}'"
    await somebody("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")  # no locks on gaps
    await somebody("BEGIN")
    for table, columns in (("timers", statements.TIMER), ("states", statements.STATE)):
        copied = ", ".join({"id": id_, "timer_id": "'b'"}.get(name, name) for name in columns)
        await somebody(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {copied} FROM {table}")
    write = asyncio.create_task(mysql.insert([Insert(make_timer(timer_id="a")), Insert(late)]))
    await until_waiting(somebody, 1)
    await somebody("COMMIT")
    first, second = await write
    assert first == taken
    assert second is not None
    assert second.id == rival.id
    assert await mysql.get([late.id]) == [None]


@pytest.mark.parametrize("count", [60, 1_500])
async def test_the_same_keys_inserted_in_different_orders(mysql, count):
    """Each key is stored once, and all others are shown the one that has it."""
    keys = [f"key-{number}" for number in range(count)]
    batches = []
    for rival in range(RIVALS):
        random.Random(rival).shuffle(keys)
        batches.append([make_timer(timer_id=key) for key in keys])
    answers = await storm(*(mysql.insert([Insert(timer) for timer in batch]) for batch in batches))
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


async def test_purging_beside_replacing(mysql):
    """A finished timer is either dropped whole, or replaced and kept whole."""
    timers = [make_timer() for _ in range(300)]
    await insert(mysql, *timers)
    ended = [completed(timer) for timer in timers]
    assert all(await mysql.apply([claim_of(timer) for timer in timers]))
    assert all(
        await mysql.apply(
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
        *(mysql.purge(ids.ALL_SHARDS, NOW + 1, 60) for _ in range(4)),
        *(mysql.apply(changes[start::4]) for start in range(4)),
        *(mysql.purge(ids.ALL_SHARDS, NOW + 1, 60) for _ in range(4)),
    )
    dropped = sum(result for result in results if isinstance(result, int))
    won = [
        place + 4 * step
        for place in range(4)
        for step, is_won in enumerate(results[4 + place])
        if is_won
    ]
    assert dropped + len(won) == len(timers)
    stored = await mysql.get([timer.id for timer in timers])
    expected = [anew[place] if place in set(won) else None for place in range(len(timers))]
    assert stored == expected
    logs = [await mysql.attempts(timer.id, None, 10) for timer in timers]
    assert [bool(log) for log in logs] == [timer is not None for timer in stored]


async def test_purging_leaves_what_somebody_is_changing(mysql, somebody):
    """A timer that is just being replaced is not waited for, and not dropped."""
    timers = [make_timer() for _ in range(3)]
    await insert(mysql, *timers)
    await mysql.apply([Change(timer, completed(timer)) for timer in timers])
    await hold(somebody, timers[0])
    async with asyncio.timeout(3):
        assert await mysql.purge(ids.ALL_SHARDS, NOW + 1, 10) == 2
    await somebody("COMMIT")
    assert await mysql.purge(ids.ALL_SHARDS, NOW + 1, 10) == 1


@pytest.mark.parametrize("sizes", [(2, 3), (100, 1_000)])
async def test_batches_of_any_size_take_their_rows_in_one_order(mysql, mysql_url, somebody, sizes):
    """However the server finds the rows: of two batches, one waits for the other."""
    timers = [make_timer(shard=shard) for shard in range(max(sizes))]
    await insert(mysql, *timers)
    pair, others = [timers[0], timers[-1]], timers[1:-1]
    async with session(mysql_url) as connection, asyncio.TaskGroup() as group:

        async def other(statement):
            return await ask_rows(connection, statement)

        await hold(somebody, pair[0])
        await hold(other, pair[1])
        calls = [
            group.create_task(
                mysql.apply([claim_of(timer) for timer in (*pair, *others[: size - 2])])
            )
            for size in sizes
        ]
        # Whoever waits for the one row gets it, and then has to wait for the other.
        for ask in (somebody, other):
            await until_waiting(somebody, len(calls))
            await ask("COMMIT")
    won = [sum(call.result()[:2]) for call in calls]
    assert sorted(won) == [0, 2]


async def test_two_that_wait_for_each_other_both_succeed(mysql, somebody):
    """The server rolls one of them back, and the store begins it again."""
    timers = [make_timer(shard=shard) for shard in range(2)]
    await insert(mysql, *timers)
    first, second = sorted(timers, key=lambda timer: timer.id)
    await hold(somebody, second)
    # It has done more, so that the other one is the one to be rolled back.
    await somebody(
        "INSERT INTO records SELECT 'k', 100 * a.n + b.n, 1, 1, '' FROM "
        "(SELECT 2 n UNION SELECT 3 UNION SELECT 4) a, (SELECT 1 n UNION SELECT 2) b"
    )
    call = asyncio.ensure_future(mysql.apply([claim_of(timer) for timer in timers]))
    await until_waiting(somebody, 1)
    await somebody(f"SELECT 1 FROM states WHERE id = x'{first.id.replace('-', '')}' FOR UPDATE")
    await somebody("COMMIT")
    assert await asyncio.wait_for(call, 20) == [True, True]


@pytest.mark.slow
async def test_what_is_locked_for_too_long_is_given_up(mysql, mysql_url, somebody):
    """The caller hears of it in bounded time, nothing was written, and the session is good."""
    timer = make_timer()
    await insert(mysql, timer)
    await hold(somebody, timer)
    with pytest.raises(StoreUnavailable, match="held a lock for too long"):
        await mysql.apply([claim_of(timer)])
    await somebody("COMMIT")
    assert await mysql.get([timer.id]) == [timer]
    assert await mysql.apply([claim_of(timer)]) == [True]


async def test_ten_that_start_at_once_make_the_tables_once(mysql_url):
    """And all of them work afterwards."""
    stores = [open_store(mysql_url) for _ in range(10)]
    await storm(*(store.migrate() for store in stores))
    timer = make_timer()
    await insert(stores[0], timer)
    assert [await store.get([timer.id]) for store in stores] == [[timer]] * 10
    for store in stores:
        await store.close()
