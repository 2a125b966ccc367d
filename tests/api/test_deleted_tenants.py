"""Tenants that are deleted: all of it or nothing, whoever else is at work, whatever crashes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from duetime.nodes import NODE_KIND, NodeRecord
from duetime.stores import Record
from duetime.stores.memory import MemoryStore
from duetime.tenancy.obedience import LONGEST, LOOK_EVERY
from duetime.testing import FlakyStore
from tests.api.client import Api, timer_body
from tests.api.gated import GatedStore, late_bodies
from tests.api.test_roles import BEARER, BODIES, NEEDED
from tests.bulk.desk import Crash, CrashingStore
from tests.waiting import settle

pytestmark = pytest.mark.promise("tenants-apart")

ACME = {"X-Tenant-ID": "acme"}
LEAVING = (
    409,
    5,
    (
        "tenant: it is being deleted, and nothing can be made or changed for it; to delete it "
        "again ends that, or takes it back if timers of it are still to come"
    ),
)


class Meddling(FlakyStore):
    """A store in which something else happens right before a write of a record, once."""

    before: Callable[[Any], bool] = staticmethod(lambda _new: False)
    then: Callable[[], Awaitable[None]]

    async def put_record(self, old, new):
        if new is not None and self.before(new):
            self.before = lambda _new: False
            await self.then()
        return await self.store.put_record(old, new)


class OtherNode:
    """What another node shows of itself: it goes by the rules as it has them, when it says so."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._record: Record | None = None

    async def beat(self) -> None:
        """Read the rules and write the record, as a heartbeat does."""
        rules = self._api.service.rules
        await rules.look()
        about = NodeRecord(rules=rules.revision, makes_by=rules.makes_by())
        version = 1 if self._record is None else self._record.version + 1
        data = msgspec.json.encode(about)
        record = Record(kind=NODE_KIND, name="other", version=version, data=data)
        assert await self._api.store.put_record(self._record, record)
        self._record = record


async def acting(api: Api, method: str, path: str, body: Any = None):
    return await api.call(method, path, body, headers=ACME)


async def looked(api: Api) -> None:
    """Let whoever waits for the other nodes look at them once more."""
    api.clock.advance(round(1000 * LOOK_EVERY))
    await settle()


async def test_a_refusal_changes_nothing(make_api):
    """Somebody who changes the tenant at the same moment makes it a 409, and no more than that."""
    store = Meddling(MemoryStore())
    api, other = make_api(store), make_api(store)
    key = await api.make_key("acme")
    await api.call("POST", "/groups", {"name": "g"}, key=key)

    async def meddle() -> None:
        assert (await other.put("/tenants/acme", {"title": "theirs"})).status == 200

    store.then = meddle
    store.before = lambda new: new.kind == "tenant"
    assert (await api.delete("/tenants/acme")).summary == (
        409,
        5,
        "tenant: somebody else has changed it meanwhile; look at it again",
    )
    assert (await api.get("/tenants/acme")).data["title"] == "theirs"
    assert (await api.call("GET", "/groups/g", key=key)).status == 200


async def test_who_would_change_it_while_it_goes(make_api):
    """It is they who are refused, on every node."""
    store = Meddling(MemoryStore())
    api, other = make_api(store), make_api(store)
    await api.make_key("acme")

    async def meddle() -> None:
        assert (await other.put("/tenants/acme", {"title": "theirs"})).summary == LEAVING

    store.then = meddle
    store.before = lambda new: new.kind == "tenant" and b"deleted_at" in new.data
    assert (await api.delete("/tenants/acme")).status == 200


