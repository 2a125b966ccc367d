"""Keys that end: rotated, expired, dropped or revoked, on one node or on several."""

import asyncio
import json

import msgspec
import pytest

from duetime.stores.memory import MemoryStore
from duetime.tenancy import api_keys
from duetime.tenancy.api_key import ApiKey
from duetime.testing import FlakyStore
from tests.api.client import Api

pytestmark = pytest.mark.promise("roles-hold")

KEYS = "/tenants/acme/keys"
HOUR = 3_600_000


async def test_two_keys_are_valid_while_one_is_rotated(acme: Api):
    """The new one is good for the same; the old one ends when it was told to."""
    key = await acme.make_key("acme", "write", groups=["a"], expires_in="90d")
    [old] = (await acme.get(KEYS)).data["keys"]
    made = await acme.post(f"{KEYS}/{old['id']}/rotate", {"valid_for": "1h"})
    assert made.status == 201
    new = made.data
    assert {name: new[name] for name in ("name", "role", "groups", "expires_at")} == {
        name: old[name] for name in ("name", "role", "groups", "expires_at")
    }
    for each in (key, new["key"]):
        assert (await acme.call("GET", "/timers", key=each)).status == 200
    acme.clock.advance(3_600_000)
    assert (await acme.call("GET", "/timers", key=key)).status == 401
    assert (await acme.call("GET", "/timers", key=new["key"])).status == 200
    assert (await acme.post(f"{KEYS}/{old['id']}/rotate")).status == 409


@pytest.mark.parametrize("expiry", [{}, {"expires_in": "90d"}])
async def test_a_rotation_that_is_repeated(acme: Api, expiry: dict):
    """Because its answer was lost: the second new key ends when the old one was to end at first."""
    await acme.make_key("acme", "write", **expiry)
    [old] = (await acme.get(KEYS)).data["keys"]
    rotate = f"{KEYS}/{old['id']}/rotate"
    made = [(await acme.post(rotate, {"valid_for": each})).data for each in ("1h", "2h", "30m")]
    assert [key["expires_at"] for key in made] == [old["expires_at"]] * 3
    shown = (await acme.get(f"{KEYS}/{old['id']}")).data
    assert shown["expires_at"] == "2025-10-26T11:00:00Z"
    again = (await acme.post(f"{KEYS}/{made[2]['id']}/rotate")).data
    assert again["expires_at"] == old["expires_at"]


def test_a_key_that_was_stored_before_rotations_were_noted():
    """It has no such field, and ends when it says."""
    data = b'{"id":"i","tenant":"t","name":"n","role":"read","digest":"","created_at":1,'
    key = msgspec.json.decode(data + b'"created_by":"c","expires_at":5}', type=ApiKey)
    assert key.end_without_rotation == 5
    assert msgspec.json.encode(key).startswith(data)


async def test_a_key_expires(acme: Api):
    """To the millisecond, at a time or after a while; never in the past."""
    by_time = await acme.make_key("acme", "read", expires_at="2025-10-26T11:30:00Z")
    after = await acme.make_key("acme", "read", expires_in="1h")
    acme.clock.advance(3_599_999)
    for key in (by_time, after):
        assert (await acme.call("GET", "/timers", key=key)).status == 200
    acme.clock.advance(1)
    for key in (by_time, after):
        assert (await acme.call("GET", "/timers", key=key)).summary == (401, 4, "unauthorized")
    body = {"name": "n", "role": "read"}
    past = await acme.post(KEYS, {**body, "expires_at": "2025-10-26T11:30:00Z"})
    assert past.summary == (400, 2, "expires_at: must be in the future")
    now = await acme.post(KEYS, {**body, "expires_in": "0s"})
    assert now.summary == (400, 2, "expires_in: must be more than 0s")
    both = await acme.post(KEYS, {**body, "expires_at": "2030-01-01T00:00:00Z", "expires_in": "1h"})
    assert both.summary == (
        400,
        2,
        "expires_in: cannot be given together with expires_at",
    )


