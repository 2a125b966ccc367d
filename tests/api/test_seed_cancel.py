"""DELETE /timers/:id, as seeds/002 describes it."""

import pytest

from tests.api.client import Api
from tests.api.seed import assert_has


async def test_success(api: Api):
    """A pending timer is canceled, with the seed's answer."""
    made = await api.create()
    api.clock.advance(1000)
    answer = await api.delete(f"/timers/{made['id']}")
    assert answer.summary == (200, 0, "timer canceled successfully")
    assert answer.data == {"id": made["id"], "status": "canceled"}


async def test_stays_in_the_database(api: Api):
    """A canceled timer can still be looked at, and says when it was changed."""
    made = await api.create()
    api.clock.advance(1000)
    await api.delete(f"/timers/{made['id']}")
    assert_has(
        await api.shown(made["id"]),
        {"status": "canceled", "executed_at": None, "updated_at": "2025-10-26T10:30:01Z"},
    )


@pytest.mark.parametrize("status", ["completed", "failed", "executing"])
async def test_status_forbids(api: Api, status: str):
    """What has run, or runs, cannot be canceled; the refusal has the seed's words."""
    timer = await api.bring_to(status)
    answer = await api.delete(f"/timers/{timer['id']}")
    assert answer.status == 400
    assert answer.envelope == {
        "code": 2,
        "message": f"cannot cancel timer with status '{status}'",
        "data": None,
    }
    assert await api.shown(timer["id"]) == timer


async def test_again(api: Api):
    """A repeated cancel answers like the first one, and changes nothing."""
    timer = await api.bring_to("canceled")
    api.clock.advance(1000)
    answer = await api.delete(f"/timers/{timer['id']}")
    assert answer.data == {"id": timer["id"], "status": "canceled"}
    assert await api.shown(timer["id"]) == timer


@pytest.mark.parametrize("action", ["fire", "resume", "pause"])
async def test_cannot_be_undone(api: Api, action: str):
    """A canceled timer stays canceled."""
    timer = await api.bring_to("canceled")
    answer = await api.post(f"/timers/{timer['id']}/{action}")
    assert answer.summary == (400, 2, f"cannot {action} timer with status 'canceled'")


async def test_is_never_due(api: Api):
    """Canceled timers are not processed by the scheduler."""
    await api.bring_to("canceled")
    assert await api.store.due(range(4096), None, 2**50, 10) == []


async def test_not_found(api: Api):
    """An unknown id is 404."""
    answer = await api.delete("/timers/550e8400-e29b-41d4-a716-446655440000")
    assert answer.summary == (404, 3, "timer not found")
