"""GET /timers/:id, as seeds/002 describes it."""

import pytest

from tests.api.client import FAILED, Api
from tests.api.seed import HTTP, assert_has

UNKNOWN = "550e8400-e29b-41d4-a716-446655440000"


async def test_success(api: Api):
    """A timer is shown with every field of the seed's answer, secrets in headers included."""
    callback = {
        "type": "http",
        "url": "https://api.example.com/webhook",
        "headers": {"Authorization": "Bearer token123"},
        "payload": {"event": "timer_triggered"},
    }
    made = await api.post("/timers", HTTP | {"callback": callback})
    answer = await api.get(f"/timers/{made.data['id']}")
    assert answer.summary == (200, 0, "success")
    assert_has(
        answer.data,
        {
            "id": made.data["id"],
            "created_at": "2025-10-26T10:30:00Z",
            "updated_at": "2025-10-26T10:30:00Z",
            "execute_at": "2025-10-26T15:30:00Z",
            "callback_type": "http",
            "status": "pending",
            "last_error": None,
            "executed_at": None,
            "metadata": {"client_ref": "order-456"},
        },
    )
    assert_has(answer.data["callback_config"], callback)


async def test_completed(api: Api):
    """A completed timer says when it was executed, and has no error."""
    made = await api.create()
    await api.claim(made["id"])
    api.clock.advance(250)
    await api.finish(made["id"])
    assert_has(
        await api.shown(made["id"]),
        {"status": "completed", "last_error": None, "executed_at": "2025-10-26T10:30:00.250Z"},
    )


async def test_failed(api: Api):
    """A failed timer says when, and what went wrong."""
    made = await api.create()
    await api.claim(made["id"])
    await api.finish(made["id"], FAILED)
    assert_has(
        await api.shown(made["id"]),
        {"status": "failed", "last_error": "HTTP 500", "executed_at": "2025-10-26T10:30:00Z"},
    )


@pytest.mark.parametrize("id_", [UNKNOWN, "01977420-dc00-7012-9f7e-3d5f520271b1", UNKNOWN.upper()])
async def test_not_found(api: Api, id_: str):
    """An unknown id is 404 in the seed's words."""
    answer = await api.get(f"/timers/{id_}")
    assert answer.status == 404
    assert answer.envelope == {"code": 3, "message": "timer not found", "data": None}


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_id_must_be_a_uuid(quick_api: Api, method: str):
    """What is no UUID is 400, naming the id."""
    answer = await quick_api.call(method, "/timers/nonsense", {})
    assert answer.summary == (400, 2, "id: must be a UUID")


async def test_id_in_upper_case(api: Api):
    """UUIDs are the same in either case."""
    made = await api.create()
    assert (await api.get(f"/timers/{made['id'].upper()}")).data["id"] == made["id"]
