"""Rows that somebody else has locked: who waits for them, and for how long."""

import asyncio

import pytest

from duetime import ids
from duetime.errors import StoreUnavailable
from duetime.stores import Change, Insert
from duetime.stores.mysql import statements
from duetime.timer import Status
from tests.factories import (
    NOW,
    claim_of,
    completed,
    insert,
    make_spec,
    make_timer,
)
from tests.servers.mysql import rows as ask_rows
from tests.servers.mysql import session
from tests.stores.mysql.conftest import hold, until_waiting


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


async def test_own_retentions_leave_what_somebody_is_changing(mysql, somebody):
    """Likewise; and one that is not what it was when it finished is not dropped at all."""
    spec = make_spec(retention=10)
    timers = [make_timer(status=Status.COMPLETED, wake_at=None, spec=spec) for _ in range(3)]
    await insert(mysql, *timers)
    await hold(somebody, timers[0])
    await somebody(
        f"UPDATE retentions SET version = version - 1 WHERE id = x'{timers[1].id.replace('-', '')}'"
    )
    async with asyncio.timeout(3):
        assert await mysql.drop_outlived(ids.ALL_SHARDS, NOW + 10, 10) == 1
    assert await mysql.get([timer.id for timer in timers]) == [*timers[:2], None]
    await somebody("COMMIT")
    assert await mysql.drop_outlived(ids.ALL_SHARDS, NOW + 10, 10) == 1
    assert await mysql.get([timer.id for timer in timers]) == [None, timers[1], None]
    assert await mysql.remove([timers[1]]) == [True]
    assert not await somebody("SELECT * FROM retentions")


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