async def test_what_another_node_still_makes_is_counted(quick_api: Api, make_api):
    """Until it knows, its creates pass; then the tenant stays, and all is as it was."""
    api = quick_api
    there = make_api(api.store)
    key = await there.make_key("acme")
    node = OtherNode(there)
    await node.beat()
    shown = (await api.get("/tenants/acme")).data
    deleting = asyncio.create_task(api.delete("/tenants/acme"))
    await settle()
    late = await there.call("POST", "/timers", timer_body(), key=key)
    assert late.status == 201  # it has not heard of it
    assert (await api.call("GET", "/timers", key=key)).status == 401
    await node.beat()
    await looked(api)
    refused = await deleting
    assert refused.status == 409
    assert refused.message.startswith("tenant: 1 of its timers are still to come")
    assert (await api.get("/tenants/acme")).data == shown
    for each in (api, there):
        await each.service.rules.look()
        assert (await each.call("GET", "/timers", key=key)).status == 200
    assert (await there.call("DELETE", f"/timers/{late.data['id']}", key=key)).status == 200
    deleting = asyncio.create_task(api.delete("/tenants/acme"))
    await settle()
    await node.beat()
    await looked(api)
    assert (await deleting).status == 200


async def test_what_is_being_made_is_waited_for(make_api):
    """A node does not say that it obeys while a create is under way that it let in before."""
    store = MemoryStore()
    gated = GatedStore(store, "insert")
    api: Api = make_api(store)
    there: Api = make_api(gated)
    key = await api.make_key("acme")
    node = OtherNode(there)
    await node.beat()
    creating = asyncio.create_task(there.call("POST", "/timers", timer_body(), key=key))
    await settle()
    deleting = asyncio.create_task(api.delete("/tenants/acme"))
    await settle()
    for _ in range(3):
        await node.beat()
        await looked(api)
    assert not deleting.done()
    assert (await there.call("POST", "/timers", timer_body(), key=key)).status == 401
    gated.gate.set()
    assert (await creating).status == 201
    await node.beat()
    await looked(api)
    assert (await deleting).message.startswith("tenant: 1 of its timers are still to come")


async def test_a_create_whose_body_came_late(quick_api: Api, make_api):
    """Who was let in before the mark and is read to the end after it makes nothing."""
    api = quick_api
    key = await api.make_key("acme")
    node = OtherNode(make_api(api.store))
    await node.beat()
    body = asyncio.Event()
    slow = late_bodies(api, body)
    by_key = asyncio.create_task(slow.call("POST", "/timers", timer_body(), key=key))
    by_operator = asyncio.create_task(acting(slow, "POST", "/timers", timer_body()))
    await settle()
    deleting = asyncio.create_task(api.delete("/tenants/acme"))
    await settle()
    body.set()
    assert (await by_key).summary == (401, 4, "unauthorized")
    assert (await by_operator).summary == LEAVING
    await node.beat()
    await looked(api)
    assert (await deleting).status == 200


async def test_what_the_operator_may_do_while_it_goes(quick_api: Api, make_api):
    """To look and to cancel, but to make and change nothing."""
    api = quick_api
    node = OtherNode(make_api(api.store))
    await api.make_key("acme")
    await node.beat()
    deleting = asyncio.create_task(api.delete("/tenants/acme"))
    await settle()
    shown = (await api.get("/tenants/acme")).data
    assert shown["leaving_since"] == "2025-10-26T10:30:00Z"
    assert (await acting(api, "GET", "/timers")).status == 200
    assert (await acting(api, "GET", "/groups")).status == 200
    cancel = {"action": "cancel", "filter": {"all": True}}
    assert (await acting(api, "POST", "/timers/actions", cancel)).status == 202
    for method, path, body in (
        ("POST", "/timers", timer_body()),
        ("POST", "/timers/batch", {"timers": [timer_body()]}),
        ("PUT", "/groups/g/timers/k", timer_body()),
        ("POST", "/groups", {"name": "g"}),
        ("PUT", "/groups/g", {}),
        ("PUT", "/tenants/acme", {"title": "t"}),
        ("POST", "/tenants/acme/keys", {"name": "n", "role": "read"}),
    ):
        assert (await acting(api, method, path, body)).summary == LEAVING, path
    await node.beat()
    await looked(api)
    assert (await deleting).status == 200


