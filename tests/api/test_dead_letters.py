"""Timers that have failed: listed with why, tried again one by one or by filter."""

import pytest

from duetime.timer import Kind, Outcome
from tests.api.client import Api, timer_body
from tests.api.seed import assert_has
from tests.api.test_bulk import work

DOWN = Outcome(kind=Kind.HTTP, status_code=503, latency_ms=9, error="HTTP 503", retryable=True)
SLOW = Outcome(kind=Kind.TIMEOUT, latency_ms=30_000, error="no answer within 30s")


async def fail(api: Api, outcome: Outcome = DOWN, **fields) -> str:
    """The id of a timer that has failed its attempt."""
    made = await api.create(**fields)
    await api.claim(made["id"])
    await api.finish(made["id"], outcome)
    return made["id"]


async def listed(api: Api, **params) -> dict[str, dict]:
    return {each["id"]: each for each in (await api.get("/timers", **params)).data["timers"]}


async def test_a_list_says_why(api: Api):
    """Each failed timer with its last error and how its last attempt ended."""
    down, slow = await fail(api), await fail(api, SLOW)
    waiting = (await api.create())["id"]
    found = await listed(api, status="failed")
    assert set(found) == {down, slow}
    assert_has(found[down], {"last_error": "HTTP 503", "outcome_kind": "http", "attempt": 1})
    assert_has(found[slow], {"last_error": "no answer within 30s", "outcome_kind": "timeout"})
    assert_has((await listed(api))[waiting], {"last_error": None, "outcome_kind": None})


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"last_error": "503"}, {"down"}),
        ({"last_error": "ANSWER WITHIN"}, {"slow"}),
        ({"outcome": "timeout"}, {"slow"}),
        ({"outcome": "http"}, {"down"}),
        ({"outcome": "dns"}, set()),
        ({"group": "g"}, {"down"}),
    ],
)
async def test_they_are_found_by_why(api: Api, params, expected):
    """By text in the last error, by the outcome, and by all that timers are found by."""
    made = {await fail(api, group="g"): "down", await fail(api, SLOW): "slow"}
    found = await listed(api, status="failed", **params)
    assert {made[id_] for id_ in found} == expected


async def test_a_retry_can_be_seen(api: Api):
    """Which attempt it is, of how many, and when the next one starts: in lists as well."""
    policy = {"max_attempts": 8, "initial_interval": "4m", "jitter": 0}
    made = await fail(api, retry_policy=policy)
    for shown in (await api.shown(made), (await listed(api))[made]):
        assert_has(
            shown,
            {
                "status": "pending",
                "attempt": 1,
                "failures": 1,
                "max_attempts": 8,
                "next_attempt_at": "2025-10-26T10:34:00Z",
                "last_error": "HTTP 503",
            },
        )
    for change in ("/fire", "/pause"):
        assert (await api.post(f"/timers/{made}{change}")).status == 200
    assert (await api.shown(made))["next_attempt_at"] is None


@pytest.mark.parametrize("change", ["cancel", "update", "fire"])
async def test_a_retry_can_be_changed(api: Api, change: str):
    """Between its attempts it waits like any other timer."""
    made = await fail(api, retry_policy={"max_attempts": 3, "initial_interval": "1h", "jitter": 0})
    if change == "cancel":
        assert (await api.delete(f"/timers/{made}")).status == 200
        assert (await api.shown(made))["status"] == "canceled"
    elif change == "update":
        assert (await api.put(f"/timers/{made}", {"name": "n"})).status == 200
        shown = await api.shown(made)
        assert (shown["failures"], shown["next_attempt_at"]) == (1, "2025-10-26T11:30:00Z")
    else:
        assert (await api.post(f"/timers/{made}/fire")).status == 200
        shown = await api.shown(made)
        assert (shown["failures"], shown["next_attempt_at"]) == (1, "2025-10-26T10:30:00Z")


