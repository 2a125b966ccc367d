"""A store on Redis, and a server that a test may do anything to."""

from collections.abc import AsyncIterator

import pytest

from duetime.stores.redis.address import Address
from duetime.stores.redis.store import RedisStore
from tests.servers.fixtures import FreshDatabase, OwnServer
from tests.servers.redis import RedisServer


@pytest.fixture
async def redis_url(fresh_database: FreshDatabase) -> str:
    """The URL of an empty database."""
    return await fresh_database("redis")


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[RedisStore]:
    """An empty store."""
    opened = RedisStore(Address.parse(redis_url))
    await opened.migrate()
    yield opened
    await opened.close()


@pytest.fixture
def own(own_server: OwnServer) -> RedisServer:
    """A server of the test's own."""
    return own_server("redis")


@pytest.fixture
async def own_store(own: RedisServer) -> AsyncIterator[RedisStore]:
    """An empty store on it."""
    opened = RedisStore(Address.parse(own.url()))
    await opened.migrate()
    yield opened
    await opened.close()
