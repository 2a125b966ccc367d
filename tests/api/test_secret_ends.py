"""How signing secrets end: rotated, revoked, by the clock, and with their group or tenant."""

import asyncio
import json

import pytest

from duetime.stores.memory import MemoryStore
from duetime.tenancy.signing_secrets import ENDED_FOR, MOST_ENDED
from duetime.testing import FlakyStore
from tests.api.client import Api
from tests.api.test_signing_secrets import NOT_FOUND, PATH, listed, made
from tests.webhook_vector import SECRET

pytestmark = pytest.mark.promise("roles-hold")


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


async def test_a_group_that_is_made_anew_as_it_is_deleted(make_api):
    """Whoever deletes the old one does not take the secrets of the new one along."""
    store = FlakyStore(MemoryStore())
    api, other = make_api(store), make_api(store)
    await api.put("/groups/g", {})
    await made(api, group="g")
    real, new = store.store.put_record, {}

    async def put_record(before, after):
        answer = await real(before, after)
        if after is not None and after.kind == "group" and b"deleted_at" in after.data:
            store.store.put_record = real
            api.clock.step_wall_clock(1)
            assert (await other.put("/groups/g", {})).status == 201
            new.update(await made(other, group="g"))
        return answer

    store.store.put_record = put_record
    assert (await api.delete("/groups/g")).status == 200
    assert [each["id"] for each in await listed(api)] == [new["id"]]


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
