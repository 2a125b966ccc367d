"""The audit: who did what, to what, when, and from where."""

import asyncio
import json

import pytest

from duetime.admission import hung_up
from duetime.audit_pages import MOST_SEEN, READ_AT_ONCE
from duetime.auditing import MOST_GATHERED, Audit
from duetime.errors import StoreUnavailable
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.testing import FakeClock, FlakyStore
from tests.api.client import KEY, Api, call_app, timer_body
from tests.factories import NOW, make_line
from tests.waiting import settle

pytestmark = pytest.mark.promise("audited")


async def actions(api: Api, **params: str) -> list[tuple[str, str]]:
    """What was done and to what, oldest first."""
    await api.service.audit.close()
    lines = (await api.get("/audit", order="asc", **params)).data["lines"]
    return [(line["action"], line["target"]) for line in lines]


async def test_everything_that_changes_something_is_told(api: Api):
    """One line for each, in order, with the key, the thing and the group."""
    timer = await api.create(group="g", timer_id="k")
    id_ = timer["id"]
    await api.put(f"/timers/{id_}", {"name": "n"})
    await api.post(f"/timers/{id_}/pause")
    await api.post(f"/timers/{id_}/resume")
    await api.post(f"/timers/{id_}/fire")
    await api.delete(f"/timers/{id_}")
    await api.delete(f"/timers/{id_}")  # changes nothing, but somebody asked for it
    await api.put("/groups/g/timers/k", timer_body())
    await api.put("/groups/g", {"title": "G"})
    assert await actions(api) == [
        ("group.create", "g"),
        ("timer.create", id_),
        ("timer.update", id_),
        ("timer.pause", id_),
        ("timer.resume", id_),
        ("timer.fire", id_),
        ("timer.cancel", id_),
        ("timer.cancel", id_),
        ("timer.replace", id_),
        ("group.update", "g"),
    ]


async def test_who_and_from_where(api: Api):
    """The name and id of the key, the address, and the correlation id."""
    made = await api.post("/tenants/default/keys", {"name": "billing", "role": "write"})
    answer = await created_from("192.0.2.7", api, made.data["key"], {"X-Correlation-ID": "c-1"})
    await api.service.audit.close()
    [line] = (await api.get("/audit", action="timer.create")).data["lines"]
    assert line == {
        "id": line["id"],
        "at": "2025-10-26T10:30:00Z",
        "actor": "billing",
        "key": made.data["id"],
        "action": "timer.create",
        "kind": "timer",
        "target": answer["id"],
        "group": "default",
        "address": "192.0.2.7",
        "correlation_id": "c-1",
        "details": {},
    }


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ("größe-✓-🎉".encode(), "größe-✓-🎉"),
        ("é".encode() * 255, "é" * 255),
        ("é".encode() * 256, "é" * 255),
        (b"caf\xe9", "caf\ufffd"),  # not UTF-8
    ],
)
async def test_a_correlation_id_in_any_letters(api: Api, sent: bytes, told: str):
    """It is the same text in the audit as on the timer; where no timer has it, what can be read."""
    headers = [(b"x-api-key", KEY.encode()), (b"x-correlation-id", sent)]
    answer = await call_app(api.app, "PUT", "/groups/g", headers=headers, chunks=(b"{}",))
    assert answer.status == 201
    [line] = (await api.get("/audit")).data["lines"]
    assert line["correlation_id"] == told


async def test_behind_a_trusted_proxy(make_api):
    """The address is that of who asked, and not the proxy's; from others, the header is nothing."""
    api: Api = make_api(MemoryStore(), trusted_proxies=("192.0.2.0/24",))
    key = await api.make_key()
    for peer in ("192.0.2.7", "198.51.100.8"):
        await created_from(peer, api, key, {"X-Forwarded-For": "203.0.113.9"})
    await api.service.audit.close()
    lines = (await api.get("/audit", action="timer.create")).data["lines"]
    assert [line["address"] for line in lines] == ["198.51.100.8", "203.0.113.9"]


