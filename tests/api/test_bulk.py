"""Actions on all timers that match: POST /timers/actions and /actions."""

import asyncio

import pytest

from tests.api.client import Api, http_callback, timer_body
from tests.api.test_search import new_key
from tests.waiting import settle


async def work(api: Api) -> None:
    """Let the clerk work until it has nothing to do."""
    for _ in range(1_000):
        if await api.service.actions.step() > 1:
            return
    raise AssertionError("it does not come to an end")


async def acted(api: Api, **body) -> dict:
    """Ask for an action, and give it as it is when it has ended."""
    asked = await api.post("/timers/actions", body)
    assert asked.summary == (202, 0, "action accepted"), asked
    await work(api)
    answer = await api.get(f"/actions/{asked.data['id']}")
    assert answer.status == 200
    return answer.data


async def test_an_action(api: Api):
    """It is accepted, done in the background, and tells how far it has come."""
    for number in range(5):
        await api.create(tags=["old"] if number else [])
    asked = await api.post("/timers/actions", {"action": "cancel", "filter": {"tags": ["old"]}})
    assert asked.status == 202
    assert (asked.data["state"], asked.data["changed"], asked.data["finished_at"]) == (
        "running",
        0,
        None,
    )
    await work(api)
    done = (await api.get(f"/actions/{asked.data['id']}")).data
    assert done == {
        "id": asked.data["id"],
        "action": "cancel",
        "filter": {"tags": ["old"]},
        "dry_run": False,
        "by": None,
        "state": "done",
        "is_canceling": False,
        "matched": 4,
        "changed": 4,
        "skipped": 0,
        "failed": 0,
        "failures": [],
        "error": None,
        "created_by": "operator",
        "created_at": "2025-10-26T10:30:00Z",
        "updated_at": "2025-10-26T10:30:00Z",
        "finished_at": "2025-10-26T10:30:00Z",
    }
    assert (await api.get("/timers", status="canceled")).data["total"] == 4


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ({"all": True}, {"all": True}),
        ({"status": "pending"}, {"status": ["pending"]}),
        ({"status": ["pending", "paused"]}, {"status": ["pending", "paused"]}),
        ({"group": "g"}, {"group": ["g"]}),
        ({"group": ["g", "h"], "any_tags": ["a"]}, {"group": ["g", "h"], "any_tags": ["a"]}),
        ({"metadata": {"a.b": 1, "c": None}}, {"metadata": {"a.b": 1, "c": None}}),
        (
            {"created_before": "2025-10-26T11:00:00+01:00"},
            {"created_before": "2025-10-26T10:00:00Z"},
        ),
        ({"name_contains": "x", "outcome": "dns"}, {"name_contains": "x", "outcome": "dns"}),
    ],
)
async def test_the_filter_is_shown(quick_api: Api, wanted: dict, shown: dict):
    """In the words in which it can be asked for."""
    done = await acted(quick_api, action="cancel", filter=wanted)
    assert done["filter"] == shown
    again = await acted(quick_api, action="cancel", filter=done["filter"])
    assert again["filter"] == shown


async def test_every_verb(api: Api):
    """All that can be asked for is done."""
    for verb, more in (
        ("pause", {}),
        ("resume", {}),
        ("shift", {"by": "-30m"}),
        ("update", {"update": {"name": "new", "callback": http_callback(method="PUT")}}),
        ("fire", {}),
        ("cancel", {}),
        ("delete", {}),
    ):
        if verb == "pause":
            made = await api.create(delay="1h")
        done = await acted(api, action=verb, filter={"all": True}, **more)
        assert (done["changed"], done["skipped"], done["failed"]) == (1, 0, 0), verb
        if verb == "shift":
            assert done["by"] == "-30m"
            assert (await api.shown(made["id"]))["execute_at"] == "2025-10-26T11:00:00Z"
    assert (await api.get(f"/timers/{made['id']}")).status == 404


