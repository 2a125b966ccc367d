"""Stores and sessions for the tests that are about Cassandra alone."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from duetime.stores.cassandra.address import Address
from duetime.stores.cassandra.store import CassandraStore
from tests.servers.cassandra import administrator
from tests.servers.fixtures import FreshDatabase

OpenStore = Callable[..., Any]


@pytest.fixture
async def cassandra_url(fresh_database: FreshDatabase) -> str:
    """The URL of an empty keyspace."""
    return await fresh_database("cassandra")


@pytest.fixture
async def open_store() -> AsyncIterator[OpenStore]:
    """Opens stores, and closes them after the test."""
    opened: list[CassandraStore] = []

    async def open_one(url: str, **options: Any) -> CassandraStore:
        store = CassandraStore(Address.parse(url), **options)
        opened.append(store)
        await store.migrate()
        return store

    yield open_one
    for store in opened:
        await store.close()


@pytest.fixture
async def cassandra(cassandra_url: str, open_store: OpenStore) -> CassandraStore:
    """An empty Cassandra store."""
    return await open_store(cassandra_url)


@pytest.fixture
def statements_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[CassandraStore], list[str]]:
    """Begins to note which statements a store's reads run."""

    def watch(store: CassandraStore) -> list[str]:
        session = store._rooms.reads._session
        run, seen = session.run, []

        async def watched(statement: str, values: Any = ()) -> Any:
            seen.append(statement)
            return await run(statement, values)

        monkeypatch.setattr(session, "run", watched)
        return seen

    return watch


@pytest.fixture
def somebody(cassandra: CassandraStore, cassandra_url: str) -> Iterator[Any]:
    """Somebody else's session, in the keyspace of the test."""
    server, _, keyspace = cassandra_url.rpartition("/")
    session = administrator(f"{server}/").cluster.connect(keyspace)
    yield session
    session.shutdown()
