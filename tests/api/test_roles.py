"""Every route against every role, by a table that stands here and not in the code."""

import pytest

from duetime.timer import Kind, Outcome
from tests.api.client import FAILED, Api, http_callback, timer_body

pytestmark = pytest.mark.promise("roles-hold")

ROLES = ("read_without_payloads", "read", "write", "admin", "operator")

BEARER = {"type": "bearer", "token": "t", "hosts": ["h"]}

# The least role that each route takes. A path names what is made for it below.
NEEDED = {
    "POST /timers": "write",
    "GET /timers": "read_without_payloads",
    "POST /timers/batch": "write",
    "GET /timers/{id}": "read_without_payloads",
    "PUT /timers/{id}": "write",
    "DELETE /timers/{id}": "write",
    "POST /timers/{id}/fire": "write",
    "POST /timers/{id}/pause": "write",
    "POST /timers/{id}/resume": "write",
    "POST /timers/{id}/redrive": "write",
    "POST /timers/redrive": "write",
    "GET /timers/{id}/attempts": "read_without_payloads",
    "GET /groups/{group}/timers/{timer_id}": "read_without_payloads",
    "PUT /groups/{group}/timers/{timer_id}": "write",
    "DELETE /groups/{group}/timers/{timer_id}": "write",
    "POST /timers/actions": "write",
    "GET /actions": "read_without_payloads",
    "GET /actions/{action}": "read_without_payloads",
    "DELETE /actions/{action}": "write",
    "POST /groups": "admin",
    "GET /groups": "read_without_payloads",
    "GET /groups/{group}": "read_without_payloads",
    "PUT /groups/{group}": "admin",
    "DELETE /groups/{group}": "admin",
    "POST /groups/{group}/pause": "admin",
    "POST /groups/{group}/resume": "admin",
    "POST /credentials": "admin",
    "GET /credentials": "admin",
    "GET /credentials/{credential}": "admin",
    "PUT /credentials/{credential}": "admin",
    "DELETE /credentials/{credential}": "admin",
    "GET /targets": "read_without_payloads",
    "GET /targets/{target}": "read_without_payloads",
    "PUT /targets/{target}": "admin",
    "DELETE /targets/{target}": "admin",
    "POST /targets/{target}/pause": "admin",
    "POST /targets/{target}/resume": "admin",
    "POST /tenants": "operator",
    "GET /tenants": "operator",
    "GET /tenants/{tenant}": "read_without_payloads",
    "PUT /tenants/{tenant}": "operator",
    "DELETE /tenants/{tenant}": "operator",
    "POST /tenants/{tenant}/keys": "admin",
    "GET /tenants/{tenant}/keys": "admin",
    "GET /tenants/{tenant}/keys/{key}": "admin",
    "DELETE /tenants/{tenant}/keys/{key}": "admin",
    "POST /tenants/{tenant}/keys/{key}/rotate": "admin",
    "POST /signing-secrets": "admin",
    "GET /signing-secrets": "admin",
    "DELETE /signing-secrets/{secret}": "admin",
    "POST /signing-secrets/{secret}/rotate": "admin",
    "POST /secrets/reseal": "operator",
    "GET /whoami": "read_without_payloads",
    "GET /usage": "read_without_payloads",
    "GET /audit": "admin",
    "GET /audit/export": "admin",
    "GET /events": "read_without_payloads",
    "GET /nodes": "operator",
    "GET /nodes/{node}": "read_without_payloads",  # for all but the operator there is none
}
BODIES = {
    "POST /timers": timer_body(),
    "POST /timers/batch": {"timers": [timer_body()]},
    "PUT /timers/{id}": {"name": "n"},
    "PUT /groups/{group}/timers/{timer_id}": timer_body(),
    "POST /timers/actions": {"action": "cancel", "filter": {"all": True}},
    "POST /timers/redrive": {"filter": {"all": True}},
    "POST /groups": {"name": "new"},
    "PUT /groups/{group}": {},
    "POST /credentials": {**BEARER, "name": "new"},
    "PUT /credentials/{credential}": BEARER,
    "PUT /targets/{target}": {},
    "POST /tenants": {"name": "new"},
    "PUT /tenants/{tenant}": {},
    "POST /tenants/{tenant}/keys": {"name": "n", "role": "read"},
}