@pytest.mark.promise("bad-input")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"action": "cancel"}, "filter: required"),
        (
            {"action": "cancel", "filter": {}},
            'filter: has no condition; {"all": true} means every timer',
        ),
        (
            {"action": "cancel", "filter": {"tags": [], "metadata": {}, "group": None}},
            'filter: has no condition; {"all": true} means every timer',
        ),
        (
            {"action": "cancel", "filter": {"all": True, "tags": ["a"]}},
            "filter.all: cannot be given together with conditions",
        ),
        ({"action": "cancel", "filter": {"tag": "a"}}, "filter.tag: unknown field"),
        (
            {"action": "erase", "filter": {"all": True}},
            "action: 'erase' is not one of the known values",
        ),
        (
            {"action": "let go", "filter": {"all": True}},
            "action: 'let go' is not one of the known values",
        ),
        ({"action": "shift", "filter": {"all": True}}, "by: required"),
        ({"action": "shift", "filter": {"all": True}, "by": "0"}, "by: must not be zero"),
        (
            {"action": "shift", "filter": {"all": True}, "by": "--1h"},
            'by: must be a duration such as "250ms", "10s", "15m", "3d" or "PT15M"',
        ),
        ({"action": "fire", "filter": {"all": True}, "by": "1h"}, "by: does not go with 'fire'"),
        ({"action": "update", "filter": {"all": True}}, "update: required"),
        ({"action": "update", "filter": {"all": True}, "update": {}}, "update: changes nothing"),
        (
            {"action": "update", "filter": {"all": True}, "update": {"nam": 1}},
            "update.nam: unknown field",
        ),
        (
            {
                "action": "update",
                "filter": {"all": True},
                "update": {"execute_at": "2020-01-01T00:00:00Z"},
            },
            "update.execute_at must be in the future",
        ),
        (
            {
                "action": "update",
                "filter": {"all": True},
                "update": {"callback": {"type": "http", "url": "ftp://x"}},
            },
            "update.callback.url: must be an http or https URL",
        ),
        (
            {"action": "update", "filter": {"all": True}, "update": {"metadata": "x" * 70_000}},
            "update: must be at most 65536 bytes",
        ),
        (
            {"action": "cancel", "filter": {"metadata": {"a..b": 1}}},
            'filter.metadata: a path is keys joined by dots, such as "customer.id"',
        ),
        (
            {"action": "cancel", "filter": {"metadata": {"a": "x" * 20_000}}},
            "filter: must be at most 16384 bytes",
        ),
        (
            {"action": "cancel", "filter": {"created_after": "yesterday"}},
            'filter.created_after: must be a time such as "2030-01-01T09:00:00Z"',
        ),
    ],
)
async def test_bad_actions(quick_api: Api, body: dict, message: str):
    """What makes no sense is refused before anything is done, and says which field."""
    assert (await quick_api.post("/timers/actions", body)).summary == (400, 2, message)
    assert (await quick_api.get("/actions")).data["actions"] == []


async def test_a_page_of_actions(quick_api: Api):
    """Newest first, page by page."""
    made = []
    for _ in range(5):
        made.append((await acted(quick_api, action="cancel", filter={"all": True}))["id"])
        quick_api.clock.advance(1)
    seen, cursor = [], {}
    for _ in range(3):
        page = (await quick_api.get("/actions", limit="2", **cursor)).data
        seen += [each["id"] for each in page["actions"]]
        cursor = {"cursor": page["next_cursor"]}
    assert seen == made[::-1]
    assert cursor == {"cursor": None}
    bad = await quick_api.get("/actions", cursor="x")
    assert bad.summary == (400, 2, "cursor: is not one that this list gave out")


