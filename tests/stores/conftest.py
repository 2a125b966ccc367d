"""Runs the conformance suite on every store: a new one only adds its line to STORES."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from duetime.stores import Store
from duetime.stores.memory import MemoryStore
from duetime.stores.sqlite import SqliteStore

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / "duetime.db", synchronous="off"),
}


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store of each kind."""
    opened = STORES[request.param](tmp_path)
    await opened.migrate()
    yield opened
    await opened.close()


@pytest.fixture(params=["memory"])
async def hearing_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store of each kind that passes news on."""
    opened = STORES[request.param](tmp_path)
    await opened.migrate()
    yield opened
    await opened.close()


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