async def test_the_table_has_every_route(quick_api: Api):
    """Whoever adds a route says here who may use it."""
    described = (await quick_api.get("/openapi.json")).envelope["paths"]
    assert set(NEEDED) == {
        f"{method.upper()} {path}"
        for path, operations in described.items()
        for method, operation in operations.items()
        if operation.get("security") != []
    }


@pytest.mark.parametrize("route", NEEDED)
async def test_a_route_takes_its_role(quick_api: Api, route: str):
    """Whoever has less is refused with 403, in words that say what it takes; nothing is changed."""
    needed = NEEDED[route]
    for role in ROLES:
        await assert_role(
            quick_api, route, role, is_enough=ROLES.index(role) >= ROLES.index(needed)
        )


async def assert_role(api: Api, route: str, role: str, *, is_enough: bool) -> None:
    key, headers = None, {"X-Tenant-ID": "acme"}
    await api.make_key("acme")
    if role != "operator":
        key, headers = await api.make_key("acme", role), {}
    as_acme = {"X-Tenant-ID": "acme"}
    timer = await api.call("POST", "/timers", timer_body(group="g"), headers=as_acme)
    named = (await api.get("/tenants/acme/keys")).data["keys"][0]
    secret = (await api.call("POST", "/signing-secrets", headers=as_acme)).data
    if route.endswith("/resume"):
        await api.call("POST", f"/timers/{timer.data['id']}/pause", headers=as_acme)
    if route.endswith("/{id}/redrive"):
        await api.claim(timer.data["id"])
        await api.finish(timer.data["id"], FAILED)
    method, path = route.split()
    path = path.format(
        id=timer.data["id"],
        group="g",
        timer_id=timer.data["timer_id"],
        tenant="acme",
        key=named["id"],
        secret=secret["id"],
        node="n",
        credential="c",
        target="a.example",
        action=timer.data["id"],  # there is none with that id
    )
    before = await contents(api)
    answer = await api.call(
        method, path, BODIES.get(route), headers=headers, **({} if key is None else {"key": key})
    )
    if is_enough:
        assert answer.status not in {401, 403}, (route, role, answer)
        return
    assert (answer.status, answer.code) == (403, 10), (route, role, answer)
    assert answer.message.endswith(f"this key has the role '{role}'")
    assert await contents(api) == before


async def contents(api: Api) -> list[object]:
    """All that a request could have changed."""
    kinds = ("tenant", "key", "group", "action", "signing secret")
    return [await api.store.scan(None, 1_000), *[await api.store.records(kind) for kind in kinds]]


async def test_read_without_payloads(api: Api):
    """It sees that there is something, and not what: payloads, values of headers, answers."""
    writer = await api.make_key("acme", "write")
    await api.call(
        "PUT",
        "/groups/g",
        {"headers": {"X-Secret": "hidden"}, "response_bytes": 10, "response_headers": ["x-a"]},
        headers={"X-Tenant-ID": "acme"},
    )
    callback = http_callback(payload={"card": "hidden"}, headers={"Authorization": "hidden"})
    body = timer_body(group="g", timer_id="k", callback=callback)
    timer = (await api.call("POST", "/timers", body, key=writer)).data
    await api.claim(timer["id"])
    answered = {"response": "hidden", "response_headers": {"x-a": "hidden"}}
    await api.finish(timer["id"], Outcome(kind=Kind.OK, status_code=200, **answered))
    paths = (
        f"/timers/{timer['id']}",
        "/groups/g/timers/k",
        f"/timers/{timer['id']}/attempts",
        "/timers",
        "/groups",
        "/groups/g",
    )
    for role, is_hidden in (("read_without_payloads", True), ("read", False)):
        key = await api.make_key("acme", role)
        texts = [(await api.call("GET", path, key=key)).body.decode() for path in paths]
        assert [("hidden" not in text) for text in texts] == [
            is_hidden or path == "/timers" for path in paths
        ]
    shown = await api.call("GET", paths[0], key=await api.make_key("acme", ROLES[0]))
    assert shown.data["callback_config"]["headers"] == {"X-Secret": "***", "Authorization": "***"}
    assert shown.data["callback_config"]["payload"] is None
    assert shown.data["outcome"]["response_headers"] is None


