"""GET /healthz, as seeds/002 describes it, and /readyz beside it."""

import asyncio

import pytest

from duetime.api import health
from duetime.nodes import EngineStatus
from duetime.stores.memory import MemoryStore
from duetime.testing import FlakyStore
from tests.api.client import Api
from tests.api.conftest import MakeApi
from tests.api.seed import assert_has


class FakeEngine:
    """An engine that is as a test says."""

    def __init__(self, *, alive: bool = True, writable: bool = True, behind_ms: int = 0) -> None:
        self._status = EngineStatus(alive=alive, writable=writable, behind_ms=behind_ms)

    def notice(self, timer):
        pass

    def status(self) -> EngineStatus:
        return self._status

    def lag(self) -> int:
        return 0


async def test_healthy(api: Api):
    """With its database, the service is up; nobody needs a key to ask."""
    answer = await api.call("GET", "/healthz", key=None)
    assert answer.status == 200
    assert answer.envelope == {
        "code": 0,
        "message": "healthy",
        "data": {
            "status": "up",
            "database": "connected",
            "nats": "not_configured",
            "timestamp": "2025-10-26T10:30:00Z",
        },
    }


@pytest.mark.parametrize("is_connected", [True, False])
async def test_nats(make_api: MakeApi, is_connected: bool):  # noqa: FBT001
    """It tells how NATS is, and is up without it: only its callbacks wait."""
    api = make_api(MemoryStore(), is_nats_connected=lambda: is_connected)
    answer = await api.call("GET", "/healthz", key=None)
    assert answer.status == 200
    assert answer.data["nats"] == ("connected" if is_connected else "disconnected")


async def test_database_is_gone(make_api: MakeApi):
    """Without its database, it is degraded: 500 with the seed's answer."""
    store = FlakyStore(MemoryStore())
    store.failing = "before"
    answer = await make_api(store).call("GET", "/healthz", key=None)
    assert answer.status == 500
    assert answer.envelope == {
        "code": 1,
        "message": "database connection failed",
        "data": {
            "status": "degraded",
            "database": "disconnected",
            "nats": "not_configured",
            "timestamp": "2025-10-26T10:30:00Z",
        },
    }


async def test_database_hangs(make_api: MakeApi, monkeypatch: pytest.MonkeyPatch):
    """A database that does not answer counts as gone after a fast timeout, at most 5 seconds."""
    assert health.PING_TIMEOUT <= 5
    monkeypatch.setattr(health, "PING_TIMEOUT", 0.01)
    store = MemoryStore()
    store.ping = asyncio.Event().wait
    answer = await make_api(store).call("GET", "/healthz")
    assert answer.summary == (500, 1, "database connection failed")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_key_is_ignored(quick_api: Api, path: str):
    """A wrong key does no harm where none is needed."""
    assert (await quick_api.call("GET", path, key="wrong")).status == 200


async def test_ready_without_engine(quick_api: Api):
    """A node with the API alone is ready when its database answers."""
    answer = await quick_api.call("GET", "/readyz", key=None)
    assert answer.summary == (200, 0, "ready")
    assert answer.data == {
        "database": "connected",
        "engine": "off",
        "writable": None,
        "behind_ms": None,
        "timestamp": "2025-10-26T10:30:00Z",
    }


async def test_ready_with_engine(make_api: MakeApi):
    """A node with an engine tells how far it is behind."""
    api = make_api(MemoryStore(), engine=FakeEngine(behind_ms=40))
    answer = await api.call("GET", "/readyz", key=None)
    assert answer.status == 200
    assert_has(answer.data, {"engine": "alive", "writable": True, "behind_ms": 40})


@pytest.mark.parametrize(
    ("engine", "shown"),
    [
        (FakeEngine(alive=False), {"engine": "stalled", "writable": True}),
        (FakeEngine(writable=False), {"engine": "alive", "writable": False}),
    ],
)
async def test_not_ready(make_api: MakeApi, engine: FakeEngine, shown: dict):
    """An engine that stands still, or cannot write, makes the node not ready."""
    answer = await make_api(MemoryStore(), engine=engine).call("GET", "/readyz", key=None)
    assert answer.summary == (503, 9, "not ready")
    assert answer.headers["retry-after"] == "1"
    assert_has(answer.data, shown)


async def test_not_ready_without_database(make_api: MakeApi):
    """Without its database, a node is not ready."""
    store = FlakyStore(MemoryStore())
    store.failing = "before"
    answer = await make_api(store).call("GET", "/readyz", key=None)
    assert answer.summary == (503, 9, "not ready")
    assert answer.data["database"] == "disconnected"
