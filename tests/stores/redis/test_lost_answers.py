"""A write whose answer was lost is over when that is told, or nobody claims to know."""

import asyncio

import pytest

from duetime.errors import StoreUnavailable, Unanswered
from duetime.stores import Insert
from duetime.stores.opening import open_store
from duetime.stores.redis import pool
from duetime.stores.redis.link import Link
from tests.cluster.proxy import proxied
from tests.factories import claim_of, insert, make_timer
from tests.servers.redis import session


@pytest.fixture
def impatient(own_store):
    """A store that waits for no more than a moment."""
    own_store._pool._answered_within = 0.3
    return own_store


async def fails(write):
    """The very error that a write ends with."""
    with pytest.raises(StoreUnavailable) as raised:
        await write
    return raised.type


async def test_a_write_that_was_done_is_read_again(redis_url):
    """The line broke behind it: the error says that it is over, and reading tells that it was."""
    async with proxied(redis_url) as (proxy, url):
        store = open_store(url)
        await store.migrate()
        timer = make_timer()
        proxy.drop_answers()
        assert await fails(store.insert([Insert(timer)])) is StoreUnavailable
        assert await store.get([timer.id]) == [timer]
        claim = claim_of(timer)
        assert await fails(store.apply([claim])) is StoreUnavailable
        assert await store.get([timer.id]) == [claim.new]
        assert await fails(store.remove([claim.new])) is StoreUnavailable
        assert await store.get([timer.id]) == [None]
        assert proxy.dropped == 3
        await store.close()


async def test_a_write_that_waits_is_ended(own, impatient):
    """The server has it and has not begun: nobody hears that it is over before it never will."""
    await insert(impatient, make_timer())
    timer = make_timer()
    async with session(own.url()) as client:
        await client.client_pause(60_000, all=False)
        assert await fails(impatient.insert([Insert(timer)])) is StoreUnavailable
        await client.client_unpause()
    assert await impatient.get([timer.id]) == [None]
    await insert(impatient, timer)


async def test_where_nobody_answers_nobody_knows(own, impatient, monkeypatch):
    """The server hangs with the write in its hands, and does it when it goes on."""
    monkeypatch.setattr(pool, "SETTLED_WITHIN", 0.3)
    await insert(impatient, make_timer())
    timer = make_timer()
    own.pause()
    try:
        assert await fails(impatient.insert([Insert(timer)])) is Unanswered
    finally:
        own.resume()
    impatient._pool._answered_within = 15.0
    await impatient.ping()


async def test_who_may_not_end_a_client_does_not_know(own, impatient):
    """A user without that right gets the honest answer."""
    async with session(own.url()) as client:
        await client.execute_command("ACL", "SETUSER", "default", "-client|kill")
        await client.client_pause(60_000, all=False)
        assert await fails(impatient.insert([Insert(make_timer())])) is Unanswered
        await client.client_unpause()


async def test_only_the_client_that_was_lost_is_ended(own, own_store):
    """Another run of the server gives its number to somebody else, who is left alone."""
    address = own_store._address
    lost = await Link.open(address)
    await lost.close()
    own.crash()
    own.start()
    others = [await Link.open(address) for _ in range(3)]
    lost.client = others[1].client  # as it may well be
    await pool.end(lost, address)
    assert [await other.ask("PING") for other in others] == [b"PONG"] * len(others)
    for other in others:
        await other.close()


async def test_heartbeats_do_not_queue_up_behind_writes(own, impatient):
    """They have a line of their own, and so do not wait for one that is busy."""
    impatient._pool._answered_within = 5.0
    async with session(own.url()) as client:
        await client.client_pause(60_000, all=False)
        writes = [
            asyncio.ensure_future(impatient.insert([Insert(make_timer())]))
            for _ in range(impatient._address.pool_size + 1)
        ]
        await asyncio.sleep(0)  # they are on their way
        assert impatient._pool._turns.taken == impatient._address.pool_size
        assert await impatient.records("node") == []
        await client.client_unpause()
    await asyncio.gather(*writes)


async def test_a_caller_that_leaves_harms_no_link(redis):
    """Its write goes on to its end, on a link that the next one takes over."""
    await insert(redis, make_timer())
    [link] = redis._pool._idle
    timer = make_timer()
    call = asyncio.ensure_future(redis.insert([Insert(timer)]))
    await asyncio.sleep(0)  # it is on its way
    call.cancel()
    await redis._pool._turns.close()  # all that were under way have ended
    assert redis._pool._idle == [link]
    assert await link.ask("EXISTS", redis._name(f"timer:{timer.id}")) == 1
