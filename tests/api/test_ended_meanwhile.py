"""Keys that end while a request of theirs is under way: it gets nothing, and changes nothing."""

import asyncio
from typing import Any

import pytest
from starlette.types import ASGIApp

from duetime.errors import Unauthorized
from duetime.stores.memory import MemoryStore
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
    secret = (await api.call("POST", "/signing-secrets", headers=headers)).data
    method, path = route.split()
    path = path.format(
        id=timer["id"],
        group="g",
        timer_id=timer["timer_id"],
        tenant="acme",
        key=id_,
        secret=secret["id"],
        node="n",
        target="a.example",
        action=timer["id"],
        credential="c",
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


@pytest.mark.parametrize("how", ["revoked", "expired"])
async def test_an_export_ends_with_its_key(make_api, monkeypatch, how: str):
    """Before the first part it is refused; after it, it is cut off, and tells nothing new."""
    monkeypatch.setattr("duetime.audit_pages.READ_AT_ONCE", 2)
    store = MemoryStore()
    api: Api = make_api(store)
    key = await api.make_key("acme", expires_in="1h")
    for number in range(10):
        await api.call("POST", "/groups", {"name": f"g{number}"}, key=key)
    reads = 0
    lines = store.lines

    async def ending(*args: Any, **named: Any) -> Any:
        nonlocal reads
        reads += 1
        if reads == at:
            if how == "expired":
                api.clock.advance(HOUR)
            else:
                assert (await api.delete(f"{KEYS}/{key.split('_')[1]}")).status == 200
        return await lines(*args, **named)

    monkeypatch.setattr(store, "lines", ending)
    at = 3
    sent: list[Any] = []
    watched = Api(recording(api.app, sent), api.service, store, api.clock, api.sender)
    params = {"order": "asc"}
    with pytest.raises(Unauthorized):
        await watched.call("GET", "/audit/export", key=key, params=params)
    assert [len(message["body"].splitlines()) for message in sent[1:]] == [2, 2]
    assert all(message["more_body"] for message in sent[1:])


async def test_an_export_that_has_not_begun(make_api, monkeypatch):
    """A key that ends before the first line is there is answered like any other."""
    store = MemoryStore()
    api: Api = make_api(store)
    key = await api.make_key("acme")
    lines = store.lines

    async def revoking(*args: Any, **named: Any) -> Any:
        assert (await api.delete(f"{KEYS}/{key.split('_')[1]}")).status == 200
        return await lines(*args, **named)

    monkeypatch.setattr(store, "lines", revoking)
    answer = await api.call("GET", "/audit/export", key=key)
    assert answer.summary == UNAUTHORIZED
    monkeypatch.setattr(store, "lines", lines)
    other = await api.make_key("acme")
    key = other
    monkeypatch.setattr(store, "lines", revoking)
    nothing = await api.call("GET", "/audit/export", key=other, params={"target": "none"})
    assert nothing.summary == UNAUTHORIZED  # nor that there is nothing


def recording(app: ASGIApp, sent: list[Any]) -> ASGIApp:
    """The app, with what it sends kept, also if that comes to no end."""

    async def recorded(scope: Any, receive: Any, send: Any) -> None:
        async def keeping(message: Any) -> None:
            sent.append(message)
            await send(message)

        await app(scope, receive, keeping)

    return recorded


async def test_the_operator_has_no_end(quick_api: Api):
    """Its key is a setting, and its requests are answered however late their bodies come."""
    body = asyncio.Event()
    slow = late_bodies(quick_api, body)
    asked = asyncio.create_task(slow.post("/timers", timer_body()))
    await settle()
    quick_api.clock.advance(59_000)
    body.set()
    assert (await asked).status == 201