async def test_keys_that_have_ended_do_not_count(quick_api: Api, monkeypatch):
    """However often keys are rotated, there is room for the next one."""
    monkeypatch.setattr(api_keys, "MOST_KEYS", 3)
    api = quick_api
    await api.make_key("acme")
    [key] = (await api.get(KEYS)).data["keys"]
    for _ in range(5):
        made = await api.post(f"{KEYS}/{key['id']}/rotate", {"valid_for": "1h"})
        assert made.status == 201
        key = made.data
        api.clock.advance(HOUR)
    for _ in range(2):
        await api.make_key("acme")
    full = await api.post(KEYS, {"name": "n", "role": "read"})
    assert full.summary == (409, 5, "key: a tenant has at most 3 keys; revoke some")


async def test_keys_that_have_ended_are_dropped_in_the_end(quick_api: Api, make_api):
    """Thirty days after their end, when the next key is made; with what is known of their use."""
    api = quick_api
    key = await api.make_key("acme", expires_in="1h")
    await api.make_key("rival", expires_in="1h")
    [old] = (await api.get(KEYS)).data["keys"]
    await api.call("GET", "/timers", key=key)
    await api.service.uses.step()
    api.clock.advance(HOUR + 30 * 24 * HOUR - 1)
    await api.make_key("acme")
    assert old["id"] in {each["id"] for each in (await api.get(KEYS)).data["keys"]}
    api.clock.advance(1)
    await api.make_key("acme")
    for node in (api, make_api(api.store)):
        assert [each["role"] for each in (await node.get(KEYS)).data["keys"]] == ["admin"] * 2
        assert len((await node.get("/tenants/rival/keys")).data["keys"]) == 1
    assert await api.service.uses.of("acme") == {}


async def test_keys_that_have_ended_are_few(quick_api: Api, monkeypatch):
    """Who makes many that end at once fills nobody's memory: the oldest are dropped before."""
    monkeypatch.setattr(api_keys, "MOST_ENDED", 3)
    for number in range(10):
        body = {"name": f"n{number}", "role": "read", "expires_in": "1ms"}
        assert (await quick_api.post("/tenants/default/keys", body)).status == 201
        quick_api.clock.advance(1)
    kept = (await quick_api.get("/tenants/default/keys")).data["keys"]
    assert [each["name"] for each in kept] == ["n6", "n7", "n8", "n9"]


async def test_a_key_does_not_outlive_its_maker(acme: Api):
    """Who ends makes keys that end no later: by itself, or when they ask for no more than that."""
    key = await acme.make_key("acme", expires_at="2025-10-27T00:00:00Z")
    body = {"name": "n", "role": "admin"}
    ends = {
        None: {},
        "2025-10-26T11:30:00Z": {"expires_in": "1h"},
        "2025-10-27T00:00:00Z": {"expires_at": "2025-10-27T00:00:00Z"},
    }
    for end, expiry in ends.items():
        made = await acme.call("POST", KEYS, {**body, **expiry}, key=key)
        assert made.data["expires_at"] == (end or "2025-10-27T00:00:00Z")
    for field, value in (("expires_in", "1d"), ("expires_at", "2025-10-27T00:00:00.001Z")):
        refused = await acme.call("POST", KEYS, {**body, field: value}, key=key)
        assert refused.summary == (
            403,
            10,
            f"{field}: this key ends at 2025-10-27T00:00:00Z, and makes keys that end no later",
        )
    made = await acme.post(KEYS, body)
    assert made.data["expires_at"] is None  # the operator's key has no end


