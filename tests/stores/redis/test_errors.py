"""What a server or the line to it can throw, in words that say what to do."""

import asyncio
from urllib.parse import quote

import pytest
import redis.exceptions
from msgspec import Raw
from redis.exceptions import BusyLoadingError, ReadOnlyError, ResponseError

from duetime import ids
from duetime.errors import ConfigurationError, StoreUnavailable
from duetime.stores import Change, Insert, Key, News, Record
from duetime.stores.opening import open_store
from duetime.stores.redis import store as stores
from duetime.stores.redis.errors import is_answer, meaning
from duetime.timer import HttpCallback
from tests.factories import NOW, claim_of, completed, insert, make_spec, make_timer
from tests.ports import free_port
from tests.servers.certificates import AUTHORITY
from tests.servers.redis import session
from tests.stores.translations import refused


async def test_a_wrong_password(own):
    """It is named as what is wrong, and not repeated."""
    words = await refused(own.url().replace(own.password, "hunter2"))
    assert words == "Redis: the user or the password of DATABASE_URL is wrong"


async def test_no_password(own):
    """A server that wants one says so."""
    words = await refused(own.url().replace(f":{own.password}@", ""))
    assert words == "Redis: it wants a password, and DATABASE_URL has none"


async def test_nobody_there():
    """The message says where it looked."""
    port = free_port()
    assert f"127.0.0.1:{port}" in await refused(f"redis://127.0.0.1:{port}")


async def test_a_replica(own):
    """It may be behind, and takes no writes."""
    async with session(own.url()) as client:
        await client.replicaof("127.0.0.1", str(free_port()))
        assert "is a replica" in await refused(own.url(), ConfigurationError)


async def test_a_server_that_stalls_while_it_is_looked_at(redis_url, monkeypatch):
    """It is told within a time, and the store can be closed."""
    monkeypatch.setattr(stores, "_OPENED_WITHIN", 0.05)

    async def stalled(*_args, **_options):
        await asyncio.Event().wait()

    monkeypatch.setattr(stores, "check", stalled)
    assert await refused(redis_url) == "Redis: no answer in time"


@pytest.mark.parametrize("call", ["insert", "get", "get_by_key"])
async def test_a_text_that_cannot_be_written(redis, call):
    """It is refused as by the other stores, and nothing is written."""
    timer = make_timer(timer_id="\ud800")
    asked = {"insert": [Insert(timer)], "get": ["\ud800"], "get_by_key": [Key.of(timer)]}
    with pytest.raises(StoreUnavailable, match="surrogates"):
        await getattr(redis, call)(asked[call])
    assert await redis.scan(None, 9) == []


async def test_a_cluster(own_server):
    """Keys lie on many servers there, and no script reaches them all."""
    server = own_server("redis", settings={"cluster-enabled": "yes"})
    assert "Redis Cluster" in await refused(server.url(), ConfigurationError)


async def test_a_newer_database(redis, redis_url):
    """It is left as it is."""
    async with session(redis_url) as client:
        await client.set(redis._name("schema"), stores.SCHEMA + 1)
    words = await refused(redis_url, ConfigurationError)
    assert f"made by a newer Duetime (it is at number {stores.SCHEMA + 1}" in words


async def test_tls(own_server):
    """With the authority that vouches for the server; without, it is not trusted."""
    server = own_server("redis", tls=True)
    store = open_store(server.url(ssl_ca=str(AUTHORITY)))
    await store.migrate()
    await insert(store, make_timer())
    await store.close()
    assert "certificate" in (await refused(server.url())).lower()


async def test_a_user_with_few_rights(own):
    """Those of the prefix, and of what the store asks, are enough; without them it is told."""
    rights = [
        *("on", ">p@ss", "~duetime:*", "&duetime:*", "+@read", "+@write", "+@scripting"),
        *("+@pubsub", "+select", "+client", "+info", "+ping", "+config|get"),
    ]
    async with session(own.url()) as client:
        await client.execute_command("ACL", "SETUSER", "timers", *rights)
    url = own.url().replace(f":{own.password}@", f"timers:{quote('p@ss')}@")
    store = open_store(url)
    await store.migrate()
    timer = make_timer()
    await insert(store, timer)
    assert await store.get([timer.id]) == [timer]
    await store.announce(News(is_about_nodes=True))
    await store.close()
    assert "may not do that" in await refused(f"{url}?prefix=other")


@pytest.mark.parametrize(
    ("error", "words", "is_over"),
    [
        (BusyLoadingError("LOADING"), "still reading its file", True),
        (ReadOnlyError("READONLY"), "is a replica", True),
        (ResponseError("MISCONF"), "MISCONF", True),
        (TimeoutError(), "no answer in time", False),
        (redis.exceptions.ConnectionError("Connection closed"), "Connection closed", False),
        (OSError(), "OSError", False),
    ],
)
def test_what_the_server_says_is_over(error, words, is_over):
    """What the line or the clock says is not: the server may still be at work."""
    assert words in meaning(error)
    assert is_answer(error) == is_over


def heavy():
    payload = Raw(b'"' + b"x" * 500_000 + b'"')
    spec = make_spec(callback=HttpCallback(url="https://example.com", payload=payload))
    return make_timer(spec=spec)


async def test_a_server_without_memory_takes_no_new_timers(own_server):
    """And nothing of them; those that it has still fire, finish and are dropped."""
    server = own_server("redis", settings={"maxmemory": "8mb"})
    store = open_store(server.url())
    await store.migrate()
    timers = [heavy() for _ in range(40)]
    inserting = [store.insert([Insert(timer)]) for timer in timers]
    answers = await asyncio.gather(*inserting, return_exceptions=True)
    refusals = [str(answer) for answer in answers if isinstance(answer, StoreUnavailable)]
    assert set(refusals) == {"Redis: it has no memory left: raise its maxmemory"}
    stored = [timer for timer in await store.get([timer.id for timer in timers]) if timer]
    assert len(stored) == len(timers) - len(refusals)
    assert len(await store.due(ids.ALL_SHARDS, None, 2 * NOW, 100)) == len(stored)
    claim = claim_of(stored[0])
    assert await store.put_record(None, Record(kind="node", name="n"))
    assert await store.apply([claim]) == [True]
    assert await store.apply([Change(claim.new, completed(stored[0]))]) == [True]
    assert await store.purge(ids.ALL_SHARDS, NOW + 1, 10) == 1
    assert await store.get([stored[0].id]) == [None]
    await store.close()
