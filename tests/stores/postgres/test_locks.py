"""Rows that somebody else has locked: who waits for them, and for how long."""

import asyncio

import pytest

from duetime import ids
from duetime.errors import StoreUnavailable
from duetime.stores import Change
from duetime.timer import Status
from tests.factories import (
    NOW,
    claim_of,
    completed,
    insert,
    make_timer,
)
from tests.stores.conftest import hold, somebody, until_waiting


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


@pytest.mark.parametrize("count", [3, 1_000])
async def test_a_removal_takes_its_rows_in_the_order_of_changes(
    postgres, postgres_url, session, count
):
    """One waits for the other, and each timer is removed or claimed."""
    timers = [make_timer(shard=shard) for shard in range(count)]
    await insert(postgres, timers[-1])  # so it lies first, though its id is the last
    await insert(postgres, *timers[:-1])
    await session.execute("ANALYZE states")
    async with somebody(postgres_url) as other, asyncio.TaskGroup() as group:
        transactions = [await hold(session, timers[0]), await hold(other, timers[-1])]
        removal = group.create_task(postgres.remove(timers[::-1]))
        claims = group.create_task(postgres.apply([claim_of(timer) for timer in timers]))
        for transaction in transactions:
            await until_waiting(session, 2)
            await transaction.commit()
    won = zip(removal.result()[::-1], claims.result(), strict=True)
    assert all(is_removed != is_claimed for is_removed, is_claimed in won)


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
    assert kept.status is Status.PENDING


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