async def test_a_rotation_does_not_outlive_its_maker(acme: Api):
    """Who ends gets no key that lasts by rotating another; its own it may rotate twice."""
    key = await acme.make_key("acme", expires_at="2025-10-27T00:00:00Z")
    [own] = (await acme.get(KEYS)).data["keys"]
    lasting = (await acme.post(KEYS, {"name": "lasting", "role": "read"})).data
    refused = await acme.call("POST", f"{KEYS}/{lasting['id']}/rotate", key=key)
    assert refused.summary == (
        403,
        10,
        "key: this key ends at 2025-10-27T00:00:00Z, and makes keys that end no later",
    )
    assert (await acme.get(f"{KEYS}/{lasting['id']}")).data["expires_at"] is None
    for _ in range(2):  # its end is brought forward by the first
        made = await acme.call("POST", f"{KEYS}/{own['id']}/rotate", {"valid_for": "1h"}, key=key)
        assert made.data["expires_at"] == "2025-10-27T00:00:00Z"
    short = await acme.call("POST", KEYS, {"name": "n", "role": "read"}, key=key)
    assert short.data["expires_at"] == "2025-10-26T11:30:00Z"


async def test_a_revoked_key_opens_nothing_here(acme: Api):
    """At once on the node that was told; and it is gone from the list."""
    key = await acme.make_key("acme")
    [kept] = (await acme.get(KEYS)).data["keys"]
    assert (await acme.delete(f"{KEYS}/{kept['id']}")).status == 200
    assert (await acme.call("GET", "/timers", key=key)).status == 401
    assert (await acme.get(KEYS)).data == {"keys": []}
    assert (await acme.delete(f"{KEYS}/{kept['id']}")).summary == (404, 3, "key not found")


async def test_other_nodes_hear_of_keys(acme: Api, make_api):
    """A new key works on all nodes at once; a revoked one until they look, which is soon."""
    other = make_api(acme.store)
    key = await acme.make_key("acme")
    assert (await other.call("GET", "/timers", key=key)).status == 200
    [kept] = (await acme.get(KEYS)).data["keys"]
    await acme.delete(f"{KEYS}/{kept['id']}")
    await other.service.rules.look()  # with its next heartbeat
    assert (await other.call("GET", "/timers", key=key)).status == 401


async def test_a_revocation_that_was_cut_short_is_finished(acme: Api, make_api):
    """Whoever repeats it after a crash finds it still to be done, and other nodes hear of it."""
    key = await acme.make_key("acme")
    [kept] = (await acme.get(KEYS)).data["keys"]
    other = make_api(acme.store)
    assert (await other.call("GET", "/timers", key=key)).status == 200
    rules = acme.service.rules
    revoked = {**json.loads(rules.keys.kept(kept["id"]).record.data), "revoked_at": 1}
    record = rules.keys.kept(kept["id"]).record
    half = type(record)(
        kind="key", name=record.name, version=record.version + 1, data=json.dumps(revoked).encode()
    )
    assert await acme.store.put_record(record, half)  # and then its node was gone
    await rules.look(anew=True)
    assert (await acme.delete(f"{KEYS}/{kept['id']}")).status == 200
    await other.service.rules.look()
    assert (await other.call("GET", "/timers", key=key)).status == 401


async def test_a_key_that_is_revoked_while_it_is_rotated_stays_so(make_api):
    """Whoever rotates it must not bring it back."""
    store = FlakyStore(MemoryStore())
    api: Api = make_api(store)
    key = await api.make_key("acme")
    [kept] = (await api.get(KEYS)).data["keys"]
    real, other = store.store.put_record, make_api(store)

    async def put_record(old, new):
        if new is not None and new.kind == "key" and new.name != kept["id"]:
            store.store.put_record = real
            assert (await other.delete(f"{KEYS}/{kept['id']}")).status == 200
        return await real(old, new)

    store.store.put_record = put_record
    assert (await api.post(f"{KEYS}/{kept['id']}/rotate")).status == 201
    for each in (api, other):
        assert (await each.call("GET", "/timers", key=key)).status == 401
        assert [one["id"] == kept["id"] for one in (await each.get(KEYS)).data["keys"]] == [False]


