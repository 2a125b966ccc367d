"""Targets: how they are shown, limited, paused and resumed, and by whom."""

import asyncio

import pytest
from msgspec.structs import replace

from duetime.nodes import NodeRecord, NodeStatus, TargetReport
from duetime.stores import Record
from duetime.stores.memory import MemoryStore
from duetime.tenancy import targets
from duetime.tenancy.caller import OPERATOR
from duetime.tenancy.obedience import LONGEST
from tests.api.client import Api
from tests.waiting import settle

NAME = "api.example.com:443"
PATH = "/targets/api.example.com"
NO_LIMITS = {"concurrency": None, "per_second": None, "burst": None}


@pytest.fixture(autouse=True)
def real_names(sender):
    """Targets have the names that the real sender has for them."""
    sender.target = sender._real.target


class Engine:
    """An engine that knows what a test has told it."""

    def __init__(self) -> None:
        self.here: dict[str, TargetReport] = {}
        self.others: list[NodeStatus] = []

    def tell(self, name: str, age: int = 0, state: str = "alive", **report) -> None:
        """Let another node tell something."""
        about = NodeRecord(targets={name: TargetReport(**report)})
        node = NodeStatus(
            name=f"n{len(self.others)}", is_this=False, state=state, last_seen_ms=age, about=about
        )
        self.others.append(node)

    def targets_here(self):
        return self.here

    def target_here(self, name):
        return self.here.get(name, TargetReport())

    def nodes(self):
        return self.others

    def notice(self, timer):
        pass

    def lag(self):
        return 0


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def engine_api(make_api, engine) -> Api:
    return make_api(MemoryStore(), engine=engine)


async def test_a_target_of_which_nothing_is_said_is_well(api: Api):
    """It is not in the list, for there is nothing to tell."""
    assert (await api.get("/targets")).data == {"targets": []}
    shown = await api.get(PATH)
    assert shown.status == 200
    assert shown.data == {
        "name": NAME,
        "state": "ok",
        "since": None,
        "until": None,
        "paused_by": None,
        "reason": None,
        "failures": 0,
        "last_error": None,
        "waiting": 0,
        "under_way": 0,
        "limits": NO_LIMITS,
        "created_at": None,
        "updated_at": None,
    }


async def test_a_target_is_paused_and_resumed(api: Api):
    """Until it is resumed, by whom, and why."""
    paused = await api.post(f"{PATH}/pause", {"reason": "an upgrade"})
    assert (paused.status, paused.message) == (200, "target paused: nothing is sent to it")
    assert (paused.data["state"], paused.data["until"]) == ("paused", None)
    assert paused.data["since"] == "2025-10-26T10:30:00Z"
    assert (paused.data["paused_by"], paused.data["reason"]) == ("operator", "an upgrade")
    assert (await api.get("/targets")).data == {"targets": [paused.data]}
    api.clock.advance(1_000)
    resumed = await api.post(f"{PATH}/resume")
    assert resumed.status == 200
    assert (resumed.data["state"], resumed.data["since"]) == ("ok", None)
    assert (resumed.data["paused_by"], resumed.data["reason"]) == (None, None)
    assert (await api.get(PATH)).data == resumed.data


async def test_a_pause_ends_at_its_time(api: Api):
    """Until a time, or for so long; whoever pauses it again changes that, but not since when."""
    paused = await api.post(f"{PATH}/pause", {"for": "1h"})
    assert paused.data["until"] == "2025-10-26T11:30:00Z"
    api.clock.advance(60_000)
    again = await api.post(f"{PATH}/pause", {"until": "2025-10-26T12:00:00+01:00"})
    assert again.data["until"] == "2025-10-26T11:00:00Z"
    assert again.data["since"] == "2025-10-26T10:30:00Z"
    api.clock.advance(29 * 60_000 - 1)
    assert (await api.get(PATH)).data["state"] == "paused"
    api.clock.advance(1)
    assert (await api.get(PATH)).data["state"] == "ok"
    after = await api.post(f"{PATH}/pause")
    assert after.data["since"] == "2025-10-26T11:00:00Z"


