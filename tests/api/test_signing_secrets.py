"""Signing secrets: made and shown once, for a tenant or a group; test_secret_ends.py: their end."""

import asyncio
import hashlib

import pytest

from duetime.errors import StoreUnavailable
from duetime.stores.memory import MemoryStore
from duetime.tenancy.signing_secrets import MOST_ACTIVE
from duetime.testing import FlakyStore
from duetime.vault import Vault
from duetime.webhooks import decode_secret
from tests.api.client import Api
from tests.api.conftest import VAULT
from tests.webhook_vector import OTHER, SECRET

pytestmark = pytest.mark.promise("roles-hold")

PATH = "/signing-secrets"
NOT_FOUND = (404, 3, "signing secret not found")


async def made(api: Api, key: str | None = None, **body) -> dict:
    """A new secret, as it was answered."""
    answer = await api.call("POST", PATH, body, **({} if key is None else {"key": key}))
    assert answer.status == 201, answer
    return answer.data


async def listed(api: Api, **params) -> list[dict]:
    answer = await api.get(PATH, **params)
    assert answer.status == 200, answer
    return answer.data["signing_secrets"]


def opened(api: Api, id_: str) -> bytes:
    """What is really kept."""
    secret = api.service.rules.signing_secrets.find(id_)
    return VAULT.open(secret.sealed, secret.purpose)


@pytest.mark.promise("no-secret")
async def test_it_is_shown_once(api: Api):
    """In the answer that made it; lists tell who made it, when, and which it is."""
    secret = await made(api)
    text = secret["secret"]
    assert secret == {
        "id": secret["id"],
        "group": None,
        "fingerprint": hashlib.sha256(text.encode()).hexdigest()[:8],
        "is_active": True,
        "created_at": "2025-10-26T10:30:00Z",
        "created_by": "operator",
        "expires_at": None,
        "secret": text,
    }
    assert len(decode_secret(text)) == 32
    assert opened(api, secret["id"]) == decode_secret(text)
    shown = await api.get(PATH)
    known = {name: value for name, value in secret.items() if name != "secret"}
    assert shown.data == {"signing_secrets": [known]}
    plain = text.removeprefix("whsec_").encode()
    assert plain not in shown.body
    assert plain not in (await api.get("/audit")).body
    records = await api.store.records("signing secret")
    assert len(records) == 1
    assert plain not in records[0].data
    assert decode_secret(text) not in records[0].data


@pytest.mark.promise("no-secret")
async def test_one_that_is_brought_is_not_shown(api: Api):
    """Not even in the answer; and what is kept is what was brought."""
    answer = await api.post(PATH, {"secret": f" {SECRET} "})
    assert answer.status == 201
    assert answer.data["secret"] is None
    assert SECRET.removeprefix("whsec_").encode() not in answer.body
    assert opened(api, answer.data["id"]) == decode_secret(SECRET)
    again = await api.post(PATH, {"secret": SECRET})
    assert again.summary == (409, 5, "secret: it is one of the active ones already")
    await made(api, secret=OTHER)


@pytest.mark.promise("no-secret", "bad-input")
@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"secret": "hunter2hunter2"}, 'secret: must start with "whsec_"'),
        ({"secret": "whsec_hunter2hunter2"}, 'secret: must be "whsec_" and the base64 of 24'),
        ({"secret": "whsec_" + "hunter2=" * 8}, 'secret: must be "whsec_" and the base64 of 24'),
        ({"secret": "hunter2" * 40}, "secret: "),
        ({"secret": {"hunter2": 1}}, "secret: must be a string or null, not an object"),
        ({"whsec_hunter2hunter2hunter2": 1}, "whsec_***: unknown field"),
        ({"group": "whsec_hunter2/hunter2"}, "group: "),
        ({"group": ""}, "group: "),
        ({"expires_in": "0s"}, "expires_in: must be more than 0s"),
        ({"expires_in": "soon"}, "expires_in: "),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at: must be in the future"),
        ({"expires_in": "1h", "expires_at": "2030-01-01T00:00:00Z"}, "expires_in: cannot be"),
    ],
)
async def test_what_is_refused(quick_api: Api, body, told: str):
    """The field is named, no secret is repeated, and nothing is made."""
    answer = await quick_api.post(PATH, body)
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.startswith(told)
    assert "hunter2" not in answer.message
    assert await listed(quick_api) == []


async def test_without_a_key_to_seal_with(make_api):
    """Nothing is made, and it is said what the operator must do; all else works."""
    sealing: Api = make_api(MemoryStore())
    secret = await made(sealing)
    api: Api = make_api(sealing.store, vault=Vault())
    told = "the service has no SECRETS_KEY to keep secrets with; make one with: openssl rand"
    for path in (PATH, f"{PATH}/{secret['id']}/rotate"):
        answer = await api.post(path)
        assert (answer.status, answer.code) == (409, 5)
        assert told in answer.message
    assert told in (await api.post("/secrets/reseal")).message
    assert [each["id"] for each in await listed(api)] == [secret["id"]]
    assert (await api.delete(f"{PATH}/{secret['id']}")).status == 200
    assert await listed(api) == []


async def test_each_tenant_has_its_own(acme: Api):
    """What is another's does not exist."""
    key = await acme.make_key("acme")
    mine, other = await made(acme, key), await made(acme)
    assert [each["id"] for each in await listed(acme)] == [other["id"]]
    for method, tail in (("DELETE", ""), ("POST", "/rotate")):
        answer = await acme.call(method, f"{PATH}/{other['id']}{tail}", key=key)
        assert answer.summary == NOT_FOUND
        answer = await acme.call(method, f"{PATH}/{mine['id']}{tail}")
        assert answer.summary == NOT_FOUND
    of_acme = await acme.call("GET", PATH, headers={"X-Tenant-ID": "acme"})
    assert [each["id"] for each in of_acme.data["signing_secrets"]] == [mine["id"]]
    assert mine["created_by"] == "admin of acme"


