"""Fire, pause, resume, the execution log, and the fields of a timer beyond the seed."""

from typing import Any

import pytest

from duetime.model import Kind, Outcome
from duetime.stores.memory import MemoryStore
from tests.api.client import FAILED, OK, Api, http_callback, timer_body
from tests.api.conftest import MakeApi
from tests.api.seed import assert_has

RETRYABLE = Outcome(
    kind=Kind.TIMEOUT, latency_ms=30_000, error="no answer within 30s", retryable=True
)


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
    [("fire", {"pending", "paused"}), ("pause", {"pending"}), ("resume", {"paused"})],
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


@pytest.mark.parametrize("action", ["fire", "pause", "resume"])
async def test_no_body_expected(quick_api: Api, action: str):
    """An action takes no body, but for an empty object that some clients always send."""
    paused = await quick_api.bring_to("paused" if action == "resume" else "pending")
    path = f"/timers/{paused['id']}/{action}"
    assert (await quick_api.post(path, {"at": "now"})).summary == (400, 2, "body: none is expected")
    assert (await quick_api.post(path, b" {} ")).status == 200


@pytest.mark.parametrize("action", ["fire", "pause", "resume"])
async def test_action_on_unknown(quick_api: Api, action: str):
    """An unknown timer is 404."""
    path = f"/timers/01977420-dc00-7012-9f7e-3d5f520271b1/{action}"
    assert (await quick_api.post(path)).summary == (404, 3, "timer not found")


# The execution log


async def test_no_attempts_yet(api: Api):
    """A timer that was not tried has an empty log."""
    made = await api.create()
    answer = await api.get(f"/timers/{made['id']}/attempts")
    assert answer.summary == (200, 0, "success")
    assert answer.data == {"attempts": [], "next_cursor": None}


async def test_attempts(api: Api):
    """Each attempt is one line: when, by which node, what came of it, and when comes the next."""
    policy = {"max_attempts": 3, "initial_interval": "10s", "jitter": 0}
    made = await api.create(retry_policy=policy)
    await api.claim(made["id"])
    api.clock.advance(250)
    await api.finish(made["id"], RETRYABLE)
    shown = await api.shown(made["id"])
    assert_has(
        shown,
        {
            "status": "pending",
            "attempt": 1,
            "last_error": "no answer within 30s",
            "next_attempt_at": "2025-10-26T10:30:10.250Z",
        },
    )
    assert shown["outcome"] == {
        "kind": "timeout",
        "status_code": None,
        "latency_ms": 30_000,
        "error": "no answer within 30s",
    }
    await api.claim(made["id"])
    await api.finish(made["id"], OK)
    answer = await api.get(f"/timers/{made['id']}/attempts")
    assert answer.data["attempts"] == [
        {
            "occurrence": 1,
            "attempt": 1,
            "node": "node-1",
            "started_at": "2025-10-26T10:30:00Z",
            "finished_at": "2025-10-26T10:30:00.250Z",
            "kind": "timeout",
            "status_code": None,
            "latency_ms": 30_000,
            "error": "no answer within 30s",
            "next_at": "2025-10-26T10:30:10.250Z",
        },
        {
            "occurrence": 1,
            "attempt": 2,
            "node": "node-1",
            "started_at": "2025-10-26T10:30:00.250Z",
            "finished_at": "2025-10-26T10:30:00.250Z",
            "kind": "ok",
            "status_code": 200,
            "latency_ms": 12,
            "error": None,
            "next_at": None,
        },
    ]


async def test_pages_of_attempts(api: Api):
    """A long log comes in pages."""
    made = await api.create(
        retry_policy={"max_attempts": 10, "initial_interval": "1s", "jitter": 0}
    )
    for _ in range(5):
        await api.claim(made["id"])
        await api.finish(made["id"], RETRYABLE)
    path, seen, cursor = f"/timers/{made['id']}/attempts", [], {}
    for _ in range(3):
        answer = await api.get(path, limit="2", **cursor)
        seen += [attempt["attempt"] for attempt in answer.data["attempts"]]
        cursor = {"cursor": answer.data["next_cursor"]}
    assert seen == [1, 2, 3, 4, 5]
    assert cursor["cursor"] is None


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"limit": "201"}, "limit"),
        ({"limit": "0"}, "limit"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": "WzEsImEiXQ"}, "cursor"),  # one of the list of timers
        ({"cursor": "Wzk5OTk5OTk5OTk5OTk5OTk5OTk5OTksMV0"}, "cursor"),  # beyond 64 bits
        ({"status": "ok"}, "status"),
    ],
)
async def test_bad_parameters_of_attempts(api: Api, params: dict[str, str], field: str):
    """Wrong parameters are named."""
    made = await api.create()
    answer = await api.get(f"/timers/{made['id']}/attempts", **params)
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.startswith(f"{field}: ")


async def test_attempts_of_unknown(api: Api):
    """The log of an unknown timer is 404."""
    answer = await api.get("/timers/01977420-dc00-7012-9f7e-3d5f520271b1/attempts")
    assert answer.summary == (404, 3, "timer not found")


async def test_replaced_timer_counts_anew(api: Api):
    """New content is a new occurrence: attempts start over, and the log keeps the old ones."""
    made = await api.bring_to("failed", timer_id="x")
    await api.put("/groups/default/timers/x", timer_body(name="new"))
    await api.claim(made["id"])
    await api.finish(made["id"], FAILED)
    answer = await api.get(f"/timers/{made['id']}/attempts")
    numbers = [(line["occurrence"], line["attempt"]) for line in answer.data["attempts"]]
    assert numbers == [(1, 1), (2, 1)]


