"""The manual checklist of seeds/002, tests 1 to 9, against a running service and a real receiver.

Its bodies are those of the section "Create Timer", as the checklist's own are of an older draft.
"""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime.cli.receiver import running_receiver
from tests.ports import free_port
from tests.system.service import ServiceProcess, running_service
from tests.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[ServiceProcess]:
    async with running_service(tmp_path) as service:
        yield service


def ahead(**time: float) -> str:
    """A time from now, as `date -u` writes it."""
    return (datetime.now(UTC) + timedelta(**time)).strftime("%Y-%m-%dT%H:%M:%SZ")


def http_timer(execute_at: str, url: str, payload: Any = None) -> dict[str, Any]:
    return {
        "execute_at": execute_at,
        "callback": {"type": "http", "url": url, "payload": payload},
    }


async def created(service: ServiceProcess, execute_at: str = "") -> dict[str, Any]:
    """A timer that is far ahead."""
    body = http_timer(execute_at or ahead(hours=1), "https://webhook.site/your-unique-id")
    answer = await service.call("POST", "/timers", body)
    assert answer.status == 201
    return answer.data


async def finished(service: ServiceProcess, id_: str) -> dict[str, Any]:
    """The timer, once it has a final status."""

    async def look() -> dict[str, Any] | None:
        shown = (await service.call("GET", f"/timers/{id_}")).data
        return shown if shown["status"] in {"completed", "failed"} else None

    return await eventually(look, f"timer {id_} to be finished")


async def test_1a_create_timer_http(service: ServiceProcess):
    """201, with an id, status pending and callback_type http."""
    at = ahead(hours=1)
    payload = {"message": "Timer triggered!", "timestamp": at}
    body = http_timer(at, "https://webhook.site/your-unique-id", payload)
    answer = await service.call("POST", "/timers", body)
    assert (answer.status, answer.envelope["code"]) == (201, 0)
    assert answer.data["id"]
    assert (answer.data["status"], answer.data["callback_type"]) == ("pending", "http")


async def test_1b_create_timer_nats(service: ServiceProcess):
    """Without a NATS server, a NATS callback is refused at creation, as the seed says."""
    callback = {
        "type": "nats",
        "topic": "events.timer.triggered",
        "key": "test-key-123",
        "headers": {"X-Event-Type": "timer_triggered"},
        "payload": {"message": "Timer triggered via NATS!"},
    }
    answer = await service.call(
        "POST", "/timers", {"execute_at": ahead(hours=1), "callback": callback}
    )
    assert (answer.status, answer.envelope["code"]) == (400, 2)
    assert answer.envelope["message"].startswith("callback.type: ")


async def test_2_get_timer(service: ServiceProcess):
    """A timer is shown with its complete details, 200."""
    made = await created(service)
    answer = await service.call("GET", f"/timers/{made['id']}")
    assert answer.status == 200
    assert answer.data["callback_config"]["url"] == "https://webhook.site/your-unique-id"
    assert answer.data.keys() >= {
        "id",
        "created_at",
        "updated_at",
        "execute_at",
        "callback_type",
        "callback_config",
        "status",
        "last_error",
        "executed_at",
        "metadata",
    }


async def test_3_list_timers(service: ServiceProcess):
    """200, with an array of timers and where it lies among them all."""
    made = await created(service)
    answer = await service.call("GET", "/timers?status=pending&limit=10")
    assert answer.status == 200
    assert [timer["id"] for timer in answer.data["timers"]] == [made["id"]]
    assert [answer.data[name] for name in ("total", "limit", "offset")] == [1, 10, 0]


async def test_4_update_timer(service: ServiceProcess):
    """An update is answered with the new execute_at, 200."""
    made = await created(service)
    at = ahead(hours=2)
    answer = await service.call("PUT", f"/timers/{made['id']}", {"execute_at": at})
    assert (answer.status, answer.data["execute_at"]) == (200, at)
    assert (await service.call("GET", f"/timers/{made['id']}")).data["execute_at"] == at


async def test_5_cancel_timer(service: ServiceProcess):
    """200, and the status is canceled."""
    made = await created(service)
    answer = await service.call("DELETE", f"/timers/{made['id']}")
    assert (answer.status, answer.data) == (200, {"id": made["id"], "status": "canceled"})
    assert (await service.call("GET", f"/timers/{made['id']}")).data["status"] == "canceled"


async def test_6_health_check(service: ServiceProcess):
    """200 without a key: up, and connected to its database."""
    answer = await service.call("GET", "/healthz", key=None)
    assert answer.status == 200
    assert (answer.data["status"], answer.data["database"]) == ("up", "connected")


async def test_7_authentication_failure(service: ServiceProcess):
    """A wrong key is 401, code 4, unauthorized."""
    answer = await service.call("GET", "/timers", key="wrong-key")
    assert answer.status == 401
    assert answer.envelope == {"code": 4, "message": "unauthorized", "data": None}


async def test_8_timer_execution(service: ServiceProcess):
    """At its time the timer is completed, executed_at is set, and the webhook got the callback."""
    arrivals: list[Any] = []
    async with running_receiver("127.0.0.1", 0, arrivals.append) as port:
        at = ahead(seconds=2)
        body = http_timer(at, f"http://127.0.0.1:{port}/webhook", {"test": "execution"})
        made = await service.call("POST", "/timers", body)
        shown = await finished(service, made.data["id"])
    assert (shown["status"], shown["last_error"]) == ("completed", None)
    assert datetime.fromisoformat(shown["executed_at"]) >= datetime.fromisoformat(at)
    [arrival] = arrivals
    assert (arrival.method, arrival.path) == ("POST", "/webhook")
    assert json.loads(arrival.body) == {"test": "execution"}
    assert arrival.headers["content-type"] == "application/json"
    assert arrival.headers["user-agent"].startswith("duetime/")
    assert arrival.headers["x-timer-id"] == made.data["id"]
    assert 0 <= arrival.lateness < 5000


@pytest.mark.parametrize(
    ("status", "error"), [(500, "HTTP 500"), (404, "HTTP 404"), (None, "connection refused")]
)
async def test_9_failure_handling(service: ServiceProcess, status: int | None, error: str):
    """One single attempt, and at once failed, with the error in last_error."""
    arrivals: list[Any] = []
    async with running_receiver("127.0.0.1", 0, arrivals.append, status=status or 200) as port:
        target = free_port() if status is None else port
        body = http_timer(ahead(seconds=2), f"http://127.0.0.1:{target}/nonexistent")
        made = await service.call("POST", "/timers", body)
        shown = await finished(service, made.data["id"])
    assert shown["status"] == "failed"
    assert error in shown["last_error"]
    assert shown["executed_at"] is not None
    assert len(arrivals) == (0 if status is None else 1)
    log = await service.call("GET", f"/timers/{made.data['id']}/attempts")
    assert [attempt["attempt"] for attempt in log.data["attempts"]] == [1]