async def test_redrive(api: Api):
    """It is due now, with all attempts of its policy, as the same occurrence; and is audited."""
    made = await fail(api, retry_policy={"max_attempts": 1})
    api.clock.advance(60_000)
    answer = await api.post(f"/timers/{made}/redrive")
    assert answer.summary == (200, 0, "timer is tried again now")
    assert_has(
        answer.data,
        {
            "status": "pending",
            "attempt": 1,
            "failures": 0,
            "executed_at": None,
            "next_attempt_at": "2025-10-26T10:31:00Z",
        },
    )
    [due] = await api.store.due(range(4096), None, api.clock.now(), 10)
    assert due.id == made
    claimed = await api.claim(made)
    assert (claimed.progress.attempt, claimed.webhook_id) == (2, f"{made}-1")
    await api.service.audit.close()
    lines = (await api.get("/audit", action="timer.redrive")).data["lines"]
    assert [line["target"] for line in lines] == [made]


async def test_redrive_by_filter(api: Api):
    """Counted first, then done, with progress like every action; others are not touched."""
    made = [await fail(api, group="g") for _ in range(3)]
    other, waiting = await fail(api, SLOW), (await api.create(group="g"))["id"]
    body = {"filter": {"group": "g"}, "dry_run": True}
    counted = await api.post("/timers/redrive", body)
    assert counted.summary == (202, 0, "action accepted")
    await work(api)
    counted = (await api.get(f"/actions/{counted.data['id']}")).data
    assert_has(counted, {"action": "redrive", "dry_run": True, "matched": 3, "changed": 3})
    assert counted["filter"] == {"group": ["g"], "status": ["failed"]}
    assert (await api.shown(made[0]))["status"] == "failed"
    asked = await api.post("/timers/redrive", body | {"dry_run": False})
    await work(api)
    done = (await api.get(f"/actions/{asked.data['id']}")).data
    assert_has(done, {"state": "done", "matched": 3, "changed": 3, "skipped": 0, "failed": 0})
    assert {(await api.shown(id_))["status"] for id_ in made} == {"pending"}
    assert (await api.shown(other))["status"] == "failed"
    assert (await api.shown(waiting))["version"] == 1


async def test_redrive_by_filter_is_repeated_by_a_key(api: Api):
    """The same key is answered with the same action, and with other content refused."""
    await fail(api)
    body = {"filter": {"all": True}}
    first = await api.post("/timers/redrive", body, Idempotency_Key="k")
    again = await api.post("/timers/redrive", body, Idempotency_Key="k")
    assert (again.status, again.data["id"]) == (200, first.data["id"])
    other = await api.post("/timers/redrive", body | {"dry_run": True}, Idempotency_Key="k")
    assert other.status == 409


@pytest.mark.promise("bad-input")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (None, "body: "),
        ({}, "filter: required"),
        ({"filter": {}}, "filter: has no condition"),
        ({"filter": {"status": "broken"}}, "filter.status"),
        ({"filter": {"all": True}, "by": "1h"}, "by: unknown field"),
        ({"filter": {"all": True}, "action": "cancel"}, "action: unknown field"),
        ({"filter": {"all": True}, "dry_run": "yes"}, "dry_run: "),
        ({"filter": {"outcome": "odd"}}, "filter.outcome"),
    ],
)
async def test_a_redrive_that_is_none(quick_api: Api, body, message):
    """It says which field is wrong, and nothing is redriven."""
    made = await fail(quick_api)
    answer = await quick_api.post("/timers/redrive", body)
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.startswith(message)
    assert (await quick_api.get("/actions")).data["actions"] == []
    assert (await quick_api.shown(made))["status"] == "failed"


async def test_somebody_with_some_groups_redrives_theirs(api: Api):
    """What their key is not for is not there for them."""
    mine, other = await fail(api, group="mine"), await fail(api, group="other")
    key = await api.make_key("default", "write", groups=["mine"])
    assert (await api.call("POST", f"/timers/{other}/redrive", key=key)).status == 404
    await api.call("POST", "/timers/redrive", {"filter": {"all": True}}, key=key)
    await work(api)
    assert (await api.shown(mine))["status"] == "pending"
    assert (await api.shown(other))["status"] == "failed"


async def test_quotas_do_not_refuse_a_redrive(api: Api):
    """It was acknowledged once: who has no room for new timers can still mend the old."""
    made = await fail(api, group="g")
    await api.put("/groups/g", {"quotas": {"pending": 0, "creates_per_second": 0.001}})
    assert (await api.post(f"/timers/{made}/redrive")).status == 200
    assert (await api.post("/timers", timer_body(group="g"))).status == 429
