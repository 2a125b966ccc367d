"""The store behind PgBouncer, where each transaction may run on another connection."""

import asyncio
from urllib.parse import urlsplit

import msgspec
import pytest

from duetime import ids
from duetime.errors import Unanswered
from duetime.stores import Change, Insert, News, Query, Record, Waking
from duetime.stores.postgres.address import Address
from duetime.stores.postgres.store import PostgresStore
from tests.factories import (
    NOW,
    claim_of,
    claimed,
    completed,
    insert,
    key_of,
    make_attempt,
    make_event,
    make_timer,
    with_spec,
)
from tests.servers.kinds import POSTGRES
from tests.stores.conftest import hold, somebody, until_waiting


class SharedServer:
    """The run's server, as a pooler in front of it has to know it."""

    def __init__(self, url):
        self._url = urlsplit(url)
        self.port, self.password = self._url.port, self._url.password

    def url(self, database="postgres"):
        return self._url._replace(path=f"/{database}").geturl()


@pytest.fixture(params=POSTGRES)
async def direct_url(request, fresh_database):
    """The URL of an empty schema, past the pooler."""
    return await fresh_database(request.param)


@pytest.fixture
def pooled_url(direct_url, own_pgbouncer):
    """The same schema, through a pooler that has five connections for everybody."""
    server, _, schema = direct_url.partition("?schema=")
    pooler = own_pgbouncer(SharedServer(server))
    return f"{pooler.url()}?pooler=transaction&schema={schema}&pool_size=12"


@pytest.fixture
async def pooled(pooled_url):
    """An empty store behind a pooler, whose callers outnumber the connections of the pooler."""
    opened = PostgresStore(Address.parse(pooled_url))
    await opened.migrate()
    yield opened
    await opened.close()


async def test_many_timers_at_once(pooled):
    """A copy is a transaction of several statements, each on the connection that it began on."""
    batches = [
        [
            Insert(msgspec.structs.replace(timer, timer_id=timer.id), (make_event(timer),))
            for timer in (make_timer() for _ in range(150))
        ]
        for _ in range(12)
    ]
    answers = await asyncio.gather(*(pooled.insert(batch) for batch in batches))
    assert answers == [[None] * 150] * 12
    again = await asyncio.gather(*(pooled.insert(batch) for batch in batches))
    assert again == [[each.timer for each in batch] for batch in batches]
    assert len(await pooled.events(ids.ALL_SHARDS, None, 5_000)) == 12 * 150


async def life_of(store, number):
    """Everything that can happen to a few timers, from the first insert to their end."""
    tenant = f"tenant-{number}"
    timers = [make_timer(tenant=tenant) for _ in range(5)]
    inserts = [Insert(timer, (make_event(timer),)) for timer in timers]
    assert await store.insert(inserts) == [None] * 5
    assert await store.insert(inserts[:1]) == timers[:1]
    assert await store.get([timer.id for timer in timers]) == timers
    assert await store.get_by_key([key_of(timer) for timer in timers]) == timers
    tagged = [with_spec(timer, tags=("a",)) for timer in timers]
    assert all(await store.apply([Change(*pair) for pair in zip(timers, tagged, strict=True)]))
    assert all(await store.apply([claim_of(timer) for timer in tagged]))
    ended = [
        Change(claimed(timer), completed(timer), make_attempt(claimed(timer))) for timer in tagged
    ]
    assert await store.apply(ended + ended[:1]) == [True] * 5 + [False]
    found = await store.search(Query(tenant=tenant, tag="a", with_total=True))
    assert (len(found.timers), found.total) == (5, 5)
    [attempt] = await store.attempts(timers[0].id, None, 10)
    assert attempt == ended[0].attempt
    node = Record(kind="node", name=tenant)
    assert await store.put_record(None, node)
    assert node in await store.records("node")
    assert await store.put_record(node, None)
    await store.announce(News((Waking.of(timers[0]),)))
    await store.published([event.id for each in inserts for event in each.events])


