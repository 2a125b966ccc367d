"""Signing secrets: made and shown once, listed, rotated, revoked, and gone with their group."""

import asyncio
import hashlib
import json

import pytest

from duetime.errors import StoreUnavailable
from duetime.stores.memory import MemoryStore
from duetime.tenancy.signing_secrets import ENDED_FOR, MOST_ACTIVE, MOST_ENDED
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


async def test_rotation(api: Api):
    """Both are active for a while; the new one ends when the old one was to end."""
    old = await made(api, expires_in="10d")
    api.clock.advance(1)
    answer = await api.post(f"{PATH}/{old['id']}/rotate", {"valid_for": "1h"})
    assert answer.status == 201
    new = answer.data
    assert new["secret"] not in {None, old["secret"]}
    assert new["expires_at"] == old["expires_at"]
    first, second = await listed(api)
    assert (first["id"], second["id"]) == (new["id"], old["id"])
    assert second["expires_at"] == "2025-10-26T11:30:00.001Z"
    assert first["is_active"]
    assert second["is_active"]
    # If that answer got lost: the same once more.
    third = (await api.post(f"{PATH}/{old['id']}/rotate", {"secret": SECRET})).data
    assert third["expires_at"] == old["expires_at"]
    assert third["secret"] is None
    api.clock.advance(3_600_000)
    active = {each["id"]: each["is_active"] for each in await listed(api)}
    assert active == {old["id"]: False, new["id"]: True, third["id"]: True}
    answer = await api.post(f"{PATH}/{old['id']}/rotate")
    assert answer.summary == (409, 5, "signing secret: it has ended; make a new one")


async def test_a_rotation_does_not_save_what_is_revoked_meanwhile(make_api):
    """Whoever revokes a secret as it is rotated finds it gone."""
    store = FlakyStore(MemoryStore())
    api, other = make_api(store), make_api(store)
    old = await made(api)
    real = store.store.put_record

    async def put_record(before, after):
        if after is not None and after.kind == "signing secret" and before is None:
            store.store.put_record = real
            assert (await other.delete(f"{PATH}/{old['id']}")).status == 200
        return await real(before, after)

    store.store.put_record = put_record
    new = (await api.post(f"{PATH}/{old['id']}/rotate")).data
    assert [each["id"] for each in await listed(api)] == [new["id"]]


async def test_revoked_is_gone(api: Api):
    """And what is repeated finds nothing."""
    secret = await made(api)
    answer = await api.delete(f"{PATH}/{secret['id']}")
    assert (answer.status, answer.data) == (200, {"id": secret["id"]})
    assert await listed(api) == []
    assert await api.store.records("signing secret") == []
    assert (await api.delete(f"{PATH}/{secret['id']}")).summary == NOT_FOUND


@pytest.mark.parametrize("write", [1, 2, 3, 4])
async def test_a_revocation_that_was_cut_short(make_api, write: int):
    """Who repeats it ends it; from the first write on nothing is signed with it."""
    store = FlakyStore(MemoryStore())
    api: Api = make_api(store)
    secret = await made(api)
    writes = 0
    real = store.store.put_record

    async def put_record(before, after):
        nonlocal writes
        writes += 1
        if writes == write:
            raise asyncio.CancelledError
        return await real(before, after)

    store.store.put_record = put_record
    with pytest.raises(asyncio.CancelledError):
        await api.delete(f"{PATH}/{secret['id']}")
    store.store.put_record = real
    there: Api = make_api(store)
    await there.service.rules.look(anew=True)
    kept = there.service.rules.secrets_of(("default", None))
    assert any(each.is_active(there.clock.now()) for each in kept) == (write == 1)
    assert (await there.delete(f"{PATH}/{secret['id']}")).status == (200 if write < 4 else 404)
    assert await store.records("signing secret") == []


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


async def test_ended_ones_do_not_pile_up(api: Api):
    """They are shown for a month, or until there are too many of them."""
    for _ in range(MOST_ENDED + 5):
        await made(api, expires_in="1s")
        api.clock.advance(1_000)
    await made(api)
    assert len(await listed(api)) == MOST_ENDED + 1
    api.clock.advance(ENDED_FOR)
    await made(api)
    assert len(await listed(api)) == 2


