"""What the tests of bulk actions share: a desk over each store, on a clock that stands still."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from duetime.bulk import clerk
from duetime.stores import Store
from duetime.stores.memory import MemoryStore
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import FakeClock
from tests.bulk.desk import Desk

SMALL = 4  # timers in a batch, so that few timers are many batches


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clerk, "BATCH", SMALL)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store: Store = MemoryStore()
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "duetime.db", synchronous="off")
    await store.migrate()
    yield store
    await store.close()


@pytest.fixture
def desk(store: Store, clock: FakeClock) -> Desk:
    return Desk(store, clock)
