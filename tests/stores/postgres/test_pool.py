"""The pool: a bounded number of connections, a bounded wait for each, and no place ever lost."""

import asyncio

import pytest

from duetime import ids
from duetime.errors import StoreUnavailable
from duetime.stores import Insert, Query, Record, pooled
from duetime.stores.postgres import pool as pools
from duetime.stores.postgres import session as sessions
from duetime.stores.postgres.address import Address
from duetime.stores.postgres.pool import Pool
from duetime.stores.postgres.store import PostgresStore
from tests.factories import NOW, claim_of, insert, make_timer
from tests.servers.kinds import POSTGRES
from tests.stores.conftest import somebody, until_waiting
from tests.waiting import eventually

SIZE = 2
ASKING_PID = "SELECT pg_backend_pid()"


@pytest.fixture
async def pool(postgres_url):
    """A pool of two connections."""
    opened = Pool(Address.parse(postgres_url), SIZE)
    yield opened
    async with asyncio.timeout(10):  # a place that was lost would never come back
        await opened.close()


class Work:
    """Keeps a connection until it is told to end."""

    def __init__(self):
        self.is_begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def __call__(self, connection):
        self.is_begun.set()
        await self.may_end.wait()
        return await connection.fetchval(ASKING_PID)


async def started(pool, count=SIZE):
    """So many pieces of work on connections of the pool, and the tasks that wait for their end."""
    works = [Work() for _ in range(count)]
    tasks = [asyncio.create_task(pool.run(work)) for work in works]
    for work in works:
        await work.is_begun.wait()
    return works, tasks


async def pid(pool):
    return await pool.run(lambda connection: connection.fetchval(ASKING_PID))


async def test_connections_are_kept(pool):
    """One after the other gets the same connection; at once, each gets its own."""
    assert await pid(pool) == await pid(pool)
    works, tasks = await started(pool)
    for work in works:
        work.may_end.set()
    assert len(set(await asyncio.gather(*tasks))) == SIZE


async def test_whoever_waits_too_long_is_told_what_to_do(pool, monkeypatch):
    """The message names the setting, and the connections go on working."""
    monkeypatch.setattr(pools, "FREE_WITHIN", 0.01)
    works, tasks = await started(pool)
    with pytest.raises(StoreUnavailable, match=r"all 2 connections .* in use.*raise pool_size"):
        await pid(pool)
    for work in works:
        work.may_end.set()
    await asyncio.gather(*tasks)
    await pid(pool)


async def test_first_come_first_served(pool):
    """Nobody overtakes those who wait, not even when a connection has just become free."""
    works, tasks = await started(pool)
    order = []

    async def note(number):
        await pool.run(lambda connection: asyncio.sleep(0, order.append(number)))

    waiting = []
    for number in range(5):
        waiting.append(asyncio.create_task(note(number)))
        await asyncio.sleep(0)
    works[0].may_end.set()
    await tasks[0]
    await note(99)
    works[1].may_end.set()
    await asyncio.gather(*tasks, *waiting)
    assert order == [0, 1, 2, 3, 4, 99]