async def test_cancel(quick_api: Api):
    """One that has not ended is canceled; one that has is not."""
    asked = await quick_api.post("/timers/actions", {"action": "cancel", "filter": {"all": True}})
    path = f"/actions/{asked.data['id']}"
    answer = await quick_api.delete(path)
    assert (answer.status, answer.data["state"], answer.data["is_canceling"]) == (
        202,
        "running",
        True,
    )
    await work(quick_api)
    assert (await quick_api.get(path)).data["state"] == "canceled"
    done = await acted(quick_api, action="cancel", filter={"all": True})
    answer = await quick_api.delete(f"/actions/{done['id']}")
    assert answer.summary == (409, 5, "action: it has ended: done")


@pytest.mark.parametrize(
    ("id_", "summary"),
    [
        ("x", (400, 2, "action: must be a UUID")),
        ("00000000-0000-4000-8000-000000000000", (404, 3, "action not found")),
        ("01977420-dc00-7974-a545-2ca1a4dbf395", (404, 3, "action not found")),
    ],
)
async def test_unknown_actions(quick_api: Api, id_: str, summary: tuple):
    """There is no such action, or it cannot be the id of one."""
    assert (await quick_api.get(f"/actions/{id_}")).summary == summary
    assert (await quick_api.delete(f"/actions/{id_}")).summary == summary


async def test_tenants_do_not_see_each_other(api: Api):
    """Neither the actions of others nor their timers."""
    await api.post("/tenants", {"name": "acme"})
    mine = await api.create()
    theirs = {"x-tenant-id": "acme"}
    body = {"action": "cancel", "filter": {"all": True}}
    asked = await api.call("POST", "/timers/actions", body, headers=theirs)
    await work(api)
    assert (await api.get(f"/actions/{asked.data['id']}")).status == 404
    assert (await api.get("/actions")).data["actions"] == []
    shown = await api.call("GET", f"/actions/{asked.data['id']}", headers=theirs)
    assert (shown.data["state"], shown.data["matched"]) == ("done", 0)
    assert (await api.shown(mine["id"]))["status"] == "pending"


async def test_a_key_acts_in_its_groups_only(api: Api):
    """Whatever its filter says; and it sees only actions that lie within them."""
    timers = {group: (await api.create(group=group))["id"] for group in ("a", "b", "c")}
    two, one = await new_key(api, "a", "b"), await new_key(api, "a")
    body = {"action": "cancel", "filter": {"all": True}}
    asked = await api.call("POST", "/timers/actions", body, key=two)
    await work(api)
    path = f"/actions/{asked.data['id']}"
    assert (await api.call("GET", path, key=two)).data["changed"] == 2
    assert (await api.call("GET", path)).data["changed"] == 2
    assert (await api.call("GET", path, key=one)).summary == (404, 3, "action not found")
    statuses = {group: (await api.shown(id_))["status"] for group, id_ in timers.items()}
    assert statuses == {"a": "canceled", "b": "canceled", "c": "pending"}
    whole = await acted(api, action="cancel", filter={"all": True})
    for key in (one, two):
        assert (await api.call("GET", f"/actions/{whole['id']}", key=key)).status == 404
    other = {"action": "cancel", "filter": {"group": "c"}}
    asked = await api.call("POST", "/timers/actions", other, key=one)
    await work(api)
    assert (await api.get(f"/actions/{asked.data['id']}")).data["matched"] == 0


async def test_roles(api: Api):
    """Who may only read sees actions and asks for none."""
    answer = await api.post("/tenants/default/keys", {"name": "r", "role": "read"})
    key = answer.data["key"]
    body = {"action": "cancel", "filter": {"all": True}}
    assert (await api.call("POST", "/timers/actions", body, key=key)).status == 403
    done = await acted(api, **body)
    assert (await api.call("GET", f"/actions/{done['id']}", key=key)).status == 200
    assert (await api.call("DELETE", f"/actions/{done['id']}", key=key)).status == 403