# What the operator may still do for a tenant that is on its way, beside to look and to delete.
# A tenant of another name; to cancel all; what is about all tenants.
STILL = {"POST /tenants", "POST /timers/actions", "POST /secrets/reseal"}
VERBS = {
    "cancel": {},
    "delete": {},
    "pause": {},
    "resume": {},
    "fire": {},
    "redrive": {},
    "shift": {"by": "1h"},
    "update": {"update": {"name": "n"}},
}


async def left_on_its_way(make_api) -> tuple[Api, dict[str, str]]:
    """A tenant whose deletion was cut short by a crash, and what it has, by its place in paths."""
    real = MemoryStore()
    api: Api = make_api(real)
    key = await api.make_key("acme")
    timer = (await api.call("POST", "/timers", timer_body(group="g"), key=key)).data
    assert (await api.call("DELETE", f"/timers/{timer['id']}", key=key)).status == 200
    secret = (await api.call("POST", "/signing-secrets", key=key)).data
    assert (await api.call("PUT", "/credentials/c", BEARER, key=key)).status == 201
    assert (await api.call("POST", "/targets/a.example/pause", key=key)).status == 200
    dying: Api = make_api(CrashingStore(real, 3, "before"))
    with pytest.raises(Crash):
        await dying.delete("/tenants/acme")
    await api.service.rules.look()
    assert (await api.get("/tenants/acme")).data["leaving_since"] is not None
    names = {
        "group": "g",
        "target": "a.example",
        "tenant": "acme",
        "node": "n",
        "key": key.split("_")[1],
    }
    names |= {"secret": secret["id"], "credential": "c"}
    return api, {**names, "id": timer["id"], "timer_id": timer["timer_id"], "action": timer["id"]}


@pytest.mark.parametrize("route", [each for each in NEEDED if each != "DELETE /tenants/{tenant}"])
async def test_every_route_while_it_goes(make_api, route: str):
    """What would make or change something is refused, and says why; the rest is as ever."""
    api, names = await left_on_its_way(make_api)
    method, path = route.split()
    answer = await acting(api, method, path.format(**names), BODIES.get(route))
    if method in {"GET", "DELETE"} or route in STILL:
        is_there = path not in {"/nodes/{node}", "/actions/{action}"}
        if path == "/events":
            assert answer.status == 409  # none are kept here
            return
        assert answer.status in ({200, 201, 202} if is_there else {404})
    else:
        assert answer.summary == LEAVING


@pytest.mark.parametrize("verb", VERBS)
async def test_every_bulk_action_while_it_goes(make_api, verb: str):
    """Only those that end timers are taken."""
    api, _ = await left_on_its_way(make_api)
    body = {"action": verb, "filter": {"all": True}, **VERBS[verb]}
    answer = await acting(api, "POST", "/timers/actions", body)
    if verb in {"cancel", "delete"}:
        assert answer.status == 202
    else:
        assert answer.summary == LEAVING


async def test_a_node_that_never_confirms(quick_api: Api, make_api):
    """After a while it is said so, and the tenant is as it was."""
    api = quick_api
    there = make_api(api.store)
    key = await api.make_key("acme")
    node = OtherNode(there)
    await node.beat()
    shown = (await api.get("/tenants/acme")).data
    deleting = asyncio.create_task(api.delete("/tenants/acme"))
    await settle()
    there.service.rules.makes_by = lambda: 0  # as one of another version
    for _ in range(round(LONGEST) + 1):
        await node.beat()
        api.clock.advance(1_000)
        await settle()
    answer = await deleting
    assert (answer.status, answer.code) == (503, 9)
    assert answer.message.startswith("tenant: not every node has confirmed in time")
    assert (await api.get("/tenants/acme")).data == shown
    assert (await api.call("GET", "/timers", key=key)).status == 200


async def test_two_at_once(make_api):
    """Who marks it last deletes it; the other one is told so, and takes nothing back."""
    store = Meddling(MemoryStore())
    api, other = make_api(store), make_api(store)
    key = await api.make_key("acme")

    async def meddle() -> None:
        assert (await other.delete("/tenants/acme")).status == 200

    store.then = meddle
    store.before = lambda new: new.kind == "tenant" and b"deleted_at" in new.data
    assert (await api.delete("/tenants/acme")).status == 409
    assert (await api.get("/tenants/acme")).status == 404
    assert (await api.call("GET", "/timers", key=key)).status == 401


