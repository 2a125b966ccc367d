"""Keys: made and shown once, good for what they say, rotated, expired and revoked."""

import asyncio
import json
import logging

import msgspec
import pytest

from duetime.api.auth import MOST_STRANGERS
from duetime.stores.memory import MemoryStore
from duetime.tenancy import api_keys
from duetime.tenancy.api_key import ApiKey
from duetime.testing import FlakyStore
from tests.api.client import KEY, Api, call_app, timer_body
from tests.waiting import settle

pytestmark = pytest.mark.promise("roles-hold")

KEYS = "/tenants/acme/keys"
HOUR = 3_600_000
RESERVED = "name: only the API_KEY of the service is called 'operator'"


@pytest.fixture
async def acme(api: Api) -> Api:
    assert (await api.post("/tenants", {"name": "acme"})).status == 201
    return api


async def test_a_key_opens_its_own_tenant(acme: Api):
    """What it makes is its tenant's, and nobody else's."""
    made = await acme.post(KEYS, {"name": "billing", "role": "write"})
    assert made.status == 201
    key = made.data["key"]
    assert made.data | {"key": "", "id": "", "prefix": "", "created_at": ""} == {
        "id": "",
        "tenant": "acme",
        "name": "billing",
        "role": "write",
        "groups": None,
        "prefix": "",
        "created_at": "",
        "created_by": "operator",
        "expires_at": None,
        "last_used_at": None,
        "key": "",
    }
    assert key.startswith(made.data["prefix"] + "_")
    timer = (await acme.call("POST", "/timers", timer_body(), key=key)).data
    assert (await acme.call("GET", f"/timers/{timer['id']}", key=key)).status == 200
    assert (await acme.get(f"/timers/{timer['id']}")).status == 404
    as_acme = {"X-Tenant-ID": "acme"}
    answer = await acme.call("GET", f"/timers/{timer['id']}", headers=as_acme)
    assert answer.status == 200


async def test_bearer(acme: Api):
    """Authorization: Bearer works like X-API-Key, for every key."""
    key = await acme.make_key("acme")
    for text, spelled in ((key, "Bearer"), (KEY, "bearer"), (key, "BEARER")):
        headers = {"Authorization": f"{spelled} {text}"}
        assert (await acme.call("GET", "/timers", key=None, headers=headers)).status == 200
    for wrong in (f"Basic {key}", key, "Bearer", "Bearer ", f"Bearer {key}x"):
        answer = await acme.call("GET", "/timers", key=None, headers={"Authorization": wrong})
        assert answer.summary == (401, 4, "unauthorized")


@pytest.mark.parametrize("name", ["X-API-Key", "Authorization", "X-Tenant-ID"])
@pytest.mark.parametrize("values", [("a", "b"), ("b", "a"), ("a", "a")])
async def test_who_asks_is_said_once(acme: Api, name: str, values: tuple[str, str]):
    """Of two such headers none wins in silence, nor if they say the same, nor for known keys."""
    own = await acme.make_key("acme")
    for key in (KEY, own):
        texts = {
            "X-API-Key": {"a": key, "b": "wrong"},
            "Authorization": {"a": f"Bearer {key}", "b": "Bearer wrong"},
            "X-Tenant-ID": {"a": "acme", "b": "default"},
        }[name]
        headers = [(name.lower().encode(), texts[value].encode()) for value in values]
        if name == "X-Tenant-ID":
            headers.append((b"x-api-key", key.encode()))
        answer = await call_app(acme.app, "GET", "/timers", headers=headers)
        assert answer.summary == (400, 2, f"{name}: is given more than once")


@pytest.mark.parametrize(
    "wrong",
    [
        "dt_",
        "dt__",
        "dt_0123456789abcdef_",
        "dt_0123456789abcdef_x",
        "dt_0123456789abcdef",
        "dt_" + "ü" * 16 + "_x",
        "dt_" + "a" * 100_000,
    ],
)
async def test_what_is_no_key(quick_api: Api, wrong: str):
    """Texts that look like keys, more or less, open nothing."""
    answer = await quick_api.call("GET", "/timers", key=wrong)
    assert answer.summary == (401, 4, "unauthorized")


