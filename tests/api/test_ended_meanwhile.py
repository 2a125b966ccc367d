"""Keys that end while a request of theirs is under way: it gets nothing, and changes nothing."""

import asyncio

import pytest

from tests.api.client import Api, timer_body
from tests.api.gated import late_bodies
from tests.api.test_roles import BODIES, NEEDED, contents
from tests.waiting import settle

pytestmark = pytest.mark.promise("roles-hold")

KEYS = "/tenants/acme/keys"
HOUR = 3_600_000
UNAUTHORIZED = (401, 4, "unauthorized")


@pytest.mark.parametrize("how", ["revoked", "expired", "unheard of"])
@pytest.mark.parametrize("route", [each for each in NEEDED if NEEDED[each] != "operator"])
async def test_a_body_that_comes_after_the_end_of_its_key(
    quick_api: Api, make_api, route: str, how: str
):
    """Whoever opens a request and keeps it for later finds it closed, whichever route it is."""
    api = quick_api
    key = await api.make_key("acme", expires_in="1h")
    id_ = key.split("_")[1]
    headers = {"X-Tenant-ID": "acme"}
    timer = (await api.call("POST", "/timers", timer_body(group="g"), headers=headers)).data
    method, path = route.split()
    path = path.format(
        id=timer["id"],
        group="g",
        timer_id=timer["timer_id"],
        tenant="acme",
        key=id_,
        node="n",
        action=timer["id"],
    )
    body = asyncio.Event()
    slow = late_bodies(api, body)
    asked = asyncio.create_task(slow.call(method, path, BODIES.get(route), key=key))
    await settle()
    if how == "expired":
        api.clock.advance(HOUR)
    elif how == "revoked":
        assert (await api.delete(f"{KEYS}/{id_}")).status == 200
    else:  # another node has revoked it, and this one hears of it with its next heartbeat
        assert (await make_api(api.store).delete(f"{KEYS}/{id_}")).status == 200
        await api.service.rules.look()
    before = await contents(api)
    body.set()
    assert (await asked).summary == UNAUTHORIZED
    assert await contents(api) == before


async def test_the_operator_has_no_end(quick_api: Api):
    """Its key is a setting, and its requests are answered however late their bodies come."""
    body = asyncio.Event()
    slow = late_bodies(quick_api, body)
    asked = asyncio.create_task(slow.post("/timers", timer_body()))
    await settle()
    quick_api.clock.advance(59_000)
    body.set()
    assert (await asked).status == 201