@pytest.mark.promise("bad-input")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"until": "2025-10-26T10:30:00Z"}, "until: must be in the future"),
        ({"until": "tomorrow"}, 'until: must be a time such as "2030-01-01T09:00:00Z"'),
        ({"until": "2030-01-01T00:00:00"}, 'until: needs an offset such as "Z"'),
        ({"for": "soon"}, "for: "),
        ({"for": "1h", "until": "2030-01-01T00:00:00Z"}, "until: give either until or for"),
        ({"reason": ""}, "reason: "),
        ({"reason": "a\nb"}, "reason: "),
        ({"for_": "1h"}, "for_: "),
        ([], ""),
    ],
)
async def test_a_pause_that_makes_no_sense(quick_api: Api, body, message):
    """It is refused with the field that is wrong, and changes nothing."""
    answer = await quick_api.post(f"{PATH}/pause", body)
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.startswith(message)
    assert (await quick_api.get("/targets")).data == {"targets": []}


async def test_limits_are_set_and_taken_back(api: Api):
    """What is not named stays as it is; null is no limit."""
    limits = {"concurrency": 5, "per_second": 2.5, "burst": 10}
    made = await api.put(PATH, {"limits": limits})
    assert (made.status, made.data["limits"], made.data["state"]) == (200, limits, "ok")
    changed = await api.put(PATH, {"limits": {"burst": None}})
    assert changed.data["limits"] == limits | {"burst": None}
    assert (await api.put(PATH, {})).data["limits"] == limits | {"burst": None}
    await api.post(f"{PATH}/pause")
    assert (await api.post(f"{PATH}/resume")).data["limits"] == limits | {"burst": None}
    assert (await api.put(PATH, {"limits": None})).data["limits"] == NO_LIMITS


@pytest.mark.promise("bad-input")
@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"concurrency": 0}, "limits.concurrency: "),
        ({"per_second": -1}, "limits.per_second: "),
        ({"burst": 1.5}, "limits.burst: "),
        ({"burst": 3}, "limits.burst: needs a limit per_second"),
        ({"speed": 1}, "limits.speed: "),
    ],
)
async def test_limits_that_make_no_sense(quick_api: Api, limits, message):
    """They are refused with the field that is wrong."""
    answer = await quick_api.put(PATH, {"limits": limits})
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.startswith(message)


async def test_a_target_is_forgotten(api: Api):
    """With its limits and its pause; what nobody has said anything of cannot be forgotten."""
    assert (await api.delete(PATH)).status == 404
    await api.post(f"{PATH}/pause")
    gone = await api.delete("/targets/API.Example.com:443")
    assert (gone.status, gone.data) == (200, {"name": NAME})
    assert (await api.get(PATH)).data["state"] == "ok"
    assert (await api.get("/targets")).data == {"targets": []}
    assert (await api.delete(PATH)).status == 404


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("api.example.com", NAME),
        ("API.example.com:443", NAME),
        ("api.example.com:80", "api.example.com:80"),
        ("b%C3%BCcher.example", "xn--bcher-kva.example:443"),
        ("203.0.113.7:8080", "203.0.113.7:8080"),
        ("%5B2001%3Adb8%3A0%3A0%3A%3A1%5D%3A8080", "[2001:db8::1]:8080"),
        ("[2001:db8::1]", "[2001:db8::1]:443"),
        ("nats", "nats"),
        ("nats:443", "nats:443"),
        ("_x.example", "_x.example:443"),
    ],
)
async def test_a_target_is_called_by_host_and_port(quick_api: Api, text, name):
    """However it is spelled: it is the name under which its callbacks count."""
    assert (await quick_api.get(f"/targets/{text}")).data["name"] == name


@pytest.mark.promise("bad-input")
@pytest.mark.parametrize(
    "text",
    [
        "a.example:0",
        "a.example:99999",
        "a.example:http",
        "user@a.example",
        "a.example%2Fpath",
        "a.example%3Fq",
        "a.example%23f",
        "a%20b",
        "a.example%0A",
        "a%00b",
        "a%5Cb",
        "a%2525b",
        "[::1",
        ":443",
        "%3A",
        "x" * 301,
        "a.example%3A443%3A80",
        "%E2%80%AE.example",
    ],
)
async def test_what_is_no_target(quick_api: Api, text):
    """It is refused in words, and nothing is written."""
    for method, path in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/pause")):
        answer = await quick_api.call(method, f"/targets/{text}{path}", {} if path else None)
        assert answer.status in {400, 404}, (method, answer)
        assert answer.code in {2, 3}
    assert await quick_api.store.records("target") == []


