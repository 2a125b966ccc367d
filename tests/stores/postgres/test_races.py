"""Batches that meet in PostgreSQL: nobody waits for ever, and every version has one winner."""

import asyncio
import random
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from duetime import ids, model
from duetime.errors import StoreUnavailable
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
from tests.stores.conftest import somebody, until_waiting

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
async def test_overlapping_changes_have_one_winner_each(postgres, count):
    """Batches in different orders, of some and of all timers: exactly one wins each version."""
    dice = random.Random(count)
    timers = [make_timer() for _ in range(count)]
    await insert(postgres, *timers)
    for _ in range(2):
        batches = []
        for rival in range(RIVALS):
            batch = dice.sample(timers, dice.choice([count, count // 2]))
            batches.append([change_of(timer, rival + dice.randrange(2)) for timer in batch])
        answers = await storm(*(postgres.apply(batch) for batch in batches))
        won = [
            change.new
            for batch, answer in zip(batches, answers, strict=True)
            for change, is_won in zip(batch, answer, strict=True)
            if is_won
        ]
        stored = await postgres.get([timer.id for timer in timers])
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
        assert all(await postgres.apply(released))


@pytest.mark.parametrize("sizes", [(2, 3), (100, 1_000), (1_000, 1_000)])
async def test_batches_of_any_size_take_their_rows_in_one_order(
    postgres, postgres_url, session, sizes
):
    """However the server finds the rows: of two batches, one waits for the other."""
    count = max(sizes)
    timers = [make_timer(shard=shard) for shard in range(count)]
    await insert(postgres, timers[-1])  # so it lies first, though its id is the last
    await insert(postgres, *timers[:-1])
    await session.execute("ANALYZE states")
    pair, others = [timers[0], timers[-1]], timers[1:-1]
    async with somebody(postgres_url) as other, asyncio.TaskGroup() as group:
        transactions = [
            await hold(each, timer) for each, timer in zip((session, other), pair, strict=True)
        ]
        calls = [
            group.create_task(
                postgres.apply([claim_of(timer) for timer in (*pair, *others[: size - 2])])
            )
            for size in sizes
        ]
        # Whoever waits for the one row gets it, and then has to wait for the other.
        for transaction in transactions:
            await until_waiting(session, len(calls))
            await transaction.commit()
    won = [sum(call.result()[:2]) for call in calls]
    assert sorted(won) == [0, 2]


async def hold(session, timer):
    """Lock a timer's state, until the transaction that is returned ends."""
    transaction = session.transaction()
    await transaction.start()
    await session.execute("SELECT FROM states WHERE id = $1 FOR UPDATE", timer.id)
    return transaction


async def test_what_won_brought_its_own(postgres):
    """The tags and the attempt are the winner's, whoever else tried."""
    timers = [make_timer() for _ in range(50)]
    await insert(postgres, *timers)
    batches = [[change_of(timer, 2 * rival) for timer in timers] for rival in range(RIVALS)]
    for batch in batches[::2]:
        batch.reverse()
    await storm(*(postgres.apply(batch) for batch in batches))
    for timer in await postgres.get([timer.id for timer in timers]):
        [attempt] = await postgres.attempts(timer.id, None, 10)
        assert attempt.node == timer.spec.name
        assert f"tag-{timer.spec.name.removeprefix('rival-')}" in timer.spec.tags


@pytest.mark.parametrize("count", [60, 1_500])
async def test_the_same_keys_inserted_in_different_orders(postgres, count):
    """Each key is stored once, and all others are shown the one that has it."""
    keys = [f"key-{number}" for number in range(count)]
    batches = []
    for rival in range(RIVALS):
        random.Random(rival).shuffle(keys)
        batches.append([make_timer(timer_id=key) for key in keys])
    answers = await storm(
        *(postgres.insert([Insert(timer) for timer in batch]) for batch in batches)
    )
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


async def test_purging_beside_replacing(postgres):
    """A finished timer is either dropped whole, or replaced and kept whole."""
    timers = [make_timer() for _ in range(300)]
    await insert(postgres, *timers)
    ended = [completed(timer) for timer in timers]
    assert all(await postgres.apply([claim_of(timer) for timer in timers]))
    assert all(
        await postgres.apply(
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
        *(postgres.purge(ids.ALL_SHARDS, NOW + 1, 60) for _ in range(4)),
        *(postgres.apply(changes[start::4]) for start in range(4)),
        *(postgres.purge(ids.ALL_SHARDS, NOW + 1, 60) for _ in range(4)),
    )
    dropped = sum(result for result in results if isinstance(result, int))
    won = [
        place + 4 * step
        for place in range(4)
        for step, is_won in enumerate(results[4 + place])
        if is_won
    ]
    assert dropped + len(won) == len(timers)
    stored = await postgres.get([timer.id for timer in timers])
    expected = [anew[place] if place in set(won) else None for place in range(len(timers))]
    assert stored == expected
    logs = [await postgres.attempts(timer.id, None, 10) for timer in timers]
    assert [bool(log) for log in logs] == [timer is not None for timer in stored]


async def test_purging_leaves_what_somebody_is_changing(postgres, session):
    """A timer that is just being replaced is not waited for, and not dropped."""
    timers = [make_timer() for _ in range(3)]
    await insert(postgres, *timers)
    await postgres.apply([Change(timer, completed(timer)) for timer in timers])
    transaction = session.transaction()
    await transaction.start()
    await session.execute("UPDATE states SET status = 'pending' WHERE id = $1", timers[0].id)
    async with asyncio.timeout(3):
        assert await postgres.purge(ids.ALL_SHARDS, NOW + 1, 10) == 2
    await transaction.commit()
    assert await postgres.purge(ids.ALL_SHARDS, NOW + 1, 10) == 0
    [kept] = await postgres.get([timers[0].id])
    assert kept.status is model.Status.PENDING


class Line:
    """The way to a server; once it is ``deaf``, an answer that arrives cuts it instead."""

    def __init__(self, url):
        self._url = urlsplit(url)
        self._tasks = set()
        self.is_deaf = False

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        user = self._url.netloc.rpartition("@")[0]
        self.url = self._url._replace(netloc=f"{user}@127.0.0.1:{port}").geturl()
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        with closing(writer):
            there, back = await asyncio.open_connection(self._url.hostname, self._url.port)
            with closing(back):
                try:
                    async with asyncio.TaskGroup() as group:
                        group.create_task(self._carry(reader, back, is_answer=False))
                        group.create_task(self._carry(there, writer, is_answer=True))
                except* OSError:
                    pass

    async def _carry(self, reader, writer, *, is_answer):
        while data := await reader.read(65_536):
            if is_answer and self.is_deaf:
                raise ConnectionResetError
            writer.write(data)
            await writer.drain()
        writer.close()


async def test_a_commit_whose_answer_is_lost(postgres_url):
    """The caller learns that the outcome is unknown; whoever reads again learns the truth."""
    async with Line(postgres_url) as line:
        store = open_store(line.url)
        await store.migrate()
        timer = make_timer()
        await insert(store, timer)
        await store.apply([claim_of(make_timer())])  # so that the statement is known
        line.is_deaf = True
        with pytest.raises(StoreUnavailable):
            await store.apply([claim_of(timer)])
        line.is_deaf = False
        async with asyncio.timeout(10):
            assert await store.get([timer.id]) == [claimed(timer)]
        assert await store.apply([claim_of(timer)]) == [False]
        await store.close()


async def test_a_statement_that_is_cut_off_before_its_commit(postgres, session):
    """The caller learns that the outcome is unknown, and nothing was written."""
    timer = make_timer()
    await insert(postgres, timer)
    transaction = await hold(session, timer)
    async with asyncio.TaskGroup() as group:
        call = group.create_task(fails(postgres.apply([claim_of(timer)])))
        await until_waiting(session, 1)
        await session.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid) "
            "WHERE NOT granted AND query LIKE '%' || current_schema() || '%'"
        )
    assert "terminating connection" in call.result()
    await transaction.rollback()
    assert await postgres.get([timer.id]) == [timer]
    assert await postgres.apply([claim_of(timer)]) == [True]


async def fails(call):
    """How a call failed."""
    with pytest.raises(StoreUnavailable) as raised:
        await call
    return str(raised.value)
