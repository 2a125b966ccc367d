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


@pytest.mark.parametrize("path", ["/tenants/default", "/groups/g"])
@pytest.mark.parametrize("pace", ["5e-324", "1e-300", "0.0009", "0", "-1", "1e10", "1e999"])
async def test_a_pace_that_nobody_can_keep(quick_api: Api, path: str, pace: str):
    """Is refused, and named, before it is in the way of creates."""
    body = b'{"quotas": {"creates_per_second": %s}}' % pace.encode()
    answer = await quick_api.put(path, body)
    assert (answer.status, answer.code) == (400, 2)
    bounds = {"1e10": "must be <= 1000000000.0", "1e999": "Number out of range"}
    problem = bounds.get(pace, "must be >= 0.001")
    assert answer.message == f"quotas.creates_per_second: {problem}"
    await quick_api.create(group="g")


async def test_the_slowest_pace(quick_api: Api):
    """One at once, and nobody is told to wait for longer than an hour."""
    await limit(quick_api, creates_per_second=0.001)
    await quick_api.create()
    refused = await quick_api.post("/timers", timer_body())
    assert refused.headers["retry-after"] == "1000"


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
        "pending: the tenant 'default' may have 3 timers waiting, and has as many;"
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


@pytest.mark.parametrize("path", ["/tenants/default", "/groups/g"])
@pytest.mark.parametrize("quota", ["pending", "creates_per_second"])
async def test_a_batch_for_which_there_is_no_room_at_all(api: Api, path: str, quota: str):
    """It is refused as a whole, and told when to come back; not if anything else is in it."""
    await api.put(path, {"quotas": {quota: 1}})
    await api.create(group="g")
    full = [timer_body(group="g"), timer_body(group="g")]
    refused = await api.post("/timers/batch", {"timers": full})
    assert (refused.status, refused.code, refused.data) == (429, 7, None)
    assert refused.headers["retry-after"] == ("5" if quota == "pending" else "1")
    if quota == "pending" or path == "/groups/g":
        mixed = await api.post("/timers/batch", {"timers": [*full, "nonsense"]})
        assert [item["code"] for item in mixed.data["timers"]] == [7, 7, 2]


async def test_replacing_takes_no_place(api: Api):
    """Unless the timer had ended: then one more waits."""
    await limit(api, pending=1)
    path = "/groups/default/timers/k"
    assert (await api.put(path, timer_body())).status == 201
    assert (await api.put(path, timer_body(name="n"))).status == 200
    await api.delete(path)
    assert (await api.put(path, timer_body())).status == 200
    assert (await api.post("/timers", timer_body())).status == 429


async def test_replacing_what_has_finished_takes_a_place(api: Api):
    """However many are replaced at once, as many wait as may."""
    keys = [f"/groups/default/timers/k{number}" for number in range(12)]
    for key in keys:
        await api.put(key, timer_body())
        await api.delete(key)
    await limit(api, pending=2)
    answers = await asyncio.gather(*(api.put(key, timer_body()) for key in keys))
    assert sorted(each.status for each in answers) == [200] * 2 + [429] * 10
    assert (await api.get("/usage")).data["pending"] == 2
    waits = next(key for key, each in zip(keys, answers, strict=True) if each.status == 200)
    for _ in range(3):
        assert (await api.put(waits, timer_body())).status == 200
    await api.delete(waits)
    assert (await api.put(keys[0], timer_body())).status == 200
    assert api.service.meter._waiting._places == {}


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
    for group, slowest in (("h", "tenant 'default'"), ("g", "group 'g'")):
        refused = await api.post("/timers", timer_body(group=group))
        assert slowest in refused.message


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


async def test_usage_of_a_group_without_timers(api: Api):
    """It is there if it has a quota, for whom there is such a group."""
    await api.put("/groups/full", {"quotas": {"pending": 5}})
    await api.put("/groups/gone", {"quotas": {"pending": 5}})
    await api.delete("/groups/gone")
    await api.put("/groups/unlimited", {})
    await limit(api, pending=10)
    await api.make_key("acme")
    await api.call("PUT", "/groups/a", {"quotas": {"pending": 1}}, headers={"X-Tenant-ID": "acme"})
    [full] = (await api.get("/usage")).data["groups"]
    assert (full["group"], full["timers"], full["pending"]) == ("full", {}, 0)
    assert full["quotas"]["pending"] == 5
    other = await api.make_key(role="read", groups=["unlimited"])
    assert (await api.call("GET", "/usage", key=other)).data["groups"] == []


async def test_who_has_no_quota_is_not_metered(make_api):
    """Nothing is asked of the store, and nothing is remembered."""
    store = FlakyStore(MemoryStore())
    api: Api = make_api(store)
    await api.create()
    store.calls.clear()
    await api.create()
    assert store.calls == ["insert"]
    meter = api.service.meter
    waiting = meter._waiting
    assert (meter._buckets, waiting._growth, waiting._counted) == ({}, {}, {})
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


async def test_a_batch_of_which_nothing_could_be_made_is_hardly_read(quick_api: Api):
    """It is refused as a whole, whatever is in it, unless it was sent before."""
    await limit(quick_api, creates_per_second=1)
    await quick_api.create()
    answer = await quick_api.post("/timers/batch", {"timers": ["nonsense"] * 5})
    assert (answer.status, answer.code) == (429, 7)