async def test_targets_are_each_tenants_own(acme: Api):
    """Nobody sees, or pauses, what another one calls."""
    key = await acme.make_key("acme")
    await acme.post(f"{PATH}/pause")
    assert (await acme.call("GET", "/targets", key=key)).data == {"targets": []}
    assert (await acme.call("GET", PATH, key=key)).data["state"] == "ok"
    assert (await acme.call("DELETE", PATH, key=key)).status == 404
    await acme.call("PUT", PATH, {"limits": {"concurrency": 1}}, key=key)
    assert (await acme.get(PATH)).data["limits"] == NO_LIMITS


async def test_reports_of_other_tenants_are_not_told(engine_api: Api, engine):
    """Not even of one whose name begins like theirs."""
    key = await engine_api.make_key("acme")
    engine.here = {"acme2 a.example:443": TargetReport(waiting=1)}
    engine.tell("default b.example:443", waiting=2)
    assert (await engine_api.call("GET", "/targets", key=key)).data == {"targets": []}


@pytest.mark.promise("roles-hold")
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/targets"),
        ("GET", PATH),
        ("PUT", PATH),
        ("DELETE", PATH),
        ("POST", f"{PATH}/pause"),
        ("POST", f"{PATH}/resume"),
    ],
)
async def test_a_key_for_some_groups_has_no_targets(quick_api: Api, method, path):
    """Targets are those of all groups, and would tell of the others."""
    await quick_api.post(f"{PATH}/pause")
    before = await quick_api.store.records("target")
    key = await quick_api.make_key(groups=["g"])
    answer = await quick_api.call(method, path, {} if method == "PUT" else None, key=key)
    assert (answer.status, answer.code) == (403, 10)
    assert "api.example.com" not in answer.message
    assert await quick_api.store.records("target") == before


async def test_what_nodes_tell_is_put_together(engine_api: Api, engine):
    """Waiting and under way are added up; the nearest probe counts, and the worst failure."""
    name = f"default {NAME}"
    engine.here = {name: TargetReport(waiting=1, under_way=2)}
    told = {"waiting": 10, "under_way": 20, "error": "HTTP 500"}
    engine.tell(name, 1_000, **told, failures=12, failing_for=4_000, probe_in=6_000)
    engine.tell(name, 0, failures=3, error="HTTP 503", failing_for=1_000, probe_in=9_000)
    engine.tell(name, 0, "dead", waiting=100)
    [target] = (await engine_api.get("/targets")).data["targets"]
    assert (target["waiting"], target["under_way"]) == (11, 22)
    assert (target["state"], target["failures"]) == ("failing", 12)
    assert target["last_error"] == "HTTP 500"
    assert target["since"] == "2025-10-26T10:29:55Z"
    assert target["until"] == "2025-10-26T10:30:05Z"
    assert (await engine_api.get(PATH)).data == target
    engine_api.clock.advance(5_000)
    assert (await engine_api.get(PATH)).data["state"] == "failing", "it is what was told"
    engine.others[0] = replace(engine.others[0], last_seen_ms=6_000)
    assert (await engine_api.get(PATH)).data["state"] == "probing"
    await engine_api.post(f"{PATH}/pause")
    target = (await engine_api.get(PATH)).data
    assert (target["state"], target["failures"]) == ("paused", 12)


async def test_what_was_told_before_it_was_resumed_is_over(engine_api: Api, engine):
    """The other nodes know of it by then, and tell so with their next heartbeat."""
    engine.tell(f"default {NAME}", 1_000, failures=12, failing_for=4_000, probe_in=6_000)
    resumed = await engine_api.post(f"{PATH}/resume")
    assert (resumed.data["state"], resumed.data["failures"]) == ("ok", 0)
    engine.others.clear()
    engine_api.clock.advance(1_000)
    engine.tell(f"default {NAME}", 500, failures=10, failing_for=100, probe_in=6_000)
    assert (await engine_api.get(PATH)).data["state"] == "failing"


