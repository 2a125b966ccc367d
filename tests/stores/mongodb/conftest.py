"""What the tests of the MongoDB store share."""

from collections.abc import AsyncIterator

import pytest
from pymongo import AsyncMongoClient

from duetime.stores.mongodb.address import Address
from duetime.stores.mongodb.connection import Database, database_of
from duetime.stores.mongodb.store import MongodbStore
from tests.servers.fixtures import FreshDatabase


@pytest.fixture
async def url(fresh_database: FreshDatabase) -> str:
    """The URL of an empty database."""
    return await fresh_database("mongodb")


@pytest.fixture
async def mongodb(url: str) -> AsyncIterator[MongodbStore]:
    """An empty MongoDB store."""
    opened = MongodbStore(Address.parse(url))
    await opened.migrate()
    yield opened
    await opened.close()


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    """The database of the test, as somebody else sees it."""
    async with AsyncMongoClient(url) as client:
        yield database_of(client, Address.parse(url))