async def created_from(address: str, api: Api, key: str, headers: dict[str, str]) -> dict:
    """A timer that was created from an address."""

    async def app(scope, receive, send):
        await api.app({**scope, "client": (address, 1234)}, receive, send)

    there = Api(app, api.service, api.store, api.clock, api.sender)
    answer = await there.call("POST", "/timers", timer_body(), key=key, headers=headers)
    assert answer.status == 201
    return answer.data


async def test_what_is_done_to_a_tenant_is_told_to_it(api: Api):
    """Keys and tenants too; nobody else reads of it."""
    key = await api.make_key("acme")
    await api.put("/tenants/acme", {"quotas": {"pending": 1}})
    lines = (await api.call("GET", "/audit", key=key)).data["lines"]
    assert [(line["action"], line["actor"], line["details"]) for line in lines] == [
        ("tenant.update", "operator", {"quotas": {"pending": 1}}),
        ("key.create", "operator", {"name": "admin of acme", "role": "admin"}),
        ("tenant.create", "operator", {}),
    ]
    assert await actions(api) == []


async def test_the_audit_of_a_deleted_tenant(api: Api, make_api):
    """The operator reads who deleted it; nothing else of it is there, and nobody else learns it."""
    key, rival = await api.make_key("acme"), await api.make_key("rival")
    assert (await api.delete("/tenants/acme")).status == 200
    acme = {"X-Tenant-ID": "acme"}
    for node in (api, make_api(api.store)):
        lines = (await node.call("GET", "/audit", headers=acme)).data["lines"]
        assert (lines[0]["action"], lines[0]["actor"]) == ("tenant.delete", "operator")
        exported = await node.call("GET", "/audit/export", headers=acme)
        assert json.loads(exported.body.splitlines()[0]) == lines[0]
        assert (await node.call("HEAD", "/audit", headers=acme)).status == 200
    for path in ("/timers", "/groups", "/actions", "/usage", "/whoami", "/tenants/acme"):
        answer = await api.call("GET", path, headers=acme)
        assert answer.summary == (404, 3, "tenant not found"), path
    assert (await api.call("POST", "/audit", headers=acme)).status == 404
    for path in ("/audit", "/audit/export"):
        unknown = await api.call("GET", path, headers={"X-Tenant-ID": "nobody"})
        assert unknown.summary == (404, 3, "tenant not found")
        assert (await api.call("GET", path, key=key)).status == 401
        theirs = [
            await api.call("GET", path, key=rival, headers={"X-Tenant-ID": name})
            for name in ("acme", "nobody")
        ]
        assert theirs[0] == theirs[1]
        assert theirs[0].status == 403


async def test_one_line_for_a_batch(api: Api):
    """It says how many, and between which ids they lie."""
    answer = await api.post("/timers/batch", {"timers": [timer_body() for _ in range(3)]})
    made = [item["data"]["id"] for item in answer.data["timers"]]
    await api.service.audit.close()
    [line] = (await api.get("/audit")).data["lines"]
    assert (line["action"], line["target"]) == ("timer.create_batch", made[0])
    assert line["details"] == {"timers": 3, "last": made[2]}
    assert line["group"] == "default"
    await api.post("/timers/batch", {"timers": [timer_body(), timer_body(group="g")]})
    await api.service.audit.close()
    line = (await api.get("/audit", action="timer.create_batch")).data["lines"][0]
    assert line["group"] is None  # they are of several


async def done(api: Api) -> None:
    """Work on all actions until they have ended."""
    while any(each["state"] == "running" for each in (await api.get("/actions")).data["actions"]):
        await api.service.actions.step()


