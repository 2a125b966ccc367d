"""An acknowledged write is on the disk, or the server is refused."""

import asyncio
import shutil

import pytest

from duetime.errors import ConfigurationError, StoreUnavailable
from duetime.stores.opening import Options, open_store
from tests.factories import insert, make_timer
from tests.servers.redis import session

UNSAFE = {
    "appendonly": "no",
    "appendfsync": "everysec",
    "no-appendfsync-on-rewrite": "yes",
    "maxmemory-policy": "allkeys-lru",
}


@pytest.mark.parametrize("name", UNSAFE)
async def test_a_server_that_may_forget_is_refused(own, name):
    """The message names the setting, and what it must be; who knows better may say so."""
    async with session(own.url()) as client:
        await client.config_set(name, UNSAFE[name])
    store = open_store(own.url())
    with pytest.raises(ConfigurationError, match=f"^{name}: it is {UNSAFE[name]} .* must be"):
        await store.migrate()
    async with session(own.url()) as client:
        assert await client.dbsize() == 0
    await store.close()
    trusting = open_store(own.url(durability="unchecked"))
    await trusting.migrate()
    await trusting.close()


async def test_what_is_left_behind_may_be_unsafe(own, own_store):
    """A copy from it is the way out."""
    timer = make_timer()
    await insert(own_store, timer)
    async with session(own.url()) as client:
        await client.config_set("appendfsync", "no")
    store = open_store(own.url(), Options(must_exist=True))
    await store.migrate()
    assert await store.scan(None, 10) == [timer]
    await store.close()


async def test_a_server_that_does_not_tell_is_refused(own):
    """As where somebody else runs it; then the URL may vouch for it."""
    async with session(own.url()) as client:
        await client.execute_command("ACL", "SETUSER", "default", "-config")
    store = open_store(own.url())
    with pytest.raises(ConfigurationError, match="durability=unchecked"):
        await store.migrate()
    await store.close()
    trusting = open_store(own.url(durability="unchecked"))
    await trusting.migrate()
    await trusting.close()


async def test_what_was_acknowledged_survives_the_servers_death(own, own_store):
    """Killed with nothing put in order, and started again."""
    timers = [make_timer() for _ in range(300)]
    await insert(own_store, *timers)
    await asyncio.to_thread(own.crash)
    await asyncio.to_thread(own.start)
    assert await own_store.get([timer.id for timer in timers]) == timers


async def test_a_server_that_comes_back_empty_is_refused(own, own_store):
    """Nothing is written to it as if nothing had happened."""
    await insert(own_store, make_timer())
    await asyncio.to_thread(own.stop)
    shutil.rmtree(own.folder / "appendonlydir")
    await asyncio.to_thread(own.start)
    with pytest.raises(StoreUnavailable, match="there are no timers in database 0"):
        await insert(own_store, make_timer())


async def test_a_server_that_comes_back_unsafe_is_refused(own, own_store):
    """As when its settings were changed while it ran, and not in its file."""
    configuration = own.folder / "redis.conf"
    await asyncio.to_thread(own.stop)
    configuration.write_text(configuration.read_text().replace('"always"', '"everysec"'))
    await asyncio.to_thread(own.start)
    with pytest.raises(StoreUnavailable, match="appendfsync: it is everysec"):
        await insert(own_store, make_timer())
    async with session(own.url()) as client:
        await client.config_set("appendfsync", "always")
    await insert(own_store, make_timer())