# What leaves no room for another timer, once there is one with a payload.
FULL = [{"pending": 1}, {"creates_per_second": 0.1}, {"payload_bytes": 1}]


@pytest.mark.parametrize("quotas", FULL)
async def test_a_repeated_create_is_answered_whatever_the_quotas_say(api: Api, quotas: dict):
    """Its timer is there: who has not heard of it may ask again, by either kind of key."""
    callback = http_callback(payload="text")
    by_id = timer_body(timer_id="inv-1", group="g", callback=callback)
    by_header = timer_body(callback=callback)
    first = (await api.post("/timers", by_id)).data
    second = (await api.post("/timers", by_header, Idempotency_Key="inv-2")).data
    await limit(api, **quotas)
    while (await api.post("/timers", timer_body(callback=callback))).status == 201:
        pass
    again = await api.post("/timers", by_id)
    assert (again.status, again.data["id"]) == (200, first["id"])
    again = await api.post("/timers", by_header, Idempotency_Key="inv-2")
    assert (again.status, again.data["id"]) == (200, second["id"])
    other = await api.post("/timers", {**by_id, "name": "other content"})
    assert other.code in {7, 10}
    answer = await api.post("/timers/batch", {"timers": [timer_body(callback=callback), by_id]})
    assert [item["code"] == 0 for item in answer.data["timers"]] == [False, True]
    assert answer.data["timers"][1]["data"]["id"] == first["id"]
    assert answer.data["created"] == 0


@pytest.mark.parametrize("quotas", [{"batch_size": 10}, {"creates_per_second": 0.1}])
async def test_a_repeated_batch_is_answered_timer_by_timer(api: Api, quotas: dict):
    """Also where another one would be refused as a whole; what is new in it is refused."""
    bodies = [timer_body(timer_id=f"k{number}", group="g") for number in range(30)]
    sent = [*bodies[:5], {**bodies[5], "delay": "nonsense"}, *bodies[6:]]
    made = await api.post("/timers/batch", {"timers": sent})
    assert (made.data["created"], made.data["failed"]) == (29, 1)
    await limit(api, **quotas)
    await api.post("/timers", timer_body())
    again = await api.post("/timers/batch", {"timers": [*sent, timer_body(), "nonsense"]})
    assert again.status == 200
    codes = [item["code"] for item in again.data["timers"]]
    refused = 10 if "batch_size" in quotas else 7
    assert codes == [0] * 5 + [refused] + [0] * 24 + [refused, 2]
    assert [item["data"] and item["data"]["id"] for item in again.data["timers"]][:30] == [
        item["data"] and item["data"]["id"] for item in made.data["timers"]
    ]
    new = [timer_body(timer_id=f"other{number}", group="g") for number in range(30)]
    assert (await api.post("/timers/batch", {"timers": new})).code == refused


async def test_a_repeated_create_in_a_group_that_another_node_has_made(store, make_api):
    """It is looked for where that group has it, also by a node that never heard of it."""
    first: Api = make_api(store)
    second: Api = make_api(store)
    await second.get("/groups")
    await first.put("/groups/small", {"num_shards": 2})
    bodies = [timer_body(timer_id=f"k{number}", group="small") for number in range(3)]
    assert (await first.post("/timers/batch", {"timers": bodies})).data["created"] == 3
    await limit(second, batch_size=1)
    again = await second.post("/timers/batch", {"timers": bodies})
    assert [item["code"] for item in again.data["timers"]] == [0, 0, 0]


async def test_who_is_not_for_a_group_does_not_hear_what_is_in_it(api: Api):
    """Not even by repeating what made it."""
    body = timer_body(timer_id="k", group="g")
    await api.create(timer_id="k", group="g")
    key = await api.make_key(role="write", groups=["mine"])
    assert (await api.call("POST", "/timers", body, key=key)).status == 403
    batch = await api.call("POST", "/timers/batch", {"timers": [body]}, key=key)
    assert [item["code"] for item in batch.data["timers"]] == [10]
    await limit(api, batch_size=1)
    batch = await api.call("POST", "/timers/batch", {"timers": [body, body]}, key=key)
    assert (batch.status, batch.data) == (403, None)


async def test_a_refusal_without_a_key_asks_the_store_nothing(make_api):
    """One at a time or many: it cannot have been made before."""
    store = FlakyStore(MemoryStore())
    api: Api = make_api(store)
    await limit(api, creates_per_second=0.1, batch_size=2)
    await api.create()
    store.calls.clear()
    assert (await api.post("/timers", timer_body())).status == 429
    two, three = ([timer_body() for _ in range(count)] for count in (2, 3))
    assert (await api.post("/timers/batch", {"timers": two})).status == 429
    assert (await api.post("/timers/batch", {"timers": three})).status == 403
    assert store.calls == []


async def test_a_long_repeated_batch_is_looked_for_in_portions(make_api):
    """So that it does not keep other reads waiting, nor waits until there are none."""
    store = FlakyStore(MemoryStore())
    api: Api = make_api(store)
    bodies = [timer_body(timer_id=f"k{number}") for number in range(1_200)]
    await api.post("/timers/batch", {"timers": bodies})
    await limit(api, batch_size=1)
    store.calls.clear()
    again = await api.post("/timers/batch", {"timers": bodies})
    assert again.data["failed"] == 0
    assert store.calls == ["get_by_key"] * (1 + 3)  # a sample, and all of them


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