async def test_actions_are_told_to_those_of_their_group(api: Api):
    """If they can be about one group only: by what was asked for, or by the key that asked."""
    await api.create(group="g")
    await api.create(group="h")
    of_g = await api.make_key(groups=["g"])
    of_both = await api.make_key(groups=["g", "h"])
    shown: dict[str, list[tuple[str, str | None]]] = {}
    for filter_, key in (
        ({"group": "g"}, KEY),
        ({"group": ["g"], "status": "pending"}, of_both),
        ({"group": ["g", "h"]}, of_g),
        ({"group": ["g", "h"]}, of_both),
        ({"all": True}, KEY),
    ):
        body = {"action": "fire", "filter": filter_}
        made = (await api.call("POST", "/timers/actions", body, key=key)).data
        await api.call("DELETE", f"/actions/{made['id']}", key=key)
        await done(api)
        lines = (await api.get("/audit", target=made["id"], order="asc")).data["lines"]
        shown[made["id"]] = [(line["action"], line["group"]) for line in lines]
    parts = ["action.create", "action.cancel", "action.done"]
    groups = ["g", "g", "g", None, None]
    assert list(shown.values()) == [[(part, group) for part in parts] for group in groups]
    answer = await api.call("GET", "/audit", key=of_g, params={"kind": "action", "order": "asc"})
    told = [line["target"] for line in answer.data["lines"]]
    assert told == [id_ for id_ in list(shown)[:3] for _ in parts]


async def test_the_actions_of_a_group_are_told_to_those_of_it(api: Api):
    """Those that resume or delete it; and nothing of the tenant, its keys, or other groups."""
    key = await api.make_key(groups=["g"])
    await api.put("/groups/g", {})
    await api.put("/groups/h", {})
    await api.post("/groups/g/pause")
    await api.post("/groups/g/resume")
    await done(api)
    await api.call("DELETE", "/groups/g", params={"cancel": "true"})
    await done(api)
    answer = await api.call("GET", "/audit", key=key, params={"order": "asc"})
    assert [line["action"] for line in answer.data["lines"]] == [
        "group.create",
        "group.pause",
        "group.resume",
        "action.done",
        "action.create",
        "group.delete",
        "action.done",
    ]


async def test_who_deletes_a_group_with_its_timers(api: Api):
    """It is told before the answer is, also if that is 202 and the work has yet to be done."""
    key = await api.make_key(name="tidy")
    await api.put("/groups/g", {})
    await api.create(group="g")
    asked = await api.call("DELETE", "/groups/g", key=key, params={"cancel": "true"})
    assert asked.status == 202
    [line] = (await api.get("/audit", kind="action")).data["lines"]
    assert (line["action"], line["actor"], line["group"]) == ("action.create", "tidy", "g")
    assert line["target"] == asked.data["action"]
    assert line["details"] == {
        "action": "cancel",
        "filter": {"status": ["pending", "paused"], "group": "g"},
        "dry_run": False,
        "by": "the deletion of its group",
    }


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"actor": "a"}, [0, 2]),
        ({"key": "k"}, [1]),
        ({"action": "group.pause"}, [2]),
        ({"kind": "group"}, [2]),
        ({"target": "t1"}, [1]),
        ({"group": "g"}, [0, 2]),
        ({"after": "2025-06-15T15:06:41Z"}, [1, 2]),
        ({"before": "2025-06-15T15:06:41Z"}, [0]),
        ({"after": "2025-06-15T15:06:41Z", "before": "2025-06-15T15:06:42Z"}, [1]),
        ({"actor": "a", "kind": "timer"}, [0]),
    ],
)
@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_filters(api: Api, params: dict, expected: list[int], order: str):
    """Each alone and together, in both orders, in the list and in the export."""
    lines = [
        make_line(at=NOW, actor="a", target="t0", group="g"),
        make_line(at=NOW + 1_000, actor="b", key="k", target="t1"),
        make_line(at=NOW + 2_000, actor="a", action="group.pause", kind="group", group="g"),
    ]
    await api.store.write_lines(lines, None)
    found = (await api.get("/audit", order=order, **params)).data["lines"]
    wanted = [lines[number].id for number in expected]
    assert [line["id"] for line in found] == (wanted if order == "asc" else wanted[::-1])
    exported = await api.get("/audit/export", order=order, **params)
    assert exported.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line) for line in exported.body.splitlines()] == found


