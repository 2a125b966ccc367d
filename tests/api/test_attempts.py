"""The execution log of a timer: a line for each attempt, in pages."""

import re

import pytest
from msgspec.structs import replace

from duetime.timer import Kind, Outcome
from tests.api.client import FAILED, OK, Api, timer_body
from tests.api.seed import assert_has

RETRYABLE = Outcome(
    kind=Kind.TIMEOUT, latency_ms=30_000, error="no answer within 30s", retryable=True
)


async def test_no_attempts_yet(api: Api):
    """A timer that was not tried has an empty log."""
    made = await api.create()
    answer = await api.get(f"/timers/{made['id']}/attempts")
    assert answer.summary == (200, 0, "success")
    assert answer.data == {"attempts": [], "next_cursor": None}


async def test_names_of_nodes_are_the_operators(api: Api):
    """A tenant's key, whatever its role, sees which attempts were of the same node, and no more."""
    policy = {"max_attempts": 5, "initial_interval": "1s", "jitter": 0}
    made = await api.create(retry_policy=policy)
    nodes = ["db7.internal-4711-a1b2c3", "web2.internal-1-0f0f0f", "db7.internal-4711-a1b2c3"]
    for node in nodes:
        await api.claim(made["id"], node)
        await api.finish(made["id"], RETRYABLE)
    path = f"/timers/{made['id']}/attempts"
    told = (await api.get(path)).data["attempts"]
    assert [line["node"] for line in told] == nodes
    for role in ("admin", "write", "read", "read_without_payloads"):
        answer = await api.call("GET", path, key=await api.make_key(role=role))
        one, other, again = (line["node"] for line in answer.data["attempts"])
        assert one == again != other
        assert re.fullmatch(r"node-[0-9a-f]{6}", one)
        shown = await api.call("GET", f"/timers/{made['id']}", key=await api.make_key(role=role))
        assert b"internal" not in answer.body + shown.body


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
        "response": None,
        "response_headers": None,
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
            "response": None,
            "response_headers": None,
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
            "response": None,
            "response_headers": None,
            "next_at": None,
        },
    ]


@pytest.mark.parametrize("outcome", [OK, FAILED])
async def test_what_was_kept_of_an_answer(api: Api, outcome: Outcome):
    """It is shown with the attempt, and with the timer while that attempt is its newest."""
    made = await api.create()
    await api.claim(made["id"])
    headers = {"x-request-id": "ä\ufffd", "etag": ""}
    kept = replace(outcome, response="grüße,\n\ufffd", response_headers=headers)
    await api.finish(made["id"], kept)
    shown = (await api.shown(made["id"]))["outcome"]
    [attempt] = (await api.get(f"/timers/{made['id']}/attempts")).data["attempts"]
    for answer in (shown, attempt):
        assert (answer["response"], answer["response_headers"]) == ("grüße,\n\ufffd", headers)


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