@pytest.mark.promise("no-secret")
async def test_a_key_is_shown_once_and_stored_as_a_hash(acme: Api, caplog):
    """Neither the store nor any later answer, log or audit line has it, not even a part of it."""
    caplog.set_level(logging.DEBUG)
    made = (await acme.post(KEYS, {"name": "n", "role": "admin"})).data
    secret = made["key"].removeprefix(made["prefix"] + "_")
    await acme.call("GET", "/timers", key=made["key"])
    await acme.call("GET", "/timers", key=made["key"] + "x")
    rotated = (await acme.post(f"{KEYS}/{made['id']}/rotate")).data
    answers = [
        await acme.get(KEYS),
        await acme.get(f"{KEYS}/{made['id']}"),
        await acme.call("GET", "/audit", headers={"X-Tenant-ID": "acme"}),
        await acme.call("GET", "/audit/export", headers={"X-Tenant-ID": "acme"}),
        await acme.delete(f"{KEYS}/{made['id']}"),
    ]
    stored = [record async for record in everything(acme)]
    for each in (secret, rotated["key"].removeprefix(rotated["prefix"] + "_")):
        assert all(each not in answer.body.decode() for answer in answers)
        assert each not in caplog.text
        assert all(each.encode() not in record for record in stored)


async def everything(api: Api):
    for kind in ("tenant", "key", "group", "key uses", "revision"):
        for record in await api.store.records(kind):
            yield record.data


@pytest.mark.promise("no-secret")
async def test_a_key_in_the_wrong_place_is_not_repeated(acme: Api):
    """An error that quotes what was sent leaves the secret out: others may read errors."""
    key = await acme.make_key("acme")
    shown = key[:20] + "***"
    for body, message in (
        ({key: 1}, f"{shown}: unknown field"),
        ({"name": "n", "role": key}, f"role: '{shown}' is not one of the known values"),
        ({"name": "n", "role": f"a{key}-b"}, None),
    ):
        answer = await acme.call("POST", KEYS, body, key=key)
        assert answer.status == 400
        assert message is None or answer.message == message
        assert key[20:] not in answer.body.decode()
    batch = {"timers": [timer_body(**{key: 1})]}
    [item] = (await acme.call("POST", "/timers/batch", batch, key=key)).data["timers"]
    assert item["message"] == f"{shown}: unknown field"


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


async def test_when_it_was_last_used(acme: Api, make_api):
    """Each node writes down what it knows now and then; the latest counts."""
    key = await acme.make_key("acme")
    other = make_api(acme.store)
    await acme.call("GET", "/timers", key=key)
    acme.clock.advance(5_000)
    await other.call("GET", "/timers", key=key)
    assert (await acme.get(KEYS)).data["keys"][0]["last_used_at"] == "2025-10-26T10:30:00Z"
    for api in (other, acme):  # the later one first
        await api.service.uses.step()
    for api in (other, acme):
        [kept] = (await api.get(KEYS)).data["keys"]
        assert kept["last_used_at"] == "2025-10-26T10:30:05Z"
    assert acme.service.uses._new == {}


async def test_only_the_operator_acts_for_others(acme: Api):
    """X-Tenant-ID with a tenant's key is refused, whether that tenant exists or not."""
    key = await acme.make_key("acme")
    await acme.make_key("rival")
    for tenant in ("rival", "default", "nobody", ""):
        answer = await acme.call("GET", "/timers", key=key, headers={"X-Tenant-ID": tenant})
        assert answer.summary == (
            403,
            10,
            "X-Tenant-ID: only the operator's key acts for other tenants",
        )
    own = await acme.call("GET", "/timers", key=key, headers={"X-Tenant-ID": "acme"})
    assert own.status == 200
    unknown = await acme.call("GET", "/timers", headers={"X-Tenant-ID": "nobody"})
    assert unknown.summary == (404, 3, "tenant not found")


