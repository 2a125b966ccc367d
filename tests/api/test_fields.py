"""The fields of a timer beyond the seed are kept, have defaults, and come back."""

from typing import Any

import pytest

from tests.api.client import Api, http_callback, timer_body
from tests.api.seed import assert_has


async def test_fields_come_back(api: Api):
    """Everything that can be said of a timer is stored and shown."""
    policy = {
        "max_attempts": 5,
        "initial_interval": "2s",
        "backoff_multiplier": 1.5,
        "max_interval": "1m",
        "max_duration": "1h",
        "jitter": 0.25,
    }
    callback = http_callback(
        method="PUT", timeout="5s", payload=[1], headers={"A": "b"}, follow_response=True
    )
    made = await api.create(
        callback=callback,
        group="g",
        timer_id="t",
        name="Name",
        tags=["a", "b"],
        metadata=None,
        correlation_id="c",
        retry_policy=policy,
        deadline="90s",
    )
    shown = await api.shown(made["id"])
    assert_has(
        shown,
        {
            "group": "g",
            "timer_id": "t",
            "name": "Name",
            "tags": ["a", "b"],
            "metadata": None,
            "correlation_id": "c",
            "retry_policy": policy,
            "deadline": "1m30s",
            "version": 1,
            "attempt": 0,
            "occurrence": 1,
            "failures": 0,
            "max_attempts": policy["max_attempts"],
            "on_failure": None,
            "on_failure_timer": None,
            "tells_of": None,
            "outcome": None,
            "next_attempt_at": shown["execute_at"],
        },
    )
    assert shown["callback_config"] == callback | {"credential": None}
    await api.put(f"/timers/{made['id']}", {"name": None, "deadline": None, "tags": []})
    shown = await api.shown(made["id"])
    assert_has(shown, {"name": None, "deadline": None, "tags": [], "retry_policy": policy})


async def test_defaults(api: Api):
    """What is not said is the seed's: one attempt, POST, thirty seconds."""
    shown = await api.shown((await api.create())["id"])
    assert shown["callback_config"] == http_callback(
        method="POST",
        timeout="30s",
        headers={},
        payload=None,
        credential=None,
        follow_response=False,
    )
    assert shown["retry_policy"] == {
        "max_attempts": 1,
        "initial_interval": "1s",
        "backoff_multiplier": 2.0,
        "max_interval": "1h",
        "max_duration": None,
        "jitter": 0.1,
    }
    assert_has(
        shown, {"group": "default", "name": None, "tags": [], "deadline": None, "metadata": None}
    )


@pytest.mark.parametrize(
    ("header", "body", "expected"),
    [
        ({"X_Correlation_ID": "from-header"}, {}, "from-header"),
        ({"X_Correlation_ID": "from-header"}, {"correlation_id": "from-body"}, "from-body"),
        ({}, {"correlation_id": "from-body"}, "from-body"),
    ],
)
async def test_correlation_id(quick_api: Api, header: Any, body: Any, expected: str):
    """The correlation id is the body's, or else the header's."""
    answer = await quick_api.post("/timers", timer_body(**body), **header)
    assert answer.data["correlation_id"] == expected
    by_key = await quick_api.put("/groups/g/timers/x", timer_body(**body), **header)
    assert by_key.data["correlation_id"] == expected


async def test_correlation_id_is_made_up(quick_api: Api):
    """Without one, a correlation id is made up."""
    assert (await quick_api.create())["correlation_id"]


@pytest.mark.parametrize("given", ["", "x" * 256, "a\tb"])
async def test_bad_correlation_header(quick_api: Api, given: str):
    """A correlation id that is none is refused, naming the header."""
    answer = await quick_api.post("/timers", timer_body(), X_Correlation_ID=given)
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.startswith("X-Correlation-ID: ")