async def test_many_live_at_once(pooled):
    """Twenty lives go on side by side, on connections that change all the time."""
    async with asyncio.timeout(60):
        await asyncio.gather(*(life_of(pooled, number) for number in range(20)))
    assert await pooled.events(ids.ALL_SHARDS, None, 10) == []
    assert await pooled.due(ids.ALL_SHARDS, None, NOW * 2, 10) == []
    assert await pooled.purge(ids.ALL_SHARDS, NOW * 2, 1_000) == 100


async def test_what_is_due_is_found(pooled):
    """The due index is read like without a pooler, for all shards and for some."""
    timers = [make_timer(shard=shard) for shard in range(200)]
    await insert(pooled, *timers)
    lines = await pooled.due(ids.ALL_SHARDS, None, NOW * 2, 1_000)
    assert lines == sorted(map(Waking.of, timers))
    assert await pooled.due([7], None, NOW * 2, 1_000) == [Waking.of(timers[7])]


async def test_many_migrate_at_once(pooled_url):
    """Nodes that start together behind a pooler make one schema."""
    stores = [PostgresStore(Address.parse(pooled_url)) for _ in range(4)]
    await asyncio.gather(*(store.migrate() for store in stores))
    await asyncio.gather(*(store.ping() for store in stores))
    await asyncio.gather(*(store.close() for store in stores))


async def test_nothing_is_heard(pooled):
    """A pooler passes no news on: nobody waits for them, and whoever announces some may."""
    heard = []
    pooled.listen(heard.append)
    assert pooled._listener._task is None
    await pooled.announce(News(is_about_nodes=True))
    assert heard == []


async def test_a_session_keeps_nothing(pooled, direct_url):
    """What is set for our statements does not stay on the connection of the pooler."""
    await pooled.ping()

    names = ("lock_timeout", "statement_timeout", "enable_seqscan")
    asking = f"SELECT {', '.join(f'current_setting({name!r})' for name in names)}"
    [ours] = await pooled._pool.run(lambda connection: connection.fetch(asking))
    assert [*ours] == ["5s", "15s", "off"]
    [theirs] = await pooled._pool.run(
        lambda connection: super(type(connection), connection).fetch(asking)
    )
    assert [*theirs] == ["0", "0", "on"]


async def test_batches_of_two_kinds_do_not_block_each_other(pooled, direct_url):
    """Each statement is a transaction of its own here too: no lock is held while the next waits."""
    one, two = timers = [make_timer(), make_timer()]
    await insert(pooled, *timers)

    def rewritten(timer):
        return Change(timer, with_spec(timer, name="anew"))

    # Those that move on are written first, then those that are written anew.
    async with somebody(direct_url) as session, asyncio.TaskGroup() as group:
        transaction = session.transaction()
        await transaction.start()
        await session.execute("LOCK TABLE timers IN EXCLUSIVE MODE")
        first = group.create_task(pooled.apply([claim_of(one), rewritten(two)]))
        await until_waiting(session, 1)
        second = group.create_task(pooled.apply([claim_of(two), rewritten(one)]))
        await until_waiting(session, 2)
        await transaction.commit()
    assert sum(first.result() + second.result()) == 2


async def test_what_is_cut_off_behind_a_pooler_is_not_known(pooled, direct_url):
    """Nobody can tell which session it was, so nobody is told that it is over."""
    timer = make_timer()
    await insert(pooled, timer)
    async with somebody(direct_url) as session:
        transaction = await hold(session, timer)
        write = asyncio.create_task(pooled.apply([claim_of(timer)]))
        await until_waiting(session, 1)
        await session.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid) "
            "WHERE NOT granted AND query LIKE '%' || current_schema() || '%'"
        )
        with pytest.raises(Unanswered):
            await write
        await transaction.rollback()
    assert await pooled.get([timer.id]) == [timer]
    assert await pooled.apply([claim_of(timer)]) == [True]