async def test_page_by_page(api: Api):
    """Every line once, though more come meanwhile."""
    lines = [make_line(at=NOW + number) for number in range(25)]
    await api.store.write_lines(lines, None)
    found, cursor = [], {}
    while True:
        page = (await api.get("/audit", limit=10, **cursor)).data
        found += [line["id"] for line in page["lines"]]
        await api.store.write_lines([make_line(at=NOW + 1_000)], None)
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert found == [line.id for line in reversed(lines)]
    for wrong in ("x", "bm9uZQ", "Ingi"):
        answer = await api.get("/audit", cursor=wrong)
        assert answer.summary == (400, 2, "cursor: is not one that this list gave out")


async def test_a_page_gives_up_where_few_match(quick_api: Api, monkeypatch):
    """It says from where to go on, and the export goes on by itself."""
    monkeypatch.setattr("duetime.audit_pages.MOST_SEEN", 20)
    monkeypatch.setattr("duetime.audit_pages.READ_AT_ONCE", 10)
    assert MOST_SEEN > READ_AT_ONCE
    lines = [make_line(at=NOW + number) for number in range(50)]
    await quick_api.store.write_lines(lines, None)
    first = (await quick_api.get("/audit", target=lines[0].target)).data
    assert first["lines"] == []
    assert first["next_cursor"] is not None
    exported = await quick_api.get("/audit/export", target=lines[0].target)
    assert len(exported.body.splitlines()) == 1
    assert (await quick_api.get("/audit/export", target="none")).body == b""


async def test_an_export_that_fails_is_no_whole_one(quick_api: Api, monkeypatch):
    """Before the first line it is an error in an envelope; after it, it is cut off."""
    monkeypatch.setattr("duetime.audit_pages.READ_AT_ONCE", 10)
    store = quick_api.store
    await store.write_lines([make_line(at=NOW + number) for number in range(50)], None)
    calls = 0
    lines = store.lines

    async def failing(*args, **named):
        nonlocal calls
        calls += 1
        if calls > allowed:
            await store.close()
        return await lines(*args, **named)

    monkeypatch.setattr(store, "lines", failing)
    allowed = 1
    with pytest.raises(Exception, match="closed"):
        await quick_api.get("/audit/export")
    allowed = 0
    assert (await quick_api.get("/audit/export")).status == 503


async def test_nobody_reads_on_for_who_has_hung_up(quick_api: Api, monkeypatch):
    """An export ends with its caller."""
    monkeypatch.setattr("duetime.audit_pages.READ_AT_ONCE", 1)
    store = FlakyStore(quick_api.store)
    await store.write_lines([make_line(at=NOW + number) for number in range(50)], None)
    sent = []
    asked = [{"type": "http.request", "body": b"", "more_body": False}]
    has_begun = asyncio.Event()

    async def receive():
        if asked:
            return asked.pop()
        await has_begun.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)
        has_begun.set()
        await settle()

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/audit/export",
        "raw_path": b"/audit/export",
        "root_path": "",
        "query_string": b"",
        "headers": [(b"x-api-key", KEY.encode())],
    }
    await quick_api.app(scope, receive, send)
    assert len(sent) < 10
    assert sent[-1]["more_body"]


