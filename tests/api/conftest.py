"""What the tests of the API share: the app over each store, with a clock that stands still."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from duetime.api.app import create_app
from duetime.delivery.egress import Egress
from duetime.delivery.http import HttpSender
from duetime.ledger import Limits
from duetime.service import Service
from duetime.stores import Store
from duetime.stores.memory import MemoryStore
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import FakeClock, RecordingSender
from duetime.timer import Callback
from duetime.vault import Vault
from tests.api.client import KEY, Api
from tests.api.gated import GatedStore

VAULT = Vault([bytes(range(32))])
NOW = 1_761_474_600_000  # 2025-10-26T10:30:00Z, when the seed's examples happen

MakeApi = Callable[..., Api]


class CheckingSender(RecordingSender):
    """Sends nothing, but finds the same fault with callbacks as the real one."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._real = HttpSender(clock, Egress.parse(""))

    def problem(self, callback: Callback) -> str | None:
        return self._real.problem(callback)

    async def close(self) -> None:
        await self._real.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
async def sender(clock: FakeClock) -> AsyncIterator[CheckingSender]:
    sender = CheckingSender(clock)
    yield sender
    await sender.close()


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store: Store = MemoryStore()
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "duetime.db", synchronous="off")
    await store.migrate()
    yield store
    await store.close()


@pytest.fixture
def make_api(clock: FakeClock, sender: CheckingSender) -> MakeApi:
    """Puts the app together over a store of the test's own."""

    def make(
        store: Store,
        *,
        min_delay: int = 0,
        engine: Any = None,
        marks: Any = None,
        are_groups_made_by_timers: bool = True,
        vault: Vault = VAULT,
        live: Any = None,
        **limits: Any,
    ) -> Api:
        options = {
            "engine": engine,
            "min_delay": min_delay,
            "limits": Limits(**(marks or {})),
            "are_groups_made_by_timers": are_groups_made_by_timers,
            "vault": vault,
            "live": live,
        }
        service = Service(store, sender, clock, **options)
        return Api(create_app(service, KEY, **limits), service, store, clock, sender)

    return make


@pytest.fixture
def api(make_api: MakeApi, store: Store) -> Api:
    """The app over each of the stores."""
    return make_api(store)


@pytest.fixture
def quick_api(make_api: MakeApi) -> Api:
    """The app over the memory store, for what no store has a part in."""
    return make_api(MemoryStore())


@pytest.fixture
async def acme(api: Api) -> Api:
    """The app, with a tenant."""
    assert (await api.post("/tenants", {"name": "acme"})).status == 201
    return api


@pytest.fixture
def gated(store: Store) -> GatedStore:
    """A store that holds every create until a test lets it."""
    return GatedStore(store, "insert")
