"""A write whose connection is lost has ended when its caller hears of it, or that is said."""

import asyncio

import pytest
from asyncmy import errors

from duetime.errors import StoreUnavailable, Unanswered
from duetime.stores import Change, Record
from duetime.stores.mysql import fate, pool
from duetime.stores.mysql.fate import settle
from duetime.stores.mysql.session import Whereabouts
from duetime.stores.opening import open_store
from tests.factories import claim_of, claimed, insert, make_attempt, make_event, make_timer
from tests.stores.mysql.conftest import hold, until_waiting
from tests.waiting import eventually


@pytest.fixture
def lent(monkeypatch):
    """The sessions that writes run on, in order."""
    seen = []
    worked = pool._worked

    async def noted(session, work):
        seen.append(session)
        return await worked(session, work)

    monkeypatch.setattr(pool, "_worked", noted)
    return seen


def claim(store, timer):
    return store.apply([claim_of(timer)])


def removal(store, timer):
    return store.remove([timer])


async def waiting_write(store, ask, begin=claim):
    """A timer, and a write to it that waits for somebody else's lock."""
    timer = make_timer()
    await insert(store, timer)
    await hold(ask, timer)
    write = asyncio.create_task(begin(store, timer))
    await until_waiting(ask, 1)
    return timer, write


@pytest.mark.parametrize("begin", [claim, removal])
async def test_what_was_lost_never_lands_later(mysql, somebody, lent, begin):
    """The session that was left behind is ended, so that a re-read is the whole truth."""
    timer, write = await waiting_write(mysql, somebody, begin)
    lent[-1].close()  # the server does not notice that
    with pytest.raises(StoreUnavailable) as lost:
        await write
    assert not isinstance(lost.value, Unanswered)
    await somebody("COMMIT")
    assert await mysql.get([timer.id]) == [timer]
    assert await mysql.apply([claim_of(timer)]) == [True]


async def test_what_may_still_land_is_said_to(mysql, somebody, lent, monkeypatch):
    """Where the session cannot be ended, nobody is told that nothing was written."""

    async def in_vain(*_):
        return False

    monkeypatch.setattr(pool, "settle", in_vain)
    _timer, write = await waiting_write(mysql, somebody)
    lent[-1].close()
    with pytest.raises(Unanswered, match="not known whether"):
        await write
    await somebody("COMMIT")


async def test_a_failure_that_the_server_tells_is_certain(mysql, somebody, monkeypatch):
    """Nobody is ended for it."""
    monkeypatch.setattr(pool, "settle", None)  # calling it would fail
    timer, write = await waiting_write(mysql, somebody)
    [(number,)] = await somebody(
        "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx "
        "WHERE trx_state = 'LOCK WAIT' AND trx_mysql_thread_id IN "
        "(SELECT id FROM information_schema.processlist WHERE db = database())"
    )
    await somebody(f"KILL QUERY {number}")
    with pytest.raises(StoreUnavailable, match="interrupted") as failed:
        await write
    assert not isinstance(failed.value, Unanswered)
    await somebody("COMMIT")
    assert await mysql.apply([claim_of(timer)]) == [True]


async def test_a_change_that_fails_half_way_leaves_nothing(mysql, somebody):
    """What it wrote before is taken back, and whoever has the session next does not commit it."""
    timer, other = make_timer(), make_timer()
    await insert(mysql, timer, other)
    await somebody("RENAME TABLE events TO elsewhere")
    with pytest.raises(StoreUnavailable) as failed:
        await mysql.apply(
            [Change(timer, claimed(timer), make_attempt(timer), (make_event(timer),))]
        )
    assert not isinstance(failed.value, Unanswered)
    await somebody("RENAME TABLE elsewhere TO events")
    assert await mysql.apply([claim_of(other)]) == [True]
    assert await mysql.get([timer.id]) == [timer]
    assert await mysql.attempts(timer.id, None, 10) == []


async def whereabouts(store):
    """Of a session of the store."""
    await store.ping()
    return store._pool._idle[-1].whereabouts


async def test_a_session_that_is_gone_needs_no_end(mysql):
    """Nor does one of a server that has restarted since: nobody else is ended in its place."""
    gone = (await whereabouts(mysql))._replace(lock="duetime-of-nobody")
    assert await settle(mysql._pool._address, gone)
    await mysql.ping()