async def test_a_key_for_some_groups(acme: Api):
    """It makes, sees, rotates and revokes those of its groups, and no others."""
    whole, some = await acme.make_key("acme"), await acme.make_key("acme", groups=["a", "b"])
    for name in ("a", "b", "c"):
        await acme.call("PUT", f"/groups/{name}", {}, key=whole)
    secrets = {group: await made(acme, whole, group=group) for group in ("a", "c", None)}
    refused = await acme.call("POST", PATH, {}, key=some)
    told = "group: a key that is for some groups makes secrets for these only"
    assert refused.summary == (403, 10, told)
    refused = await acme.call("POST", PATH, {"group": "c"}, key=some)
    assert refused.summary == (403, 10, "group: this key is not for the group 'c'")
    own = await made(acme, some, group="b")
    seen = (await acme.call("GET", PATH, key=some)).data["signing_secrets"]
    assert {each["id"] for each in seen} == {secrets["a"]["id"], own["id"]}
    hidden = (await acme.call("GET", PATH, key=some, params={"group": "c"})).data
    assert hidden == {"signing_secrets": []}
    for group, is_seen in (("a", True), ("c", False), (None, False)):
        id_ = secrets[group]["id"]
        rotated = await acme.call("POST", f"{PATH}/{id_}/rotate", key=some)
        assert (rotated.status, rotated.code) == ((201, 0) if is_seen else (404, 3))
        revoked = await acme.call("DELETE", f"{PATH}/{id_}", key=some)
        assert (revoked.status, revoked.code) == ((200, 0) if is_seen else (404, 3))
    lines = (await acme.call("GET", "/audit", key=some)).data["lines"]
    assert {line["group"] for line in lines} <= {"a", "b"}


async def test_a_group_must_be_there(api: Api):
    """The default group always is."""
    assert (await api.post(PATH, {"group": "g"})).summary == (404, 3, "group not found")
    await api.put("/groups/g", {})
    first, second = await made(api, group="g"), await made(api, group="default")
    assert (first["group"], second["group"]) == ("g", "default")
    assert [each["id"] for each in await listed(api, group="g")] == [first["id"]]
    assert await listed(api, group="other") == []
    assert len(await listed(api)) == 2


async def test_there_is_room_for_a_few(api: Api):
    """Each is one more signature; those of other groups, and ended ones, do not count."""
    await api.put("/groups/g", {})
    for _ in range(MOST_ACTIVE - 1):
        await made(api)
    last = await made(api, expires_in="1h")
    for path in (PATH, f"{PATH}/{last['id']}/rotate"):
        answer = await api.post(path)
        told = f"signing secret: at most {MOST_ACTIVE} are active at once; revoke some"
        assert answer.summary == (409, 5, told)
    await made(api, group="g")
    api.clock.advance(3_600_000)
    await made(api)
    assert (await api.post(PATH)).status == 409


async def test_all_who_come_at_once(make_api):
    """They do not all take the last place."""
    api: Api = make_api(MemoryStore())
    answers = await asyncio.gather(*[api.post(PATH) for _ in range(3 * MOST_ACTIVE)])
    assert sum(each.status == 201 for each in answers) == MOST_ACTIVE


async def test_who_did_it_is_in_the_audit(api: Api):
    """With the group, and with how the secret is told apart, and nothing more of it."""
    await api.put("/groups/g", {})
    old = await made(api, group="g")
    api.clock.advance(1)
    new = (await api.post(f"{PATH}/{old['id']}/rotate", {"valid_for": "1h"})).data
    api.clock.advance(1)
    await api.delete(f"{PATH}/{old['id']}")
    lines = (await api.get("/audit", kind="signing_secret", order="asc")).data["lines"]
    assert [(each["action"], each["target"], each["group"]) for each in lines] == [
        ("secret.create", old["id"], "g"),
        ("secret.rotate", new["id"], "g"),
        ("secret.revoke", old["id"], "g"),
    ]
    assert [each["details"] for each in lines] == [
        {"fingerprint": old["fingerprint"]},
        {
            "fingerprint": new["fingerprint"],
            "rotated": old["id"],
            "valid_until": "2025-10-26T11:30:00.001Z",
        },
        {"fingerprint": old["fingerprint"]},
    ]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("write", [1, 2])
async def test_a_store_that_fails_as_one_is_made(make_api, when: str, write: int):
    """What nobody was shown may be there, and can be seen and revoked; or it can be made again."""
    store = FlakyStore(MemoryStore())
    api: Api = make_api(store)
    real, writes = store.store.put_record, 0

    async def put_record(before, after):
        nonlocal writes
        writes += 1
        if (writes, when) == (write, "before"):
            raise StoreUnavailable("as told")
        answer = await real(before, after)
        if (writes, when) == (write, "after"):
            raise StoreUnavailable("as told")
        return answer

    store.store.put_record = put_record
    assert (await api.post(PATH)).status == 500
    store.store.put_record = real
    for unknown in await listed(api):
        assert (await api.delete(f"{PATH}/{unknown['id']}")).status == 200
    secret = await made(api)
    assert [each["id"] for each in await listed(api)] == [secret["id"]]