async def test_a_key_that_is_revoked_before_its_rotation_begins_to_write(make_api):
    """What the rotation has read of it is not written over what it has become."""
    store = FlakyStore(MemoryStore())
    api, other = make_api(store), make_api(store)
    key = await api.make_key("acme")
    [kept] = (await api.get(KEYS)).data["keys"]
    staying = api.service.tenants.staying

    async def meanwhile(*args):
        api.service.tenants.staying = staying
        real = other.service.rules.put

        async def first_step_only(shelf, name, old, new):
            if new is None:  # the second one is slow
                other.service.rules.put = real
                rotated.set()
                await has_rotated.wait()
            return await real(shelf, name, old, new)

        other.service.rules.put = first_step_only
        revoking.append(asyncio.create_task(other.delete(f"{KEYS}/{kept['id']}")))
        await rotated.wait()
        await api.service.rules.look()
        return await staying(*args)

    rotated, has_rotated, revoking = asyncio.Event(), asyncio.Event(), []
    api.service.tenants.staying = meanwhile
    await api.post(f"{KEYS}/{kept['id']}/rotate")
    has_rotated.set()
    assert (await revoking[0]).status == 200
    for each in (api, other):
        await each.service.rules.look()
        assert (await each.call("GET", "/timers", key=key)).status == 401


@pytest.mark.parametrize(("meddling", "status"), [("rotate", 200), ("revoke", 404)])
async def test_a_revocation_goes_through(make_api, meddling: str, status: int):
    """On what the key has become by a rotation meanwhile; one that others revoked is gone."""
    store = FlakyStore(MemoryStore())
    api, other = make_api(store), make_api(store)
    key = await api.make_key("acme")
    [kept] = (await api.get(KEYS)).data["keys"]
    path, real = f"{KEYS}/{kept['id']}", store.store.put_record

    async def put_record(old, new):
        if new is not None and b"revoked_at" in new.data:
            store.store.put_record = real
            if meddling == "rotate":
                assert (await other.post(f"{path}/rotate")).status == 201
            else:
                assert (await other.delete(path)).status == 200
        return await real(old, new)

    store.store.put_record = put_record
    assert (await api.delete(path)).status == status
    for each in (api, other):
        await each.service.rules.look()
        assert (await each.call("GET", "/timers", key=key)).status == 401
        assert kept["id"] not in {one["id"] for one in (await each.get(KEYS)).data["keys"]}


@pytest.mark.parametrize("how", ["revoked", "expired"])
@pytest.mark.parametrize("what", ["create", "rotate itself", "rotate another"])
async def test_a_key_that_ends_while_it_makes_another(make_api, what: str, how: str):
    """Once its end is acknowledged, on whichever node, no key comes from it any more."""
    store = FlakyStore(MemoryStore())
    api, other = make_api(store), make_api(store)
    key = await api.make_key("acme", expires_in="1h")
    another = (await api.post(KEYS, {"name": "n", "role": "read", "expires_in": "1m"})).data["id"]
    id_, real = key.split("_")[1], store.store.put_record

    async def put_record(old, new):
        if new is not None and new.kind == "key" and old is None:
            store.store.put_record = real
            if how == "expired":
                api.clock.advance(HOUR)
            else:
                assert (await other.delete(f"{KEYS}/{id_}")).status == 200
        return await real(old, new)

    store.store.put_record = put_record
    path, body = {
        "create": (KEYS, {"name": "new", "role": "admin"}),
        "rotate itself": (f"{KEYS}/{id_}/rotate", None),
        "rotate another": (f"{KEYS}/{another}/rotate", None),
    }[what]
    assert (await api.call("POST", path, body, key=key)).summary == (401, 4, "unauthorized")
    assert {record.name for record in await store.records("key")} <= {id_, another}
    lines = await store.lines("acme", None, 100, descending=True)
    assert id_ not in {line.key for line in lines}
