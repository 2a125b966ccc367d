"""A write whose connection is lost has ended when its caller hears of it, or that is said."""

import asyncio

import pytest

from duetime.errors import StoreUnavailable, Unanswered
from duetime.stores.postgres import fate, pool
from duetime.stores.postgres.fate import session_of, settle
from tests.factories import claim_of, insert, make_timer
from tests.stores.conftest import hold, until_waiting


async def lose_connection(store):
    """Cut the line of the write that is under way: the server does not notice that."""
    busy = [each for each in store._pool._sessions if each not in store._pool._idle]
    assert len(busy) == 1
    busy[0].terminate()


async def waiting_write(store, session):
    """A timer, and a write to it that waits for somebody else's lock."""
    timer = make_timer()
    await insert(store, timer)
    await session.execute("BEGIN")
    await session.fetch("SELECT FROM states WHERE id = $1 FOR UPDATE", timer.id)
    write = asyncio.create_task(store.apply([claim_of(timer)]))
    await until_waiting(session, 1)
    return timer, write


async def test_what_was_lost_never_lands_later(postgres, session):
    """The session that was left behind is ended, so that a re-read is the whole truth."""
    timer, write = await waiting_write(postgres, session)
    await lose_connection(postgres)
    with pytest.raises(StoreUnavailable) as lost:
        await write
    assert not isinstance(lost.value, Unanswered)
    await session.execute("COMMIT")
    assert await postgres.get([timer.id]) == [timer]
    assert await postgres.apply([claim_of(timer)]) == [True]


async def test_a_removal_that_was_lost_never_lands_later(postgres, session):
    """A timer that is there when one looks again stays there."""
    timer = make_timer()
    await insert(postgres, timer)
    transaction = await hold(session, timer)
    removal = asyncio.create_task(postgres.remove([timer]))
    await until_waiting(session, 1)
    await lose_connection(postgres)
    with pytest.raises(StoreUnavailable) as lost:
        await removal
    assert not isinstance(lost.value, Unanswered)
    await transaction.commit()
    assert await postgres.get([timer.id]) == [timer]
    assert await postgres.remove([timer]) == [True]


async def test_what_may_still_land_is_said_to(postgres, session, monkeypatch):
    """Where the session cannot be ended, nobody is told that nothing was written."""

    async def in_vain(*_):
        return False

    monkeypatch.setattr(pool, "settle", in_vain)
    _timer, write = await waiting_write(postgres, session)
    await lose_connection(postgres)
    with pytest.raises(Unanswered, match="not known whether"):
        await write
    await session.execute("COMMIT")


async def test_a_failure_that_the_server_tells_is_certain(postgres, session, monkeypatch):
    """Nobody is ended for it."""
    monkeypatch.setattr(pool, "settle", None)  # calling it would fail
    _timer, write = await waiting_write(postgres, session)
    await session.execute(
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
        "WHERE wait_event_type = 'Lock' AND query LIKE '%' || current_schema() || '%'"
    )
    with pytest.raises(StoreUnavailable, match="given up") as failed:
        await write
    assert not isinstance(failed.value, Unanswered)
    await session.execute("COMMIT")


async def test_only_that_very_session_is_ended(postgres, session):
    """Another one that got its number since is left alone."""
    address = postgres._pool._address
    own = await session_of(session)
    assert await settle(address, own._replace(began="2001-01-01 00:00:00+00"))
    assert await session.fetchval("SELECT 1") == 1


async def test_a_server_that_is_away_settles_nothing(postgres, monkeypatch):
    """It may have done it before it went."""

    async def refused(_):
        raise ConnectionRefusedError("nobody there")

    monkeypatch.setattr(fate, "connect", refused)
    assert not await settle(postgres._pool._address, fate.Session(1, "now"))
