"""PUT /timers/:id of a timer that waits for its next attempt: what begins anew, what goes on."""

from typing import Any

import pytest

from duetime.timer import Kind, Outcome
from tests.api.client import Api, http_callback
from tests.api.seed import assert_has

FAILED = Outcome(kind=Kind.TIMEOUT, error="timed out", retryable=True)
POLICY = {"max_attempts": 3, "initial_interval": "1h", "jitter": 0}


async def waiting(api: Api) -> str:
    """A timer that has failed once a minute ago, at 10:30, and is tried again at 11:30."""
    made = await api.create(delay="0s", retry_policy=POLICY)
    await api.claim(made["id"])
    await api.finish(made["id"], FAILED)
    api.clock.advance(60_000)
    return made["id"]


@pytest.mark.parametrize(
    "body",
    [
        {"tags": ["a"]},
        {"name": "n", "metadata": {"a": 1}},
        {"deadline": "3h"},
        {"retry_policy": POLICY | {"max_attempts": 5}},
        {"callback": http_callback()},
    ],
)
async def test_neither_another_time_nor_another_callback(api: Api, body: dict[str, Any]):
    """Its next attempt stays where it is, and so does what was counted."""
    id_ = await waiting(api)
    changed = await api.put(f"/timers/{id_}", body)
    assert changed.status == 200
    shown = await api.shown(id_)
    assert_has(
        shown,
        {"attempt": 1, "next_attempt_at": "2025-10-26T11:30:00Z", "last_error": "timed out"},
    )
    assert shown["version"] == 4


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ({"callback": http_callback(url="https://api.example.com/other")}, "10:30"),
        ({"delay": "10m"}, "10:41"),
        ({"execute_at": "2025-10-26T12:00:00Z", "tags": ["a"]}, "12:00"),
    ],
)
async def test_another_time_or_another_callback(api: Api, body: dict[str, Any], at: str):
    """It begins anew: at that time, or at once if only the callback is another."""
    id_ = await waiting(api)
    assert (await api.put(f"/timers/{id_}", body)).status == 200
    shown = await api.shown(id_)
    assert_has(shown, {"attempt": 0, "execute_at": f"2025-10-26T{at}:00Z", "last_error": None})
    [due] = await api.store.get([id_])
    assert due.wake_at == max(due.execute_at, api.clock.now())
    assert due.progress.occurrence == 2
