"""Tenants: made, changed and taken away by the operator."""

import pytest

from duetime.errors import StoreUnavailable
from duetime.stores.memory import MemoryStore
from duetime.testing import FlakyStore
from tests.api.client import Api, timer_body


async def test_a_tenant_is_made_shown_and_changed(api: Api):
    """What is not named stays as it is."""
    quotas = {"creates_per_second": 2.5, "pending": 10, "payload_bytes": 100, "batch_size": 5}
    made = await api.post("/tenants", {"name": "acme", "title": "Acme", "quotas": quotas})
    assert made.status == 201
    assert made.data == {
        "name": "acme",
        "title": "Acme",
        "quotas": quotas,
        "limits": {"concurrency": None, "per_second": None, "burst": None},
        "created_at": "2025-10-26T10:30:00Z",
        "updated_at": "2025-10-26T10:30:00Z",
        "leaving_since": None,
    }
    api.clock.advance(1_000)
    changed = await api.put("/tenants/acme", {"quotas": {"pending": 3}})
    assert changed.data["title"] == "Acme"
    assert changed.data["quotas"]["pending"] == 3
    assert changed.data["quotas"]["batch_size"] == 5
    assert (await api.get("/tenants/acme")).data == changed.data
    names = [tenant["name"] for tenant in (await api.get("/tenants")).data["tenants"]]
    assert names == ["acme", "default"]
    lifted = await api.put("/tenants/acme", {"quotas": {"pending": None}})
    assert (lifted.data["quotas"]["pending"], lifted.data["quotas"]["batch_size"]) == (None, 5)
    assert set((await api.put("/tenants/acme", {"quotas": None})).data["quotas"].values()) == {None}


async def test_the_default_tenant_is_always_there(api: Api):
    """It is not made and not taken away, but it can have quotas."""
    assert (await api.get("/tenants/default")).data["created_at"] is None
    assert (await api.post("/tenants", {"name": "default"})).status == 409
    assert (await api.put("/tenants/default", {"quotas": {"pending": 1}})).status == 200
    assert (await api.get("/tenants/default")).data["quotas"]["pending"] == 1
    assert (await api.delete("/tenants/default")).status == 409


async def test_one_of_a_name(api: Api, make_api):
    """A second one is a conflict, also on another node."""
    other = make_api(api.store)
    assert (await api.post("/tenants", {"name": "acme"})).status == 201
    again = await other.post("/tenants", {"name": "acme"})
    assert again.summary == (409, 5, "name: there is a tenant 'acme' already")


async def test_deleting(api: Api):
    """Refused while timers wait; then its keys open nothing, and nobody else gets its name."""
    key = await api.make_key("acme")
    timer = (await api.call("POST", "/timers", timer_body(group="a"), key=key)).data
    refused = await api.delete("/tenants/acme")
    assert refused.status == 409
    assert refused.message.startswith("tenant: 1 of its timers are still to come")
    await api.call("DELETE", f"/timers/{timer['id']}", key=key)
    assert (await api.delete("/tenants/acme")).status == 200
    assert (await api.call("GET", "/timers", key=key)).status == 401
    assert (await api.get("/tenants/acme")).status == 404
    acting = await api.call("GET", "/timers", headers={"X-Tenant-ID": "acme"})
    assert acting.summary == (404, 3, "tenant not found")
    again = await api.post("/tenants", {"name": "acme"})
    assert again.summary == (
        409,
        5,
        "name: there was a tenant 'acme'; no other one gets its name",
    )


async def test_a_deletion_that_was_cut_short_is_finished(make_api):
    """Whatever fails on the way: no key opens anything, and who repeats it ends it."""
    for broken in range(1, 12):
        store = BreakingStore(MemoryStore())
        api: Api = make_api(store)
        key = await api.make_key("acme")
        await api.call("POST", "/groups", {"name": "g"}, key=key)
        store.left = broken
        first = await api.delete("/tenants/acme")
        store.left = -1
        if first.status == 200:
            break
        assert (await api.delete("/tenants/acme")).status in {200, 404}  # it may be gone by now
        assert (await api.call("GET", "/timers", key=key)).status == 401
        other = make_api(store)
        assert (await other.call("GET", "/timers", key=key)).status == 401
        assert [each["name"] for each in (await other.get("/tenants")).data["tenants"]] == [
            "default"
        ]
    else:
        raise AssertionError


class BreakingStore(FlakyStore):
    """A store that fails after so many writes of records."""

    left = -1

    async def put_record(self, old, new):
        if self.left == 0:
            raise StoreUnavailable("as told")
        self.left -= self.left > 0
        return await self.store.put_record(old, new)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "name: required"),
        ({"name": "a/b"}, "name: has a character that is not allowed here"),
        ({"name": "a" * 65}, "name: must have a length <= 64"),
        ({"name": "a", "quotas": {"pending": -1}}, "quotas.pending: must be >= 0"),
        ({"name": "a", "quotas": {"creates_per_second": 0}}, None),
        ({"name": "a", "quotas": {"batch_size": 0}}, "quotas.batch_size: must be >= 1"),
        ({"name": "a", "quotas": {"pendings": 1}}, "quotas.pendings: unknown field"),
    ],
)
async def test_bad_tenants(quick_api: Api, body: dict, message: str | None):
    """What is wrong is named, and none is made."""
    answer = await quick_api.post("/tenants", body)
    assert (answer.status, answer.code) == (400, 2)
    assert message is None or answer.message == message
    assert len((await quick_api.get("/tenants")).data["tenants"]) == 1