async def test_a_change_is_answered_when_its_line_is_there(make_api):
    """A line that could not be written is no line: the caller hears that nobody knows."""
    store = FlakyStore(MemoryStore())
    api: Api = make_api(store)
    timer = await api.create()
    real = store.store.write_lines

    async def failing(*_args):
        raise StoreUnavailable("as told")

    store.store.write_lines = failing
    assert (await api.delete(f"/timers/{timer['id']}")).status == 500
    store.store.write_lines = real
    assert (await api.delete(f"/timers/{timer['id']}")).status == 200
    lines = await store.lines("default", None, 10, descending=True)
    assert "timer.cancel" in {line.action for line in lines}


async def test_lines_of_creates_wait_for_a_store_that_fails():
    """They are kept, in bounds, and written when it is back."""
    clock, store = FakeClock(NOW), FlakyStore(MemoryStore())
    audit = Audit(store, clock)
    store.failing = "after"
    for number in range(3):
        await audit.note_create(OPERATOR, "timer.create", str(number))
    await settle()
    clock.advance(1_000)
    await settle()
    store.failing = None
    await audit.step()
    await settle()
    clock.advance(1_000)
    await settle()
    lines = await store.lines("default", None, 10, descending=False)
    assert sorted(line.target for line in lines) == ["0", "1", "2"]


@pytest.mark.promise("bounded-memory")
async def test_lines_of_creates_are_bounded(monkeypatch, caplog):
    """While the store fails for long, the oldest go; and that is said."""
    monkeypatch.setattr("duetime.auditing.MOST_GATHERED", 10)
    assert MOST_GATHERED > 10
    clock, store = FakeClock(NOW), FlakyStore(MemoryStore())
    audit = Audit(store, clock)
    store.failing = "before"
    for number in range(50):
        noting = asyncio.create_task(audit.note_create(OPERATOR, "timer.create", str(number)))
        await settle()
        clock.advance(1_000)
        await noting
    assert len(audit._gathered) <= 20
    assert "10 lines of the audit are lost" in caplog.text
    await audit.close()


@pytest.mark.parametrize(("level", "expected"), [("all", 2), ("changes", 1), ("off", 0)])
async def test_levels(level, expected):
    """All, all but creates, or nothing."""
    clock, store = FakeClock(NOW), MemoryStore()
    audit = Audit(store, clock, level=level)
    await audit.note_create(OPERATOR, "timer.create", "a")
    await audit.note(OPERATOR, "timer.cancel", "timer", "a")
    await audit.close()
    assert len(await store.lines("default", None, 10, descending=True)) == expected


async def test_old_lines_are_dropped():
    """After the time that they are to be kept, and not before."""
    clock, store = FakeClock(NOW), MemoryStore()
    await store.write_lines([make_line(at=NOW), make_line(at=NOW + 1)], None)
    audit = Audit(store, clock, keep_for=10_000)
    await audit.step()
    clock.advance(10_001)
    await audit.step()
    assert len(await store.lines("default", None, 10, descending=True)) == 1
    await Audit(store, clock).step()
    assert len(await store.lines("default", None, 10, descending=True)) == 1


async def test_a_line_that_has_to_wait_too_long_is_not_called_a_change_that_was_not_made(make_api):
    """The change is made: it is not 503, which would say that nothing was written."""
    store = FlakyStore(MemoryStore())
    api: Api = make_api(store)
    timer = await api.create()
    gate = asyncio.Event()

    async def hanging(*_args):
        await gate.wait()

    store.store.write_lines = hanging
    canceling = [asyncio.create_task(api.delete(f"/timers/{timer['id']}")) for _ in range(30)]
    for _ in range(20):
        await settle()
        api.clock.advance(5_000)
    assert {(await each).status for each in canceling} == {500}
    gate.set()


async def test_a_caller_that_hangs_up_is_told_of_all_the_same(quick_api: Api):
    """The line is written, though nobody waits for the answer."""
    hung_up.set(_at_once)
    await quick_api.service.audit.note(OPERATOR, "timer.cancel", "timer", "x")
    assert await actions(quick_api) == [("timer.cancel", "x")]


async def _at_once() -> None:
    """Somebody who has hung up already."""