async def test_another_server_knows_nothing_of_a_session(mysql):
    """Behind one address there may be several, and one that took over."""
    elsewhere = (await whereabouts(mysql))._replace(server="other 3306 2")
    assert not await settle(mysql._pool._address, elsewhere)
    await mysql.ping()  # it is still there


async def test_where_sessions_have_no_names_nothing_is_sure(mysql):
    """As on TiDB."""
    assert not await settle(mysql._pool._address, Whereabouts("here", ""))


async def test_a_server_that_is_away_settles_nothing(mysql, monkeypatch):
    """It may have done it before it went."""

    async def refused(_):
        raise errors.OperationalError(2003, "nobody there")

    gone = await whereabouts(mysql)
    monkeypatch.setattr(fate, "connect", refused)
    assert not await settle(mysql._pool._address, gone)


async def test_a_cancelled_caller_leaves_no_lock_behind(mysql, somebody):
    """What he was waiting for is rolled back, and his place in the pool is free again."""
    for _ in range(12):  # more than there are places
        timer, write = await waiting_write(mysql, somebody)
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write
        await somebody("COMMIT")
        assert (await mysql.get([timer.id]))[0].id == timer.id
    assert mysql._pool._turns.taken == 0


async def test_a_session_that_the_server_ended_while_idle_is_not_used(mysql, somebody):
    """As after a restart, or hours without work: nobody hears of it."""
    await asyncio.gather(*(mysql.ping() for _ in range(5)))
    assert await mysql.put_record(None, Record(kind="node", name="a"))
    idle = [*mysql._pool._idle, *mysql._quick._idle]
    for session in idle:
        [(number,)] = await session.rows("SELECT connection_id()")
        await somebody(f"KILL {number}")

    async def are_gone():
        return all(session.is_closed for session in idle)

    await eventually(are_gone, "the sessions to be gone")
    await asyncio.gather(*(mysql.ping() for _ in range(5)))
    assert len(await mysql.records("node")) == 1


async def test_the_rights_on_one_database_are_enough(mysql_url, somebody, lent):
    """Also to end a session that was left behind."""
    database = mysql_url.rpartition("/")[2]
    name = f"u{database[-12:]}"
    await somebody(f"CREATE USER {name}@'%' IDENTIFIED BY 'few-s3cret'")
    await somebody(f"GRANT ALL ON {database}.* TO {name}@'%'")
    store = open_store(f"mysql://{name}:few-s3cret@{mysql_url.partition('@')[2]}")
    try:
        await store.migrate()
        timer, write = await waiting_write(store, somebody)
        lent[-1].close()
        with pytest.raises(StoreUnavailable) as lost:
            await write
        assert not isinstance(lost.value, Unanswered)
        await somebody("COMMIT")
        assert await store.apply([claim_of(timer)]) == [True]
    finally:
        await store.close()
        await somebody(f"DROP USER {name}@'%'")


@pytest.mark.parametrize("error", [RuntimeError("gone"), IndexError("short"), AssertionError()])
async def test_whatever_the_driver_throws_is_a_lost_answer(mysql, error, monkeypatch):
    """An answer that it cannot make sense of is an answer that was lost."""
    timer = make_timer()
    await insert(mysql, timer)

    def broken(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(type(mysql._pool._idle[-1]._line), "cursor", broken)
        with pytest.raises(Unanswered):  # who would settle it meets the same
            await mysql.apply([claim_of(timer)])
    assert await mysql.get([timer.id]) == [timer]


async def test_a_server_that_takes_no_writes_is_left_with_all_sessions(mysql):
    """Those at rest lead to the same one, and would go on reading what is old."""
    await asyncio.gather(*(mysql.ping() for _ in range(3)))
    assert len(mysql._pool._idle) > 1
    before = list(mysql._pool._idle)

    async def refused(_):
        raise errors.OperationalError(1290, "running with --read-only")

    with pytest.raises(StoreUnavailable, match="it is a replica"):
        await mysql._pool.run(refused)
    assert mysql._pool._idle == []
    assert all(session.is_closed for session in before)
    await mysql.ping()