@pytest.mark.parametrize("how", ["before", "after"])
async def test_killed_at_every_write(make_api, how: str):
    """Its keys never open half of it, and who repeats it on another node ends it."""
    kills = 0
    for at in range(1, 40):
        real = MemoryStore()
        api: Api = make_api(real)
        key = await api.make_key("acme")
        await api.call("POST", "/groups", {"name": "g"}, key=key)
        dying: Api = make_api(CrashingStore(real, 0, how))
        await dying.get("/tenants")
        dying.store.writes, dying.store._at = 0, at
        was_killed = False
        try:
            assert (await dying.delete("/tenants/acme")).status == 200
        except Crash:
            was_killed = True
            kills += 1
            await api.service.rules.look(anew=True)
            if (await api.call("GET", "/groups/g", key=key)).status == 200:
                assert (await api.get("/tenants/acme/keys")).data["keys"] != []
            again = await make_api(real).delete("/tenants/acme")
            assert again.status in {200, 404}, at
        other: Api = make_api(real)
        assert (await other.call("GET", "/timers", key=key)).status == 401
        assert (await other.get("/tenants/acme")).status == 404
        assert await real.records("key") == [], at
        assert all(group.deleted_at is not None for group in other.service.rules.groups), at
        lines = await real.lines("acme", None, 100, descending=True)
        assert "tenant.delete" in {line.action for line in lines}, at
        if not was_killed:
            break
    assert kills >= 10  # mark, decision, key, group and end, each with its revision; the audit


async def test_when_its_keys_were_used_is_forgotten(quick_api: Api, make_api):
    """Nothing of it stays, nor does another node bring it back that still knew of a use."""
    api, other = quick_api, make_api(quick_api.store)
    key = await api.make_key("acme")
    for each in (api, other):
        assert (await each.call("GET", "/timers", key=key)).status == 200
    await api.service.uses.step()
    assert len(await api.store.records("key uses")) == 1
    assert (await api.delete("/tenants/acme")).status == 200
    assert await api.store.records("key uses") == []
    await other.service.uses.step()
    assert await api.store.records("key uses") == []


async def test_a_tenant_that_a_crash_left_on_its_way_can_be_kept(make_api):
    """If a timer of it came in meanwhile, the next try says so and opens it again."""
    real = MemoryStore()
    api: Api = make_api(real)
    there: Api = make_api(real)
    key = await api.make_key("acme")
    await there.call("GET", "/timers", key=key)
    dying: Api = make_api(CrashingStore(real, 3, "before"))
    with pytest.raises(Crash):
        await dying.delete("/tenants/acme")
    made = await there.call("POST", "/timers", timer_body(), key=key)  # it has not heard of it
    assert made.status == 201
    await api.service.rules.look()
    assert (await api.call("GET", "/timers", key=key)).status == 401
    assert (await acting(api, "GET", f"/timers/{made.data['id']}")).status == 200
    assert (await api.delete("/tenants/acme")).status == 409
    assert (await api.call("GET", "/timers", key=key)).status == 200


async def test_a_key_of_a_tenant_that_goes_is_not_left_behind(make_api):
    """Whoever makes it while its tenant is marked is refused, and nothing of it stays."""
    store = Meddling(MemoryStore())
    api, other = make_api(store), make_api(store)
    await api.post("/tenants", {"name": "acme"})
    node = OtherNode(make_api(store))
    await node.beat()
    deleting: list[asyncio.Task] = []

    async def meddle() -> None:
        deleting.append(asyncio.create_task(other.delete("/tenants/acme")))
        await settle()

    store.then = meddle
    store.before = lambda new: new.kind == "key"
    made = await api.post("/tenants/acme/keys", {"name": "n", "role": "admin"})
    assert made.summary == LEAVING
    assert await store.records("key") == []
    await node.beat()
    await looked(api)
    assert (await deleting[0]).status == 200