async def test_quotas(api: Api):
    """An update in bulk obeys the limit on payloads; what is canceled waits no more."""
    await api.put("/groups/g", {"quotas": {"payload_bytes": 10, "pending": 2}})
    for _ in range(2):
        await api.create(group="g")
    assert (await api.post("/timers", timer_body(group="g"))).status == 429
    heavy = {"callback": http_callback(payload="x" * 20)}
    done = await acted(api, action="update", filter={"group": "g"}, update=heavy)
    assert (done["changed"], done["failed"]) == (0, 2)
    assert "may send 10 bytes" in done["failures"][0]["error"]
    await acted(api, action="cancel", filter={"group": "g"})
    assert (await api.post("/timers", timer_body(group="g"))).status == 201
    await acted(api, action="delete", filter={"group": "g"})
    for status in (201, 201, 429):
        assert (await api.post("/timers", timer_body(group="g"))).status == status


async def test_a_small_one_is_waited_for(quick_api: Api):
    """Where somebody works on actions, the answer to a small one is that it is done."""
    actions = quick_api.service.actions
    woken = asyncio.Event()
    actions.wake = woken.set
    await quick_api.create()

    async def clerk() -> None:
        await woken.wait()
        while await actions.step() < 1:
            await settle()

    working = asyncio.create_task(clerk())
    answer = await quick_api.post("/timers/actions", {"action": "fire", "filter": {"all": True}})
    assert (answer.status, answer.data["state"], answer.data["changed"]) == (202, "done", 1)
    await working


async def test_a_big_one_is_not(quick_api: Api):
    """After a second the answer comes, however far it is."""
    quick_api.service.actions.wake = lambda: None  # somebody who does not come
    body = {"action": "fire", "filter": {"all": True}}
    asking = asyncio.create_task(quick_api.post("/timers/actions", body))
    await settle()
    assert not asking.done()
    quick_api.clock.advance(1_000)
    assert (await asking).data["state"] == "running"


async def test_idempotency_key(api: Api):
    """A repeat is 200 with the same action; with other content it is 409."""
    timer = await api.create(delay="1h")
    body = {"action": "shift", "by": "1h", "filter": {"all": True}}
    key = {"idempotency-key": "k"}
    made = await api.call("POST", "/timers/actions", body, headers=key)
    assert made.summary == (202, 0, "action accepted")
    await work(api)
    again = await api.call("POST", "/timers/actions", body, headers=key)
    assert again.summary == (200, 0, "action exists already")
    assert (again.data["id"], again.data["state"]) == (made.data["id"], "done")
    await work(api)
    assert (await api.shown(timer["id"]))["execute_at"] == "2025-10-26T12:30:00Z"
    other = await api.call("POST", "/timers/actions", {**body, "by": "2h"}, headers=key)
    assert other.summary == (409, 5, "Idempotency-Key: was given with other content already")
    long = await api.call("POST", "/timers/actions", body, headers={"idempotency-key": "k" * 300})
    assert (long.status, long.message.partition(":")[0]) == (400, "Idempotency-Key")


async def test_deleting_a_group(api: Api):
    """Refused with the number; with cancel, accepted with the action that does it."""
    await api.put("/groups/g", {})
    await api.create(group="g")
    refused = await api.delete("/groups/g")
    assert refused.summary == (
        409,
        5,
        "group: 1 of its timers are still to come; cancel=true cancels them",
    )
    accepted = await api.call("DELETE", "/groups/g", params={"cancel": "true"})
    assert accepted.status == 202
    await work(api)
    assert (await api.get(f"/actions/{accepted.data['action']}")).data["changed"] == 1
    assert (await api.get("/groups/g")).status == 404


async def test_resuming_a_group(api: Api):
    """Accepted; the group shows the action until all is seen to."""
    await api.put("/groups/g", {})
    await api.post("/groups/g/pause")
    answer = await api.post("/groups/g/resume")
    assert (answer.status, answer.data["is_paused"]) == (202, False)
    action = answer.data["resuming"]
    assert (await api.get(f"/actions/{action}")).data["action"] == "let go"
    assert (await api.delete(f"/actions/{action}")).status == 409
    await work(api)
    assert (await api.get("/groups/g")).data["resuming"] is None