async def test_who_goes_away_while_waiting_leaves_no_gap(pool, monkeypatch):
    """The next in the row gets the connection; and also if the turn had come already."""
    works, tasks = await started(pool)
    first, second, third = (asyncio.create_task(pid(pool)) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()
    pass_on = pool._turns.leave

    def pass_on_in_vain():
        pass_on()
        second.cancel()  # its turn has come, and it does not know yet

    with monkeypatch.context() as patch:
        patch.setattr(pool._turns, "leave", pass_on_in_vain)
        works[0].may_end.set()
        await tasks[0]
    async with asyncio.timeout(4):  # less than anybody waits for a place
        await third
    works[1].may_end.set()
    await tasks[1]
    assert first.cancelled()
    assert second.cancelled()
    assert pool._turns.taken == 0


async def test_who_goes_away_while_working_takes_the_connection_along(pool, session):
    """What was asked may still be answered: nobody else gets to hear that."""
    before = await pid(pool)
    task = asyncio.create_task(
        pool.run(lambda connection: connection.execute("SELECT pg_sleep(100)"))
    )
    await until_asked(session, "SELECT pg_sleep(100)", before)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await pid(pool) != before
    works, tasks = await started(pool)
    for work in works:
        work.may_end.set()
    await asyncio.gather(*tasks)


async def until_asked(session, query, pid):
    """Return once a session is busy with a query."""
    looking = (
        "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND state = 'active' AND query = $2"
    )
    await eventually(lambda: session.fetchval(looking, pid, query), query, every=0.01)


async def test_many_that_come_and_go_lose_no_place(pool):
    """Two hundred callers, most of whom go away at some point: both places are still there."""

    async def call(number):
        await asyncio.sleep(0)
        async with asyncio.timeout(0.001 * (number % 7) or None):
            await pid(pool)

    await asyncio.gather(*map(call, range(200)), return_exceptions=True)
    async with asyncio.timeout(10):
        works, tasks = await started(pool)
        for work in works:
            work.may_end.set()
        await asyncio.gather(*tasks)
    assert pool._turns.taken == 0


async def test_a_connection_that_cannot_be_opened_gives_its_place_back(pool, monkeypatch):
    """As often as it is tried; and once it can be opened, everything goes on."""

    async def refuse(_address):
        raise ConnectionRefusedError("refused")

    with monkeypatch.context() as patch:
        patch.setattr(pools, "connect", refuse)
        for _ in range(SIZE + 1):
            with pytest.raises(StoreUnavailable, match="refused"):
                await pid(pool)
    await pid(pool)


async def test_a_connection_that_was_killed_is_replaced(pool, session):
    """The next call after a pg_terminate_backend, or after a failed one at worst, goes through."""
    for _ in range(SIZE):
        killed = await pid(pool)
        await session.execute("SELECT pg_terminate_backend($1, 5000)", killed)
        try:
            after = await pid(pool)
        except StoreUnavailable:  # the news of its end was still on the way
            after = await pid(pool)
        assert after != killed


async def test_whoever_is_killed_while_working_is_told(pool, session):
    """The caller learns that the outcome is unknown, and the next one gets a new connection."""
    before = await pid(pool)
    task = asyncio.create_task(
        pool.run(lambda connection: connection.execute("SELECT pg_sleep(99)"))
    )
    await until_asked(session, "SELECT pg_sleep(99)", before)
    await session.execute("SELECT pg_terminate_backend($1, 5000)", before)
    with pytest.raises(StoreUnavailable, match="terminating connection"):
        await task
    assert await pid(pool) != before


async def test_an_answer_that_never_comes_is_given_up(pool, monkeypatch):
    """Also where the server does not: a cut line says nothing."""
    monkeypatch.setattr(pools, "MARGIN", 0.0)
    before = await pid(pool)
    with pytest.raises(StoreUnavailable, match="no answer in time"):
        await pool.run(lambda connection: asyncio.Event().wait(), 0.01)
    assert await pid(pool) != before


async def test_closing_waits_for_what_is_under_way(postgres_url):
    """Those who work finish, those who wait are sent away, and nobody comes in any more."""
    pool = Pool(Address.parse(postgres_url), SIZE)
    works, tasks = await started(pool)
    waiting = asyncio.create_task(pid(pool))
    await asyncio.sleep(0)
    closing = asyncio.create_task(pool.close())
    with pytest.raises(StoreUnavailable, match="closed"):
        await waiting
    with pytest.raises(StoreUnavailable, match="closed"):
        await pid(pool)
    assert not closing.done()
    for work in works:
        work.may_end.set()
    pids = await asyncio.gather(*tasks)
    await closing
    await pool.close()
    async with somebody(postgres_url) as session:
        none_left = "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = ANY($1)"
        await eventually(lambda: session.fetchval(none_left, pids), "the sessions to end")


# The store on its pools ---------------------------------------------------------------------


async def test_a_lock_of_somebody_else_is_a_bounded_wait(postgres_url, session, monkeypatch):
    """The caller learns that it was a lock; once it is gone, the same call goes through."""
    monkeypatch.setitem(sessions.SETTINGS, "lock_timeout", "50")
    store = PostgresStore(Address.parse(postgres_url))
    await store.migrate()
    timer = make_timer()
    async with session.transaction():
        await session.execute("LOCK TABLE timers")
        for call in (store.insert([Insert(timer)]), store.get([timer.id])):
            with pytest.raises(StoreUnavailable, match="somebody held a lock for too long"):
                await call
    await insert(store, timer)
    await store.close()


async def test_a_slow_statement_is_given_up(postgres_url, session, monkeypatch):
    """The server ends it, the caller learns why, and nothing was written."""
    monkeypatch.setitem(sessions.SETTINGS, "statement_timeout", "100")
    store = PostgresStore(Address.parse(postgres_url))
    await store.migrate()
    await session.execute(
        "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_sleep(100); RETURN NEW; END'"
    )
    await session.execute(
        "CREATE TRIGGER slow BEFORE INSERT ON states FOR EACH ROW EXECUTE FUNCTION dawdle()"
    )
    timer = make_timer()
    with pytest.raises(StoreUnavailable, match="took too long and was given up"):
        await insert(store, timer)
    await session.execute("DROP TRIGGER slow ON states")
    assert await store.get([timer.id]) == [None]
    await insert(store, timer)
    await store.close()


async def test_heartbeats_go_on_while_all_others_are_blocked(postgres, session):
    """A node whose every connection waits for a lock does not pass for dead."""
    timers = [make_timer() for _ in range(20)]
    await insert(postgres, *timers)
    async with asyncio.TaskGroup() as group, session.transaction():
        await session.execute("LOCK TABLE states")
        calls = [group.create_task(postgres.apply([claim_of(timer)])) for timer in timers]
        await until_waiting(session, 10)
        record = Record(kind="node", name="a")
        async with asyncio.timeout(3):
            assert await postgres.put_record(None, record)
            assert await postgres.records("node") == [record]
    assert all(call.result() == [True] for call in calls)


async def test_searches_leave_room_for_the_rest(postgres, session):
    """Searches that take long keep a part of the connections, and never all of them."""
    async with asyncio.TaskGroup() as group, session.transaction():
        await session.execute("LOCK TABLE tags")
        for _ in range(20):
            group.create_task(postgres.search(Query(tenant="t", tag="x")))
        await until_waiting(session, 3)
        async with asyncio.timeout(3):
            await insert(postgres, make_timer())
            assert len(await postgres.due(ids.ALL_SHARDS, None, NOW * 2, 10)) == 1
            await postgres.ping()


async def test_a_search_waits_for_others_only_so_long(postgres, session, monkeypatch):
    """Then it says so; and whoever went away while waiting has taken no place along."""
    monkeypatch.setattr(pooled, "SEARCH_WITHIN", 0.01)
    query = Query(tenant="t", tag="x")
    async with asyncio.TaskGroup() as group, session.transaction():
        await session.execute("LOCK TABLE tags")
        for _ in range(3):
            group.create_task(postgres.search(query))
        await until_waiting(session, 3)
        for _ in range(5):
            with pytest.raises(StoreUnavailable, match=r"other searches .*pool_size"):
                await postgres.search(query)
    await asyncio.gather(*(postgres.search(query) for _ in range(3)))


@pytest.mark.parametrize("engine", POSTGRES)
async def test_a_server_that_crashes_and_comes_back(engine, own_postgres):
    """While it is away every call says so; when it is back, they go through, with all that was."""
    server = own_postgres(engine)
    store = PostgresStore(Address.parse(server.url()))
    await store.migrate()
    timers = [make_timer() for _ in range(3)]
    await insert(store, *timers)
    await asyncio.gather(*(store.ping() for _ in range(10)))
    server.restart_immediate()
    await heal(store)
    assert await store.get([timer.id for timer in timers]) == timers
    assert (
        await asyncio.gather(*(store.apply([claim_of(timer)]) for timer in timers)) == [[True]] * 3
    )
    server.stop()
    for call in (store.ping(), store.get([timers[0].id]), store.records("node")):
        with pytest.raises(StoreUnavailable):
            await call
    server.start()
    await heal(store)
    await store.close()


async def heal(store):
    """Call until it works: the end of each connection may still be on its way."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await asyncio.gather(*(store.ping() for _ in range(10)))
            except StoreUnavailable:
                await asyncio.sleep(0.01)
