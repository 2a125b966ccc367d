"""The bodies of seeds/002, as they stand there."""

from typing import Any

EXECUTE_AT = "2025-10-26T15:30:00Z"

HTTP: dict[str, Any] = {
    "execute_at": EXECUTE_AT,
    "callback": {
        "type": "http",
        "url": "https://api.example.com/webhook",
        "headers": {"Authorization": "Bearer token123", "X-Custom-Header": "value"},
        "payload": {"event": "timer_triggered", "user_id": "user123"},
    },
    "metadata": {"client_ref": "order-456"},
}

NATS: dict[str, Any] = {
    "execute_at": EXECUTE_AT,
    "callback": {
        "type": "nats",
        "topic": "events.timer.triggered",
        "key": "user123",
        "headers": {"X-Event-Type": "timer_triggered", "X-Source": "timer-platform"},
        "payload": {"event": "timer_triggered", "user_id": "user123"},
    },
    "metadata": {"client_ref": "order-456"},
}

UPDATE: dict[str, Any] = {
    "execute_at": "2025-10-26T16:00:00Z",
    "callback": {
        "type": "http",
        "url": "https://api.example.com/new-webhook",
        "headers": {"Authorization": "Bearer newtoken"},
        "payload": {"event": "updated_event"},
    },
    "metadata": {"updated": True},
}


def assert_has(data: dict[str, Any], expected: dict[str, Any]) -> None:
    """Every field of the seed is there with its value; more fields may be."""
    assert {name: data.get(name, "(missing)") for name in expected} == expected