async def test_a_key_for_some_groups(api: Api):
    """There is nothing else for it: not in lists, not by id, not by key, not to be made."""
    whole = await api.make_key("acme", "admin")
    some = await api.make_key("acme", "admin", groups=["a", "b"])
    made = {
        group: (
            await api.call("POST", "/timers", timer_body(group=group, timer_id="k"), key=whole)
        ).data
        for group in ("a", "b", "c", "default")
    }
    for group, timer in made.items():
        is_seen = group in "ab"
        for path in (f"/timers/{timer['id']}", f"/groups/{group}/timers/k", f"/groups/{group}"):
            answer = await api.call("GET", path, key=some)
            assert (answer.status == 200) == is_seen
            if not is_seen:
                missing = "group" if path.endswith(f"/{group}") else "timer"  # ids end in "c" too
                assert answer.message == f"{missing} not found"
        listed = await api.call("GET", "/timers", key=some, params={"group": group})
        assert len(listed.data["timers"]) == is_seen
    listed = (await api.call("GET", "/timers", key=some)).data
    assert {timer["group"] for timer in listed["timers"]} == {"a", "b"}
    groups = (await api.call("GET", "/groups", key=some)).data["groups"]
    assert [group["name"] for group in groups] == ["a", "b"]
    usage = (await api.call("GET", "/usage", key=some)).data
    assert [group["group"] for group in usage["groups"]] == ["a", "b"]
    refused = await api.call("POST", "/timers", timer_body(group="c"), key=some)
    assert refused.summary == (403, 10, "group: this key is not for the group 'c'")
    unmade = await api.call("PUT", "/groups/new", {}, key=some)
    assert unmade.summary == (404, 3, "group not found")
    assert (await api.call("DELETE", f"/timers/{made['c']['id']}", key=some)).status == 404
    lines = (await api.call("GET", "/audit", key=some)).data["lines"]
    assert {line["group"] for line in lines} <= {"a", "b"}


async def test_a_key_for_some_groups_makes_no_wider_ones(api: Api):
    """Nor does it see keys that are for more."""
    await api.make_key("acme", "admin")
    api.clock.advance(1)
    some = await api.make_key("acme", "admin", groups=["a", "b"])
    path = "/tenants/acme/keys"
    for groups in (None, ["a", "c"], ["c"]):
        body = {"name": "n", "role": "admin", "groups": groups}
        refused = await api.call("POST", path, body, key=some)
        assert refused.summary == (
            403,
            10,
            "groups: a key that is for some groups makes keys for these only",
        )
    api.clock.advance(1)
    body = {"name": "narrow", "role": "read", "groups": ["a"]}
    assert (await api.call("POST", path, body, key=some)).status == 201
    seen = (await api.call("GET", path, key=some)).data["keys"]
    assert [key["name"] for key in seen] == ["admin of acme", "narrow"]
    wide = (await api.get(path)).data["keys"][0]
    for method, tail in (("GET", ""), ("DELETE", ""), ("POST", "/rotate")):
        answer = await api.call(method, f"{path}/{wide['id']}{tail}", key=some)
        assert answer.summary == (404, 3, "key not found")
