"""Runs the conformance suite on every store: a new one only adds its line to STORES."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from asyncpg.transaction import Transaction

from duetime.stores import Store
from duetime.stores.memory import MemoryStore
from duetime.stores.opening import kind_of, open_store
from duetime.stores.postgres.address import Address
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.sqlite.store import SqliteStore
from duetime.stores.wrapper import Wrapper
from duetime.timer import Timer
from tests.servers.fixtures import FreshDatabase
from tests.servers.kinds import DATABASES, POSTGRES
from tests.waiting import eventually

# From a test's folder, and for a store on a server the URL of the test's own schema.
STORES: dict[str, Callable[[Path, str], Store]] = {
    "memory": lambda folder, url: MemoryStore(),
    "memory-wrapped": lambda folder, url: Wrapper(MemoryStore()),
    "sqlite": lambda folder, url: SqliteStore(folder / "duetime.db", synchronous="off"),
    **dict.fromkeys(DATABASES, lambda folder, url: open_store(url)),
}
# The name of a server begins with a scheme of its store's URLs.
TRAITS = {engine: kind_of(f"{engine.partition('-')[0]}://").traits for engine in STORES}
HEARING = [engine for engine, traits in TRAITS.items() if traits.passes_news]
KEEPING = [engine for engine, traits in TRAITS.items() if not traits.drops_by_itself]


@asynccontextmanager
async def empty_store(
    engine: str, folder: Path, fresh_database: FreshDatabase
) -> AsyncIterator[Store]:
    """A store of one kind, ready for use."""
    url = await fresh_database(engine) if engine in DATABASES else ""
    opened = STORES[engine](folder, url)
    try:
        await opened.migrate()
        yield opened
    finally:
        await opened.close()


@pytest.fixture(params=STORES)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, fresh_database: FreshDatabase
) -> AsyncIterator[Store]:
    """An empty store of each kind."""
    async with empty_store(request.param, tmp_path, fresh_database) as opened:
        yield opened


@pytest.fixture(params=KEEPING)
async def keeping_store(
    request: pytest.FixtureRequest, tmp_path: Path, fresh_database: FreshDatabase
) -> AsyncIterator[Store]:
    """An empty store of each kind that drops nothing by itself, in a time that no test sees."""
    async with empty_store(request.param, tmp_path, fresh_database) as opened:
        yield opened


@pytest.fixture(params=HEARING)
async def hearing_store(
    request: pytest.FixtureRequest, tmp_path: Path, fresh_database: FreshDatabase
) -> AsyncIterator[Store]:
    """An empty store of each kind that passes news on."""
    async with empty_store(request.param, tmp_path, fresh_database) as opened:
        yield opened


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where a test's SQLite file goes."""
    return tmp_path / "duetime.db"


@pytest.fixture
async def sqlite(database: Path) -> AsyncIterator[SqliteStore]:
    """An empty SQLite store."""
    opened = SqliteStore(database, synchronous="off")
    await opened.migrate()
    yield opened
    await opened.close()


@pytest.fixture(params=POSTGRES)
async def postgres_url(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> str:
    """The URL of an empty schema, on a server of each version."""
    return await fresh_database(request.param)


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """An empty PostgreSQL store."""
    opened = PostgresStore(Address.parse(postgres_url))
    await opened.migrate()
    yield opened
    await opened.close()


@pytest.fixture
async def session(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else's session, in the schema of the test."""
    async with somebody(postgres_url) as connection:
        yield connection


@asynccontextmanager
async def somebody(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A session of somebody else, in the schema that the URL of a store names."""
    server, _, schema = url.partition("?schema=")
    connection = await asyncpg.connect(server, server_settings={"search_path": schema})
    try:
        yield connection
    finally:
        await connection.close()


async def hold(session: asyncpg.Connection, timer: Timer) -> Transaction:
    """Lock a timer's state, until the transaction that is returned ends."""
    transaction = session.transaction()
    await transaction.start()
    await session.execute("SELECT FROM states WHERE id = $1 FOR UPDATE", timer.id)
    return transaction


async def until_waiting(session: asyncpg.Connection, count: int) -> None:
    """Return once so many statements of the test wait for a lock."""

    async def are_waiting() -> bool:
        await session.execute("SELECT pg_stat_clear_snapshot()")
        found = await session.fetchval(
            "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) "
            "WHERE NOT granted AND query LIKE '%' || current_schema() || '%'"
        )
        return bool(found == count)

    await eventually(are_waiting, f"{count} statements to wait for a lock")


async def scanned(store: Store, limit: int, after: str | None = None) -> list[Timer]:
    """Everything behind a timer, part by part."""
    found: list[Timer] = []
    while part := await store.scan(after, limit):
        assert len(part) <= limit
        found += part
        after = part[-1].id
    return found
