"""Two nodes on one database: what is said to one of them, the other obeys."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from duetime.cli.receiver import Arrival, running_receiver
from tests.system.service import ServiceProcess, running_service
from tests.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[ServiceProcess, ServiceProcess]]:
    """Two processes on the same file."""
    async with running_service(tmp_path) as one, running_service(tmp_path) as other:

        async def know_each_other() -> bool:
            nodes = (await one.call("GET", "/nodes")).data["nodes"]
            return [node["state"] for node in nodes] == ["alive", "alive"]

        await eventually(know_each_other, "the nodes to know each other")
        yield one, other


@pytest.mark.promise("roles-hold")
async def test_a_key_is_good_and_then_bad_on_both(pair):
    """It opens at once where it was not made, and a revoked one closes within seconds."""
    one, other = pair
    assert (await one.call("POST", "/tenants", {"name": "acme"})).status == 201
    made = (await one.call("POST", "/tenants/acme/keys", {"name": "n", "role": "write"})).data
    key = made["key"]
    assert (await other.call("GET", "/whoami", key=key)).data["tenant"] == "acme"
    assert (await one.call("DELETE", f"/tenants/acme/keys/{made['id']}")).status == 200
    assert (await one.call("GET", "/whoami", key=key)).status == 401

    async def is_closed() -> bool:
        return (await other.call("GET", "/whoami", key=key)).status == 401

    await eventually(is_closed, "the other node to hear of it")


async def is_going(node: ServiceProcess, tenant: str) -> bool:
    """Tell whether a tenant is being deleted, or is gone already."""
    shown = await node.call("GET", f"/tenants/{tenant}")
    return shown.status == 404 or shown.data["leaving_since"] is not None


@pytest.mark.promise("tenants-apart")
async def test_a_tenant_that_one_node_deletes_gets_no_timer_on_the_other(pair):
    """A create that was acknowledged keeps its tenant; one that is deleted never gets another."""
    one, other = pair
    for name in ("a", "b"):
        assert (await one.call("POST", "/tenants", {"name": name})).status == 201
        made = await one.call("POST", f"/tenants/{name}/keys", {"name": "n", "role": "write"})
        key = made.data["key"]
        callback = {"type": "http", "url": "http://127.0.0.1:9/"}
        body = {"delay": "1h", "callback": callback}
        deleted = None
        while deleted is None or deleted.status == 409:  # a timer was to come when it counted
            assert (await other.call("GET", "/whoami", key=key)).status == 200
            deleting = asyncio.create_task(one.call("DELETE", f"/tenants/{name}"))
            await eventually(partial(is_going, one, name), "the deletion to begin")
            while not deleting.done():
                made = await other.call("POST", "/timers", body, key=key)
                if made.status == 401:
                    break
                assert made.status == 201
                path = f"/timers/{made.data['id']}"
                assert (await one.call("DELETE", path, X_Tenant_ID=name)).status == 200
            deleted = await deleting
        assert deleted.status == 200
        assert (await other.call("POST", "/timers", body, key=key)).status == 401


async def test_a_group_that_one_node_deletes_leaves_no_timer_behind_on_the_other(pair):
    """A create that was acknowledged keeps its group as it was, or makes it anew."""
    one, other = pair
    body = {"delay": "1h", "group": "g", "callback": {"type": "http", "url": "http://127.0.0.1:9/"}}
    answers = set()
    while answers != {200, 409}:
        await one.call("PUT", "/groups/g", {"title": "mine"})
        deleting = asyncio.create_task(one.call("DELETE", "/groups/g"))
        made = None
        if 409 not in answers:
            made = await other.call("POST", "/timers", body)
            assert made.status == 201
        deleted = await deleting
        answers.add(deleted.status)
        found = await other.call("GET", "/groups/g")
        if made is None:
            assert (deleted.status, found.status) == (200, 404)
            continue
        assert found.status == 200
        assert found.data["title"] == ("mine" if deleted.status == 409 else None)
        assert (await one.call("DELETE", f"/timers/{made.data['id']}")).status == 200


@pytest.mark.promise("group-pause-holds")
async def test_a_group_that_one_node_pauses_is_paused_on_both(pair):
    """From the answer on nothing of it arrives; when it is resumed, all of it does."""
    one, other = pair
    arrived: list[Arrival] = []
    async with running_receiver("127.0.0.1", 0, arrived.append) as port:
        callback = {"type": "http", "url": f"http://127.0.0.1:{port}/"}
        body = {"delay": "3s", "group": "g", "callback": callback}
        timers = {"timers": [body] * 100}
        assert (await one.call("POST", "/timers/batch", timers)).data["created"] == 100
        assert (await other.call("POST", "/groups/g/pause")).status == 200
        assert (await one.call("POST", "/timers", {**body, "delay": "3s"})).status == 201

        async def are_held() -> bool:
            listed = (await one.call("GET", "/timers?group=g&limit=200")).data["timers"]
            shown = [await one.call("GET", f"/timers/{timer['id']}") for timer in listed[:5]]
            return all(answer.data["held_since"] is not None for answer in shown)

        await eventually(are_held, "timers to be held")
        assert arrived == []
        assert (await one.call("POST", "/groups/g/resume")).status == 202

        async def have_arrived() -> bool:
            return len(arrived) >= 101

        await eventually(have_arrived, "all of them to arrive")
    assert len({arrival.headers["x-timer-id"] for arrival in arrived}) == 101
