"""Quotas: what is over them is refused, in words that say what, and when to come back."""

import asyncio

import pytest

from duetime.stores.memory import MemoryStore
from duetime.tenancy.meter import MOST_REFUSALS
from duetime.testing import FlakyStore
from tests.api.client import Api, http_callback, timer_body
from tests.waiting import settle

pytestmark = pytest.mark.promise("quotas-hold")


async def limit(api: Api, tenant: str = "default", **quotas: float) -> None:
    """Give a tenant quotas."""
    assert (await api.put(f"/tenants/{tenant}", {"quotas": quotas})).status == 200


async def test_creates_per_second(api: Api):
    """As many as come in a second at once, then one by one; others are not touched."""
    await limit(api, creates_per_second=2)
    other = await api.make_key("acme")
    answers = [await api.post("/timers", timer_body()) for _ in range(3)]
    assert [answer.status for answer in answers] == [201, 201, 429]
    refused = answers[2]
    assert refused.summary == (
        429,
        7,
        "creates_per_second: the tenant 'default' may create 2 timers per second; try again in 1 s",
    )
    assert refused.headers["retry-after"] == "1"
    assert (await api.call("POST", "/timers", timer_body(), key=other)).status == 201
    api.clock.advance(500)
    assert (await api.post("/timers", timer_body())).status == 201
    assert (await api.post("/timers", timer_body())).status == 429
    api.clock.advance(60_000)  # no more gathers than comes in a second
    statuses = [(await api.post("/timers", timer_body())).status for _ in range(3)]
    assert statuses == [201, 201, 429]


async def test_less_than_one_per_second(api: Api):
    """One at once, and the next as late as it says."""
    await limit(api, creates_per_second=0.1)
    assert (await api.post("/timers", timer_body())).status == 201
    refused = await api.post("/timers", timer_body())
    assert refused.headers["retry-after"] == "10"
    api.clock.advance(9_999)
    assert (await api.post("/timers", timer_body())).status == 429
    api.clock.advance(1)
    assert (await api.post("/timers", timer_body())).status == 201


async def test_a_batch_is_made_as_far_as_the_quota_goes(api: Api):
    """Each timer that is over it is told so by itself."""
    await limit(api, creates_per_second=3)
    answer = await api.post("/timers/batch", {"timers": [timer_body() for _ in range(5)]})
    assert [item["code"] for item in answer.data["timers"]] == [0, 0, 0, 7, 7]
    assert (answer.data["created"], answer.data["failed"]) == (3, 2)


async def test_pending(api: Api):
    """So many wait, whatever they wait for; who has fired or was canceled makes room."""
    await limit(api, pending=3)
    timers = [await api.create() for _ in range(3)]
    refused = await api.post("/timers", timer_body())
    assert (refused.status, refused.code) == (429, 7)
    assert refused.message.startswith(
        "pending: the tenant 'default' may have 3 timers waiting, and has 3;"
    )
    assert int(refused.headers["retry-after"]) >= 1
    await api.post(f"/timers/{timers[0]['id']}/pause")
    await api.claim(timers[1]["id"])
    assert (await api.post("/timers", timer_body())).status == 429
    await api.delete(f"/timers/{timers[0]['id']}")
    await api.create()
    assert (await api.post("/timers", timer_body())).status == 429
    await api.finish(timers[1]["id"])
    api.clock.advance(1_000)  # nobody told the meter; it counts before it refuses
    await api.create()


async def test_pending_in_a_batch(api: Api):
    """A batch does not run over it, and what was there already takes no place."""
    await limit(api, pending=3)
    body = timer_body(timer_id="k")
    await api.post("/timers", body)
    answer = await api.post("/timers/batch", {"timers": [body, timer_body(), timer_body()]})
    assert [item["code"] for item in answer.data["timers"]] == [0, 0, 7]
    assert (await api.get("/usage")).data["pending"] == 2
    await api.create()
    assert (await api.post("/timers", timer_body())).status == 429


async def test_replacing_takes_no_place(api: Api):
    """Unless the timer had ended: then one more waits."""
    await limit(api, pending=1)
    path = "/groups/default/timers/k"
    assert (await api.put(path, timer_body())).status == 201
    assert (await api.put(path, timer_body(name="n"))).status == 200
    await api.delete(path)
    assert (await api.put(path, timer_body())).status == 200
    assert (await api.post("/timers", timer_body())).status == 429


async def test_what_failed_takes_no_place_for_long(make_api):
    """A create of which nobody knows is counted anew before anybody is refused."""
    store = FlakyStore(MemoryStore())
    api: Api = make_api(store)
    await limit(api, pending=1)
    await api.get("/usage")
    assert (await api.service.meter.step()) > 0
    store.failing = "before"
    assert (await api.post("/timers", timer_body())).status >= 500
    store.failing = None
    api.clock.advance(1_000)
    assert (await api.post("/timers", timer_body())).status == 201


