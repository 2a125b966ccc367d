"""Runs the conformance suite on every store: a new one only adds its line to STORES."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from duetime.stores import Store
from duetime.stores.memory import MemoryStore
from duetime.stores.opening import open_store
from duetime.stores.sqlite import SqliteStore
from tests.servers.desk import POSTGRES
from tests.servers.fixtures import FreshSchema

# From a test's folder, and for a store on a server the URL of the test's own schema.
STORES: dict[str, Callable[[Path, str], Store]] = {
    "memory": lambda folder, url: MemoryStore(),
    "sqlite": lambda folder, url: SqliteStore(folder / "duetime.db", synchronous="off"),
    **dict.fromkeys(POSTGRES, lambda folder, url: open_store(url)),
}
HEARING = ["memory", *POSTGRES]


@asynccontextmanager
async def empty_store(engine: str, folder: Path, fresh_schema: FreshSchema) -> AsyncIterator[Store]:
    """A store of one kind, ready for use."""
    url = await fresh_schema(engine) if engine in POSTGRES else ""
    opened = STORES[engine](folder, url)
    try:
        await opened.migrate()
        yield opened
    finally:
        await opened.close()


@pytest.fixture(params=STORES)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, fresh_schema: FreshSchema
) -> AsyncIterator[Store]:
    """An empty store of each kind."""
    async with empty_store(request.param, tmp_path, fresh_schema) as opened:
        yield opened


@pytest.fixture(params=HEARING)
async def hearing_store(
    request: pytest.FixtureRequest, tmp_path: Path, fresh_schema: FreshSchema
) -> AsyncIterator[Store]:
    """An empty store of each kind that passes news on."""
    async with empty_store(request.param, tmp_path, fresh_schema) as opened:
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
