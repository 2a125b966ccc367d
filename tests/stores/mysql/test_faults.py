"""The store while its server is killed, or hangs: waits are bounded, and nothing is lost."""

import asyncio
import ssl
import time

import pytest

from duetime.errors import StoreUnavailable
from duetime.stores import Record
from duetime.stores.mysql import pool as pools
from duetime.stores.opening import open_store
from duetime.stores.pooled import QUICK_WITHIN
from tests.cluster.conftest import on
from tests.factories import claim_of, claimed, insert, make_timer
from tests.open_connections import open_connections
from tests.servers.certificates import AUTHORITY
from tests.servers.kinds import MYSQL
from tests.servers.mysql import make_database, mysql_value
from tests.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture(params=MYSQL)
async def server(request, own_server):
    """A server of the test's own."""
    return own_server(request.param)


@pytest.fixture
async def store(server):
    """A store on it."""
    opened = open_store(await make_database(server.url()))
    await opened.migrate()
    yield opened
    await opened.close()


async def works_again(store):
    """Wait until a timer can be stored and claimed."""
    timer = make_timer()

    async def works():
        try:
            await store.insert([])
            await insert(store, timer)
            return await store.apply([claim_of(timer)]) == [True]
        except (StoreUnavailable, AssertionError):
            return await read(store, timer)

    await eventually(works, "the store to work again")


async def read(store, timer):
    try:
        return await store.get([timer.id]) == [claimed(timer)]
    except StoreUnavailable:
        return False


async def test_killed_under_load(server, store):
    """What was acknowledged is there after it has restarted, and the same store goes on."""
    kept = []
    is_over = asyncio.Event()

    async def create():
        while not is_over.is_set():
            timers = [make_timer() for _ in range(20)]
            try:
                await insert(store, *timers)
                assert all(await store.apply([claim_of(timer) for timer in timers[:10]]))
            except StoreUnavailable:
                await asyncio.sleep(0.05)
            else:
                kept.extend([claimed(timer) for timer in timers[:10]] + timers[10:])

    async with asyncio.TaskGroup() as group:
        for _ in range(6):
            group.create_task(create())
        await enough(kept, 400)
        await asyncio.to_thread(server.crash)
        await asyncio.to_thread(server.start)
        await enough(kept, len(kept) + 400)
        is_over.set()
    assert await store.get([timer.id for timer in kept]) == kept


async def enough(kept, count):
    async def are_enough():
        return len(kept) >= count

    await eventually(are_enough, f"{count} timers to be acknowledged")


@pytest.mark.parametrize("server", on("mariadb", of=[*MYSQL]), indirect=True)
async def test_paused(server, store, monkeypatch):
    """Each call ends in bounded time; afterwards all works, and nothing acknowledged is lost."""
    monkeypatch.setattr(store._pool, "_within", 4.0)
    timers = [make_timer() for _ in range(50)]
    await insert(store, *timers)
    assert await store.put_record(None, Record(kind="node", name="a"))
    server.pause()
    begun = time.monotonic()
    calls = [
        store.get([timers[0].id]),
        store.apply([claim_of(timers[0])]),
        store.insert([]),
        store.records("node"),
        *(store.ping() for _ in range(20)),
    ]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [answer for answer in answers if not isinstance(answer, StoreUnavailable)] in ([], [[]])
    assert isinstance(answers[3], StoreUnavailable)
    assert time.monotonic() - begun < 4.0 + pools.FREE_WITHIN + 2 * 5.0 + QUICK_WITHIN
    server.resume()
    await works_again(store)
    [first, *others] = await store.get([timer.id for timer in timers])
    assert first in (timers[0], claimed(timers[0]))
    assert others == timers[1:]
    assert len(await store.records("node")) == 1


async def test_heartbeats_pass_a_busy_pool(mysql, monkeypatch):
    """While every connection is in use, a node can still say that it lives."""
    may_end = asyncio.Event()

    async def busy(_session):
        await may_end.wait()

    held = [asyncio.ensure_future(mysql._pool.run(busy)) for _ in range(10)]
    async with asyncio.timeout(QUICK_WITHIN):
        assert await mysql.put_record(None, Record(kind="node", name="a"))
    monkeypatch.setattr(pools, "FREE_WITHIN", 0.05)
    with pytest.raises(StoreUnavailable, match=r"all 10 connections .* raise pool_size"):
        await mysql.ping()
    may_end.set()
    await asyncio.gather(*held)
    await mysql.ping()


async def test_closing_waits_for_writes_under_way(mysql):
    """None is cut off, and whoever comes later is told."""
    timers = [make_timer() for _ in range(300)]
    writes = [asyncio.ensure_future(insert(mysql, *timers[n::3])) for n in range(3)]
    await asyncio.sleep(0)
    await mysql.close()
    await asyncio.gather(*writes)
    with pytest.raises(StoreUnavailable, match="closed"):
        await mysql.ping()


@pytest.mark.parametrize("engine", MYSQL)
async def test_tls(engine, own_server):
    """A server that wants TLS is reached with it, and proves who it is."""
    server = own_server(engine, tls=True)
    trust = ssl.create_default_context(cafile=AUTHORITY)
    await mysql_value(server.url(), "CREATE DATABASE timers", ssl=trust)
    good = open_store(server.url("timers", ssl_ca=str(AUTHORITY)))
    await good.migrate()
    timer = make_timer()
    await insert(good, timer)
    assert await good.get([timer.id]) == [timer]
    await good.close()
    for url in (server.url("timers"), server.url("timers", ssl_mode="verify_identity")):
        store = open_store(url)
        with pytest.raises(StoreUnavailable):
            await store.migrate()
        await store.close()


async def test_a_password_that_needs_tls(own_server):
    """MySQL wants TLS or a key of its own for a password; without either, the message says so."""
    no_key = {"caching-sha2-password-private-key-path": "none", "auto-generate-certs": "ON"}
    server = own_server("mysql", settings=no_key)
    store = open_store(server.url("timers"))
    with pytest.raises(StoreUnavailable, match="add ssl_mode=required"):
        await store.migrate()
    await store.close()
    store = open_store(server.url("timers", ssl_mode="required"))
    with pytest.raises(StoreUnavailable, match="CREATE DATABASE"):  # so it was let in
        await store.migrate()
    assert open_connections() == []  # though the server has not agreed to the end of TLS
    await store.close()
