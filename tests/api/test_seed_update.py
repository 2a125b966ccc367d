"""PUT /timers/:id, as seeds/002 describes it."""

from typing import Any

import pytest

from tests.api.client import Api
from tests.api.seed import HTTP, NATS, UPDATE, assert_has

UNKNOWN = "550e8400-e29b-41d4-a716-446655440000"


async def _seeded(api: Api) -> str:
    id_ = (await api.post("/timers", HTTP)).data["id"]
    api.clock.advance(30 * 60_000)
    return id_


async def test_success(api: Api):
    """The seed's body changes everything it names, and is answered with the seed's fields."""
    id_ = await _seeded(api)
    answer = await api.put(f"/timers/{id_}", UPDATE, Content_Type="application/json")
    assert answer.summary == (200, 0, "timer updated successfully")
    assert_has(
        answer.data,
        {
            "id": id_,
            "created_at": "2025-10-26T10:30:00Z",
            "updated_at": "2025-10-26T11:00:00Z",
            "execute_at": "2025-10-26T16:00:00Z",
            "callback_type": "http",
            "status": "pending",
            "executed_at": None,
        },
    )
    shown = await api.shown(id_)
    assert_has(shown["callback_config"], UPDATE["callback"])
    assert shown["metadata"] == {"updated": True}


@pytest.mark.parametrize("field", ["execute_at", "callback", "metadata"])
async def test_partial(api: Api, field: str):
    """Only what is named changes."""
    id_ = await _seeded(api)
    before = await api.shown(id_)
    assert (await api.put(f"/timers/{id_}", {field: UPDATE[field]})).status == 200
    after = await api.shown(id_)
    changed = {name for name in before if before[name] != after[name]}
    shown_as = {
        "execute_at": {"execute_at", "next_attempt_at"},
        "callback": {"callback_config"},
        "metadata": {"metadata"},
    }
    assert changed == {"updated_at", "version", *shown_as[field]}


async def test_nothing_is_named(api: Api):
    """All fields are optional: an empty object is an update that changes nothing asked for."""
    id_ = await _seeded(api)
    before = await api.shown(id_)
    assert (await api.put(f"/timers/{id_}", {})).status == 200
    after = await api.shown(id_)
    assert {n for n in before if before[n] != after[n]} == {"updated_at", "version"}


@pytest.mark.parametrize("status", ["completed", "failed", "canceled", "executing"])
async def test_status_forbids(api: Api, status: str):
    """Only waiting timers can be updated; the refusal has the seed's words."""
    timer = await api.bring_to(status)
    answer = await api.put(f"/timers/{timer['id']}", UPDATE)
    assert answer.status == 400
    assert answer.envelope == {
        "code": 2,
        "message": f"cannot update timer with status '{status}'",
        "data": None,
    }
    assert await api.shown(timer["id"]) == timer


async def test_into_the_past(api: Api):
    """A new execute_at in the past is refused, and nothing changes."""
    id_ = await _seeded(api)
    before = await api.shown(id_)
    answer = await api.put(f"/timers/{id_}", {"execute_at": "2025-10-26T10:59:59Z"})
    assert answer.summary == (400, 2, "execute_at must be in the future")
    assert await api.shown(id_) == before


@pytest.mark.promise("bad-input")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"execute_at": "soon"}, 'execute_at: must be a time such as "2030-01-01T09:00:00Z"'),
        ({"callback": {"type": "http"}}, "callback.url: required"),
        ({"callback": {"url": "https://example.com/"}}, "callback.type: required"),
        (
            {"callback": NATS["callback"]},
            "callback.type: nats is not configured on this server; whoever runs it sets NATS_URL",
        ),
        (
            {"callback": {"type": "http", "url": "ftp://x/"}},
            "callback.url: must be an http or https URL",
        ),
        ({"id": UNKNOWN}, "id: unknown field"),
        ({"created_at": "2025-10-26T10:30:00Z"}, "created_at: unknown field"),
        ({"status": "completed"}, "status: unknown field"),
        ([], "body: must be an object, not an array"),
    ],
)
async def test_same_rules_as_create(quick_api: Api, body: Any, message: str):
    """New values obey the same rules as at creation; id and created_at cannot be changed."""
    id_ = await _seeded(quick_api)
    assert (await quick_api.put(f"/timers/{id_}", body)).summary == (400, 2, message)


async def test_callback_is_replaced_as_a_whole(api: Api):
    """A new callback takes nothing over from the old one."""
    id_ = await _seeded(api)
    await api.put(f"/timers/{id_}", {"callback": {"type": "http", "url": "https://example.com/"}})
    config = (await api.shown(id_))["callback_config"]
    assert (config["headers"], config["payload"]) == ({}, None)


async def test_not_found(api: Api):
    """An unknown id is 404."""
    answer = await api.put(f"/timers/{UNKNOWN}", UPDATE)
    assert answer.summary == (404, 3, "timer not found")