# When


@pytest.mark.parametrize(
    ("delay", "execute_at"),
    [
        ("250ms", "2025-10-26T10:30:00.250Z"),
        ("10s", "2025-10-26T10:30:10Z"),
        ("15m", "2025-10-26T10:45:00Z"),
        ("3d", "2025-10-29T10:30:00Z"),
        ("1h30m", "2025-10-26T12:00:00Z"),
        ("PT15M", "2025-10-26T10:45:00Z"),
        ("0", "2025-10-26T10:30:00Z"),
        ("0s", "2025-10-26T10:30:00Z"),
    ],
)
async def test_delay(quick_api: Api, delay: str, execute_at: str):
    """A delay counts from now; 0 fires at once."""
    assert (await quick_api.create(delay=delay))["execute_at"] == execute_at
    made = await quick_api.create(delay="9h")
    answer = await quick_api.put(f"/timers/{made['id']}", {"delay": delay})
    assert answer.data["execute_at"] == execute_at


@pytest.mark.parametrize("delay", ["", "soon", "-1s", "1", "1 s", "10x", "P", "PT", "1e3s", "1s\n"])
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_bad_delay(quick_api: Api, method: str, delay: str):
    """What is no duration is refused, with examples of what is."""
    made = await quick_api.create()
    path, body = "/timers", timer_body(delay=delay)
    if method == "PUT":
        path, body = f"/timers/{made['id']}", {"delay": delay}
    answer = await quick_api.call(method, path, body)
    expected = 'delay: must be a duration such as "250ms", "10s", "15m", "3d" or "PT15M"'
    assert answer.summary == (400, 2, expected)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"delay": "1h", "execute_at": "2030-01-01T00:00:00Z"},
            "delay: cannot be given together with execute_at",
        ),
        (
            {"execute_at": "2030-01-01T00:00:00"},
            'execute_at: needs an offset such as "Z", or a timezone',
        ),
        (
            {"execute_at": "2030-01-01T00:00:00Z", "timezone": "Europe/Berlin"},
            "timezone: execute_at has an offset already",
        ),
        (
            {"delay": "1h", "timezone": "Europe/Berlin"},
            "timezone: goes with an execute_at that has no offset",
        ),
        (
            {"execute_at": "2030-01-01T00:00:00", "timezone": "Mars/Phobos"},
            "timezone: 'Mars/Phobos' is not a known time zone",
        ),
        (
            {"execute_at": "2030-01-01T00:00:00", "timezone": "../../etc/passwd"},
            "timezone: '../../etc/passwd' is not a known time zone",
        ),
        (
            {"execute_at": "2030-01-01T00:00:00", "timezone": "Europe"},
            "timezone: 'Europe' is not a known time zone",
        ),
        ({"delay": "101y"}, None),
        ({"delay": "40000d"}, "delay: must be at most 100 years"),
        ({"execute_at": "9999-12-31T23:59:59.9995Z"}, "execute_at: out of range"),
        ({"execute_at": "9999-12-31T23:59:59-01:00"}, "execute_at: out of range"),
    ],
)
async def test_when_is_told_once(quick_api: Api, fields: dict[str, str], message: str | None):
    """A time is said in one way, and one that cannot be is refused, naming the field."""
    body = {"callback": http_callback(), **fields}
    answer = await quick_api.post("/timers", body)
    assert (answer.status, answer.code) == (400, 2)
    if message is not None:
        assert answer.message == message


async def test_timezone(quick_api: Api):
    """A time without an offset is read in its time zone."""
    fields = {"execute_at": "2030-07-01T09:00:00", "timezone": "Europe/Berlin"}
    made = await quick_api.create(**fields)
    assert made["execute_at"] == "2030-07-01T07:00:00Z"
    answer = await quick_api.put(
        f"/timers/{made['id']}", fields | {"execute_at": "2030-12-01T09:00:00"}
    )
    assert answer.data["execute_at"] == "2030-12-01T08:00:00Z"


@pytest.mark.promise("never-early")
async def test_fractions_are_rounded_up(quick_api: Api):
    """A fraction of a millisecond is rounded up, so that nothing fires early."""
    made = await quick_api.create(execute_at="2030-01-01T00:00:00.0001Z")
    assert made["execute_at"] == "2030-01-01T00:00:00.001Z"


async def test_min_delay(make_api: MakeApi):
    """A server with MIN_DELAY says how long a delay must be."""
    api = make_api(MemoryStore(), min_delay=5000)
    answer = await api.post("/timers", timer_body(delay="4s"))
    assert answer.summary == (400, 2, "delay: must be at least 5s on this server")
    assert (await api.post("/timers", timer_body(delay="5s"))).status == 201


# The other fields


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
    callback = http_callback(method="PUT", timeout="5s", payload=[1], headers={"A": "b"})
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
            "outcome": None,
            "next_attempt_at": shown["execute_at"],
        },
    )
    assert shown["callback_config"] == callback
    await api.put(f"/timers/{made['id']}", {"name": None, "deadline": None, "tags": []})
    shown = await api.shown(made["id"])
    assert_has(shown, {"name": None, "deadline": None, "tags": [], "retry_policy": policy})


async def test_defaults(api: Api):
    """What is not said is the seed's: one attempt, POST, thirty seconds."""
    shown = await api.shown((await api.create())["id"])
    assert shown["callback_config"] == http_callback(
        method="POST", timeout="30s", headers={}, payload=None
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
