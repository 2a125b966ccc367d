"""Keys: made and shown once, and good for what they say; how they end is in test_key_ends.py."""

import asyncio
import logging

import pytest

from duetime.api.auth import MOST_STRANGERS
from duetime.stores.memory import MemoryStore
from duetime.testing import FlakyStore
from tests.api.client import KEY, Api, call_app, timer_body
from tests.waiting import settle

pytestmark = pytest.mark.promise("roles-hold")

KEYS = "/tenants/acme/keys"
RESERVED = "name: only the API_KEY of the service is called 'operator'"
OWN = "name: only the service itself is called 'duetime'"
NOT_ALLOWED = "name: has a character that is not allowed here"


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
        ({"name": "n\n", "role": "read"}, NOT_ALLOWED),
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


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("\uff4f\uff50\uff45\uff52\uff41\uff54\uff4f\uff52", RESERVED),  # of full width
        ("\U0001d428perator", RESERVED),  # bold
        ("\u24deperator", RESERVED),  # in a circle
        ("\u00a0operator\u3000", RESERVED),  # between other spaces
        ("operator\ufe0f", RESERVED),  # with a mark that is not seen
        ("o\u034fperator", RESERVED),
        ("duetime", OWN),
        (" DueTime", OWN),
        ("oper\u200bator", NOT_ALLOWED),  # a space of no width
        ("operator\u200d", NOT_ALLOWED),
        ("operat\u00ador", NOT_ALLOWED),  # a hyphen that is not shown
        ("\u202erotarepo", NOT_ALLOWED),  # from right to left
        ("billing\ufeff", NOT_ALLOWED),
        ("a\u2028b", NOT_ALLOWED),  # a line of its own
        ("a\u2029b", NOT_ALLOWED),
        ("operator\u3164", NOT_ALLOWED),  # a letter that is not drawn
        ("operator\u2800", NOT_ALLOWED),
        ("operator\ue000", NOT_ALLOWED),  # one that every font draws otherwise, or not at all
        ("\u034f", NOT_ALLOWED),  # nothing but a mark
    ],
)
async def test_names_that_would_be_taken_for_others(acme: Api, name: str, message: str):
    """No key reads like the operator, or like the service, and none has what cannot be seen."""
    answer = await acme.post(KEYS, {"name": name, "role": "read"})
    assert answer.summary == (400, 2, message)
    assert (await acme.get(KEYS)).data == {"keys": []}


@pytest.mark.parametrize("name", ["operators", "co-operator", "operator 2", "größe", "会计", "🔑"])
async def test_names_that_are_like_no_other(acme: Api, name: str):
    """Whatever else people call their keys is theirs to choose."""
    assert (await acme.post(KEYS, {"name": name, "role": "read"})).data["name"] == name


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
