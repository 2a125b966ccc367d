"""Fire, pause, resume and redrive a timer."""

import pytest

from tests.api.client import Api
from tests.api.seed import assert_has


async def test_fire(api: Api):
    """Firing makes a waiting timer due now."""
    made = await api.create(delay="1h")
    api.clock.advance(60_000)
    answer = await api.post(f"/timers/{made['id']}/fire")
    assert answer.summary == (200, 0, "timer fires now")
    assert_has(answer.data, {"status": "pending", "execute_at": "2025-10-26T10:31:00Z"})
    [due] = await api.store.due(range(4096), None, api.clock.now(), 10)
    assert due.id == made["id"]


async def test_pause_and_resume(api: Api):
    """A paused timer is not due, whatever the time; resumed, it keeps its time."""
    made = await api.create(delay="1h")
    paused = await api.post(f"/timers/{made['id']}/pause")
    assert paused.summary == (200, 0, "timer paused successfully")
    assert paused.data["status"] == "paused"
    assert (await api.shown(made["id"]))["next_attempt_at"] is None
    assert await api.store.due(range(4096), None, 2**50, 10) == []
    resumed = await api.post(f"/timers/{made['id']}/resume")
    assert resumed.summary == (200, 0, "timer resumed successfully")
    assert_has(resumed.data, {"status": "pending", "execute_at": made["execute_at"]})


@pytest.mark.promise("late-fires")
async def test_resume_late(api: Api):
    """A timer whose time passed while it was paused is due at once."""
    made = await api.create(delay="1m")
    await api.post(f"/timers/{made['id']}/pause")
    api.clock.advance(3_600_000)
    await api.post(f"/timers/{made['id']}/resume")
    shown = await api.shown(made["id"])
    assert shown["next_attempt_at"] == "2025-10-26T11:30:00Z"


async def test_update_paused(api: Api):
    """A paused timer can be updated, and stays paused."""
    made = await api.bring_to("paused")
    answer = await api.put(f"/timers/{made['id']}", {"delay": "2h"})
    assert_has(answer.data, {"status": "paused", "execute_at": "2025-10-26T12:30:00Z"})


@pytest.mark.parametrize(
    ("action", "allowed"),
    [
        ("fire", {"pending", "paused"}),
        ("pause", {"pending"}),
        ("resume", {"paused"}),
        ("redrive", {"failed"}),
    ],
)
@pytest.mark.parametrize(
    "status", ["pending", "executing", "completed", "failed", "canceled", "paused"]
)
async def test_status_decides(quick_api: Api, action: str, allowed: set[str], status: str):
    """An action that the status does not allow is refused in the seed's words."""
    timer = await quick_api.bring_to(status)
    answer = await quick_api.post(f"/timers/{timer['id']}/{action}")
    if status in allowed:
        assert answer.status == 200
    else:
        assert answer.summary == (400, 2, f"cannot {action} timer with status '{status}'")
        assert await quick_api.shown(timer["id"]) == timer


@pytest.mark.parametrize("action", ["fire", "pause", "resume", "redrive"])
async def test_no_body_expected(quick_api: Api, action: str):
    """An action takes no body, but for an empty object that some clients always send."""
    status = {"resume": "paused", "redrive": "failed"}.get(action, "pending")
    paused = await quick_api.bring_to(status)
    path = f"/timers/{paused['id']}/{action}"
    assert (await quick_api.post(path, {"at": "now"})).summary == (400, 2, "body: none is expected")
    assert (await quick_api.post(path, b" {} ")).status == 200


@pytest.mark.parametrize("action", ["fire", "pause", "resume", "redrive"])
async def test_action_on_unknown(quick_api: Api, action: str):
    """An unknown timer is 404."""
    path = f"/timers/01977420-dc00-7012-9f7e-3d5f520271b1/{action}"
    assert (await quick_api.post(path)).summary == (404, 3, "timer not found")