async def test_payload_bytes(api: Api):
    """Of one timer, as they were sent."""
    await limit(api, payload_bytes=10)
    fits = timer_body(callback=http_callback(payload="12345678"))
    assert (await api.post("/timers", fits)).status == 201
    refused = await api.post("/timers", timer_body(callback=http_callback(payload="123456789")))
    assert refused.summary == (
        403,
        10,
        "callback.payload: the tenant 'default' may send 10 bytes, and these are 11",
    )
    made = await api.create()
    grown = await api.put(f"/timers/{made['id']}", {"callback": http_callback(payload="123456789")})
    assert grown.status == 403


async def test_batch_size(api: Api):
    """A request that is too long is refused as a whole; of a group's, those beyond it."""
    await limit(api, batch_size=2)
    three = {"timers": [timer_body() for _ in range(3)]}
    refused = await api.post("/timers/batch", three)
    assert refused.summary == (
        403,
        10,
        "timers: the tenant 'default' may create 2 in one request; these are more",
    )
    assert (await api.get("/timers")).data["timers"] == []
    await limit(api, batch_size=None)
    await api.put("/groups/g", {"quotas": {"batch_size": 1}})
    mixed = [timer_body(group="g"), timer_body(), timer_body(group="g")]
    answer = await api.post("/timers/batch", {"timers": mixed})
    assert [item["code"] for item in answer.data["timers"]] == [0, 0, 10]


async def test_a_group_has_its_own(api: Api):
    """Beside those of its tenant; what one of them refuses takes nothing from the other."""
    await limit(api, creates_per_second=3)
    await api.put("/groups/g", {"quotas": {"creates_per_second": 1}})
    statuses = [(await api.post("/timers", timer_body(group="g"))).status for _ in range(3)]
    assert statuses == [201, 429, 429]
    statuses = [(await api.post("/timers", timer_body())).status for _ in range(3)]
    assert statuses == [201, 201, 429]
    refused = await api.post("/timers", timer_body(group="g"))
    assert "tenant 'default'" in refused.message


async def test_usage(api: Api):
    """What there is by status, in all and in each group, beside what may be."""
    await limit(api, pending=10, creates_per_second=100)
    await api.put("/groups/g", {"quotas": {"pending": 5}})
    await api.bring_to("completed", group="g")
    await api.bring_to("paused", group="g")
    await api.create()
    usage = (await api.get("/usage")).data
    assert usage["tenant"] == "default"
    assert usage["timers"] == {"completed": 1, "paused": 1, "pending": 1}
    assert usage["pending"] == 2
    assert usage["quotas"]["pending"] == 10
    by_group = {group["group"]: group for group in usage["groups"]}
    assert by_group["g"]["timers"] == {"completed": 1, "paused": 1}
    assert (by_group["g"]["pending"], by_group["g"]["quotas"]["pending"]) == (1, 5)
    assert by_group["default"]["quotas"]["pending"] is None


async def test_who_has_no_quota_is_not_metered(make_api):
    """Nothing is asked of the store, and nothing is remembered."""
    store = FlakyStore(MemoryStore())
    api: Api = make_api(store)
    await api.create()
    store.calls.clear()
    await api.create()
    assert store.calls == ["insert"]
    meter = api.service.meter
    assert (meter._buckets, meter._growth, meter._counted) == ({}, {}, {})
    assert (meter.demand(), meter.growth()) == ({}, {})


async def test_who_asks_far_too_often_is_answered_late(quick_api: Api):
    """A client that asks again as soon as it is refused does not keep a node busy with that."""
    api = quick_api
    await limit(api, creates_per_second=0.1)
    assert (await api.post("/timers", timer_body())).status == 201
    for _ in range(MOST_REFUSALS):
        assert (await api.post("/timers", timer_body())).status == 429
    late = asyncio.create_task(api.post("/timers", timer_body()))
    await settle()
    assert not late.done()
    other = await api.call("GET", "/timers")  # whatever else they ask for is answered at once
    assert other.status == 200
    api.clock.advance(1_000)
    assert (await late).status == 429
    assert (await api.post("/timers", timer_body())).status == 429


async def test_a_batch_of_which_nothing_could_be_made_is_not_even_read(quick_api: Api):
    """It is refused as a whole, whatever is in it."""
    await limit(quick_api, creates_per_second=1)
    await quick_api.create()
    answer = await quick_api.post("/timers/batch", {"timers": ["nonsense"] * 5})
    assert (answer.status, answer.code) == (429, 7)


async def test_a_large_batch_lets_others_in(quick_api: Api):
    """While it is decoded and made, the loop turns."""
    batch = {"timers": [timer_body() for _ in range(1_000)]}
    creating = asyncio.create_task(quick_api.post("/timers/batch", batch))
    turns = 0
    while not creating.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await creating).data["created"] == 1_000
    assert turns >= 10