async def test_an_admin_makes_keys_of_its_own_tenant_only(acme: Api):
    """Another tenant's keys are not there for it, nor is that tenant."""
    key = await acme.make_key("acme")
    await acme.make_key("rival")
    body = {"name": "n", "role": "read"}
    assert (await acme.call("POST", KEYS, body, key=key)).status == 201
    for tenant in ("rival", "nobody", "default"):
        answer = await acme.call("POST", f"/tenants/{tenant}/keys", body, key=key)
        assert answer.summary == (404, 3, "tenant not found")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "name: required"),
        ({"name": "n"}, "role: required"),
        ({"name": "n", "role": "operator"}, "role: 'operator' is not one of the known values"),
        ({"name": "n", "role": "read", "groups": []}, "groups: must have a length >= 1"),
        (
            {"name": "n", "role": "read", "groups": ["a b"]},
            "groups[0]: has a character that is not allowed here",
        ),
        ({"name": "", "role": "read"}, "name: must have a length >= 1"),
        ({"name": "operator", "role": "read"}, RESERVED),
        ({"name": "OPERATOR", "role": "read"}, RESERVED),
        ({"name": " Operator ", "role": "read"}, RESERVED),
        ({"name": "n\n", "role": "read"}, "name: has a character that is not allowed here"),
        ({"name": "n", "role": "read", "secret": "s"}, "secret: unknown field"),
        ({"name": "n", "role": "read", "expires_in": "soon"}, None),
    ],
)
async def test_bad_keys(acme: Api, body: dict, message: str | None):
    """What is wrong is named, and no key is made."""
    answer = await acme.post(KEYS, body)
    assert (answer.status, answer.code) == (400, 2)
    assert message is None or answer.message == message
    assert (await acme.get(KEYS)).data == {"keys": []}


async def test_a_store_that_is_away_does_not_lock_known_keys_out(make_api, clock):
    """Who is known goes on; who is not known is told to come back, and not that they are nobody."""
    api: Api = make_api(MemoryStore())
    key = await api.make_key("acme")
    await api.store.close()
    assert (await api.call("GET", "/nodes/x", key=key)).status == 404
    unknown = await api.call("GET", "/nodes/x", key="dt_0123456789abcdef_x")
    assert unknown.summary == (503, 9, "the key cannot be checked just now, try again")


async def test_who_am_i(acme: Api):
    """A key is told what it is good for, and for whom it acts."""
    key = await acme.make_key("acme", "write", groups=["b", "a"])
    [kept] = (await acme.get(KEYS)).data["keys"]
    assert (await acme.call("GET", "/whoami", key=key)).data == {
        "tenant": "acme",
        "role": "write",
        "name": "write of acme",
        "key": kept["id"],
        "groups": ["a", "b"],
    }
    operator = (await acme.call("GET", "/whoami", headers={"X-Tenant-ID": "acme"})).data
    assert (operator["tenant"], operator["role"], operator["key"]) == ("acme", "operator", None)


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


async def test_a_key_that_is_made_while_its_tenant_goes_opens_nothing(make_api):
    """Whoever made it is told that there is no such tenant."""
    store = FlakyStore(MemoryStore())
    api, other = make_api(store), make_api(store)
    await api.post("/tenants", {"name": "acme"})
    real = store.store.put_record

    async def put_record(old, new):
        if new is not None and new.kind == "key":
            store.store.put_record = real
            assert (await other.delete("/tenants/acme")).status == 200
        return await real(old, new)

    store.store.put_record = put_record
    answer = await api.post(KEYS, {"name": "n", "role": "admin"})
    assert answer.summary == (404, 3, "tenant not found")


async def test_strangers_do_not_make_a_node_read_all_the_time(make_api):
    """Beyond some in a second they wait, and share what is read."""
    store = FlakyStore(MemoryStore())
    api: Api = make_api(store)
    wrong = "dt_0123456789abcdef_x"
    for _ in range(MOST_STRANGERS):
        assert (await api.call("GET", "/timers", key=wrong)).status == 401
    store.calls.clear()
    calls = [asyncio.create_task(api.call("GET", "/timers", key=wrong)) for _ in range(50)]
    await settle()
    assert store.calls == []
    api.clock.advance(250)
    assert {(await each).status for each in calls} == {401}
    api.clock.advance(1_000)
    assert (await api.call("GET", "/timers", key=wrong)).status == 401