async def test_a_timer_says_that_it_waits_for_its_target(engine_api: Api):
    """By its id and by its key, and only where it is due."""
    due = await engine_api.create(delay="0s", timer_id="k")
    assert (await engine_api.shown(due["id"]))["waiting_for"] is None
    timer = await engine_api.service.get(OPERATOR, due["id"])
    name = engine_api.sender.target(timer.spec.callback)
    await engine_api.post(f"/targets/{name}/pause", {"for": "1h"})
    told = f"target {name} is paused until 2025-10-26T11:30:00Z"
    assert (await engine_api.shown(due["id"]))["waiting_for"] == told
    by_key = await engine_api.get("/groups/default/timers/k")
    assert by_key.data["waiting_for"] == told
    later = await engine_api.create(delay="1h")
    assert (await engine_api.shown(later["id"]))["waiting_for"] is None


async def test_a_pause_that_not_all_have_confirmed(quick_api: Api):
    """A node of an older version never does: 202."""
    await quick_api.store.put_record(None, Record(kind="node", name="old", data=b'{"ttl":90000}'))
    asked = asyncio.ensure_future(quick_api.post(f"{PATH}/pause"))
    for _ in range(round(LONGEST / 0.5) + 2):
        await settle()
        quick_api.clock.advance(500)
    answer = await asked
    assert answer.status == 202
    assert "not every node has confirmed" in answer.message
    assert answer.data["state"] == "paused"


@pytest.mark.promise("audited")
async def test_every_change_is_in_the_audit(api: Api):
    """With who did it, and what."""
    await api.put(PATH, {"limits": {"concurrency": 1}})
    await api.post(f"{PATH}/pause", {"for": "1h", "reason": "an upgrade"})
    await api.post(f"{PATH}/resume")
    await api.delete(PATH)
    lines = (await api.get("/audit")).data["lines"]
    told = [(line["action"], line["kind"], line["target"]) for line in lines]
    names = ["target.delete", "target.resume", "target.pause", "target.update"]
    assert told == [(name, "target", NAME) for name in names]
    assert lines[2]["details"] == {"until": "2025-10-26T11:30:00Z", "reason": "an upgrade"}


async def test_there_are_not_too_many(quick_api: Api, monkeypatch):
    """Every node has all of them in memory."""
    monkeypatch.setattr(targets, "MOST_TARGETS", 2)
    for name in ("a", "b"):
        assert (await quick_api.put(f"/targets/{name}.example", {})).status == 200
    refused = await quick_api.put("/targets/c.example", {})
    assert (refused.status, refused.code) == (409, 5)
    assert (await quick_api.post("/targets/c.example/pause")).status == 409
    assert (await quick_api.post("/targets/a.example/pause")).status == 200
    await quick_api.delete("/targets/b.example")
    assert (await quick_api.put("/targets/c.example", {})).status == 200


@pytest.mark.promise("nothing-unseen")
async def test_of_two_who_change_it_at_once_one_is_told(quick_api: Api, make_api):
    """The other one has changed something that is no longer so."""
    other: Api = make_api(quick_api.store)
    await other.get("/targets")
    rules = quick_api.service.rules
    put = rules.put

    async def slow(*args):
        rules.put = put
        assert (await other.post(f"{PATH}/pause")).status == 200
        return await put(*args)

    rules.put = slow
    answer = await quick_api.put(PATH, {"limits": {"concurrency": 1}})
    assert (answer.status, answer.code) == (409, 5)
    assert (await quick_api.get(PATH)).data["state"] == "paused"


async def test_a_deleted_tenant_leaves_none(acme: Api):
    """Nobody can say anything of them any more."""
    await acme.call("POST", f"{PATH}/pause", headers={"X-Tenant-ID": "acme"})
    await acme.post(f"{PATH}/pause")
    assert (await acme.delete("/tenants/acme")).status == 200
    names = [record.name for record in await acme.store.records("target")]
    assert names == [f"default {NAME}"]