async def test_a_group_that_gets_the_name_of_another(api: Api):
    """It does not get its secrets, whoever has them."""
    await api.put("/groups/g", {})
    old, other = await made(api, group="g"), await made(api)
    api.clock.advance(1)
    assert (await api.delete("/groups/g")).status == 200
    assert [record.name for record in await api.store.records("signing secret")] == [other["id"]]
    api.clock.advance(1)
    await api.put("/groups/g", {})
    assert [each["id"] for each in await listed(api)] == [other["id"]]
    assert (await api.delete(f"{PATH}/{old['id']}")).summary == NOT_FOUND


async def test_a_group_whose_secrets_were_left_behind(make_api):
    """A node that died as it deleted a group leaves secrets that nobody uses, and that go."""
    store = MemoryStore()
    api: Api = make_api(store)
    await api.put("/groups/g", {})
    old = await made(api, group="g")
    [left] = await store.records("signing secret")
    api.clock.advance(1)
    assert (await api.delete("/groups/g")).status == 200
    assert await store.put_record(None, left)
    there: Api = make_api(store)
    assert await listed(there) == []
    assert (await there.post(f"{PATH}/{old['id']}/rotate")).summary == NOT_FOUND
    there.clock.advance(1)
    await there.put("/groups/g", {})
    assert await listed(there) == []
    assert there.service.rules.secrets_of(("default", "g")) == ()
    new = await made(there, group="g")
    assert [record.name for record in await store.records("signing secret")] == [new["id"]]


async def test_a_secret_whose_group_is_not_known_yet_is_left_alone(make_api):
    """Another node has made both a moment ago: nobody takes it for left behind."""
    store = MemoryStore()
    api: Api = make_api(store)
    await api.put("/groups/g", {})
    await api.delete("/groups/g")
    api.clock.advance(1)
    [old] = [each for each in await store.records("group") if each.name == "default/g"]
    there: Api = make_api(store)
    await there.put("/groups/g", {})
    secret = await made(there, group="g")
    [new] = [each for each in await store.records("group") if each.name == "default/g"]
    stale: Api = make_api(store)
    assert await store.put_record(new, old)  # as a node sees it that read the groups before
    await made(stale)
    assert secret["id"] in {record.name for record in await store.records("signing secret")}


async def test_a_group_that_goes_as_its_secret_is_made(make_api):
    """Whoever made it is told, and nothing is left."""
    store = FlakyStore(MemoryStore())
    api, other = make_api(store), make_api(store)
    await api.put("/groups/g", {})
    real = store.store.put_record

    async def put_record(before, after):
        if after is not None and after.kind == "signing secret" and before is None:
            store.store.put_record = real
            assert (await other.delete("/groups/g")).status == 200
        return await real(before, after)

    store.store.put_record = put_record
    answer = await api.post(PATH, {"group": "g"})
    assert answer.summary == (404, 3, "group not found")
    assert await store.records("signing secret") == []


async def test_a_key_that_is_revoked_as_it_makes_a_secret(make_api):
    """Who has no key any more knows no secret that is used."""
    store = FlakyStore(MemoryStore())
    api, other = make_api(store), make_api(store)
    key = await api.make_key("acme")
    real = store.store.put_record

    async def put_record(before, after):
        if after is not None and after.kind == "signing secret" and before is None:
            store.store.put_record = real
            revoked = await other.delete(f"/tenants/acme/keys/{key.split('_')[1]}")
            assert revoked.status == 200
        return await real(before, after)

    store.store.put_record = put_record
    answer = await api.call("POST", PATH, {}, key=key)
    assert answer.summary == (401, 4, "unauthorized")
    assert await store.records("signing secret") == []


async def test_a_tenant_takes_its_secrets_along(acme: Api):
    """Also those of its groups."""
    key = await acme.make_key("acme")
    await acme.call("PUT", "/groups/g", {}, key=key)
    for group in ("g", None):
        await made(acme, key, group=group)
    await made(acme)
    assert (await acme.delete("/tenants/acme")).status == 200
    [left] = await acme.store.records("signing secret")
    assert json.loads(left.data)["tenant"] == "default"


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
