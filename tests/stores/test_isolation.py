"""The walls between tenants, tried at every route with every kind of name, on every store."""

import re
from typing import Any

import msgspec
import pytest

from duetime.stores import Store
from tests.api.client import KEY, Answer, http_callback, timer_body
from tests.stores.neighbours import BEARER, House, Tenant, alike, unlike

pytestmark = pytest.mark.promise("tenants-apart")

NEW_KEY = {"name": "n", "role": "read"}
ANY = {"If-Match": '"1"'}, {"If-Match": '"999"'}, {}


class Ask(msgspec.Struct, frozen=True):
    """A request that names what is another's; ``own_group`` and ``own_tenant`` are the asker's."""

    path: str
    status: int = 404
    body: Any = None
    params: dict[str, str] = {}
    headers: dict[str, str] = {}
    at_home: int = 200  # what its owner is answered, where that shows that the names are right


def changes(path: str, body: Any = None) -> list[Ask]:
    """A change, with the right version, a wrong one, and none."""
    return [Ask(path, body=body, headers=headers) for headers in ANY]


def lists(path: str, **params: str) -> list[Ask]:
    """A list with each of these parameters, which finds nothing."""
    return [Ask(path, 200, params={name: value}) for name, value in params.items()]


BY_KEY = "/groups/{group}/timers/{timer_id}"
IN_OWN_GROUP = "/groups/{own_group}/timers/{timer_id}"
UNDER_OWN_KEY = "/groups/{group}/timers/k"
KEYS = "/tenants/{tenant}/keys"
OWN_KEYS = "/tenants/{own_tenant}/keys"

# For each route, how another's things can be asked for by it.
ASKS = {
    "GET /timers/{id}": [Ask("/timers/{id}"), Ask("/timers/{failed}")],
    "PUT /timers/{id}": changes("/timers/{id}", {"name": "n"}),
    "DELETE /timers/{id}": [*changes("/timers/{id}"), *changes("/timers/{failed}")],
    "POST /timers/{id}/fire": [*changes("/timers/{id}/fire"), *changes("/timers/{failed}/fire")],
    "POST /timers/{id}/pause": changes("/timers/{id}/pause"),
    "POST /timers/{id}/resume": changes("/timers/{id}/resume"),
    "POST /timers/{id}/redrive": changes("/timers/{failed}/redrive"),
    "GET /timers/{id}/attempts": [
        Ask("/timers/{id}/attempts"),
        Ask("/timers/{failed}/attempts"),
        Ask("/timers/{failed}/attempts", 400, params={"cursor": "{before_failed}"}),
    ],
    "GET /groups/{group}/timers/{timer_id}": [
        *map(Ask, (BY_KEY, IN_OWN_GROUP, UNDER_OWN_KEY, "/groups/default/timers/{keyless}"))
    ],
    "DELETE /groups/{group}/timers/{timer_id}": [
        *changes(BY_KEY),
        *changes(IN_OWN_GROUP),
        *changes(UNDER_OWN_KEY),
    ],
    "GET /groups/{group}": [Ask("/groups/{group}")],
    "DELETE /groups/{group}": [
        Ask("/groups/{group}"),
        Ask("/groups/{group}", params={"cancel": "true"}),
    ],
    "POST /groups/{group}/pause": [Ask("/groups/{group}/pause")],
    "POST /groups/{group}/resume": [Ask("/groups/{group}/resume")],
    "GET /credentials": [Ask("/credentials", 200)],
    "GET /credentials/{credential}": [Ask("/credentials/{group}")],
    "DELETE /credentials/{credential}": [Ask("/credentials/{group}")],
    "GET /targets": [Ask("/targets", 200)],
    "GET /targets/{target}": [Ask("/targets/{target}", 200), Ask("/targets/both.example", 200)],
    "DELETE /targets/{target}": [Ask("/targets/{target}")],
    "GET /tenants/{tenant}": [Ask("/tenants/{tenant}")],
    "PUT /tenants/{tenant}": [Ask("/tenants/{tenant}", 403, {"quotas": {"pending": 0}})],
    "DELETE /tenants/{tenant}": [Ask("/tenants/{tenant}", 403)],
    "POST /tenants/{tenant}/keys": [Ask(KEYS, body=NEW_KEY), Ask(KEYS, 400, b"{")],
    "GET /tenants/{tenant}/keys": [Ask(KEYS)],
    "GET /tenants/{tenant}/keys/{key}": [Ask(f"{OWN_KEYS}/{{key}}"), Ask(f"{KEYS}/{{key}}")],
    "DELETE /tenants/{tenant}/keys/{key}": [Ask(f"{OWN_KEYS}/{{key}}"), Ask(f"{KEYS}/{{key}}")],
    "POST /tenants/{tenant}/keys/{key}/rotate": [
        Ask(f"{OWN_KEYS}/{{key}}/rotate"),
        Ask(f"{KEYS}/{{key}}/rotate"),
        Ask(f"{OWN_KEYS}/{{key}}/rotate", body={"valid_for": "1s"}),
    ],
    "POST /signing-secrets": [Ask("/signing-secrets", body={"group": "{group}"})],
    "GET /signing-secrets": [
        Ask("/signing-secrets", 200),
        *lists("/signing-secrets", group="{group}"),
    ],
    "DELETE /signing-secrets/{secret}": [Ask("/signing-secrets/{secret}")],
    "POST /signing-secrets/{secret}/rotate": [
        Ask("/signing-secrets/{secret}/rotate"),
        Ask("/signing-secrets/{secret}/rotate", body={"valid_for": "0s"}),
    ],
    "POST /secrets/reseal": [Ask("/secrets/reseal", 403)],
    "GET /actions/{action}": [Ask("/actions/{action}"), Ask("/actions/{under_way}")],
    "DELETE /actions/{action}": [Ask("/actions/{action}"), Ask("/actions/{under_way}")],
    "GET /nodes": [Ask("/nodes", 403)],
    "GET /nodes/{node}": [Ask("/nodes/{node}")],
    "GET /tenants": [Ask("/tenants", 403)],
    "POST /tenants": [Ask("/tenants", 403, {"name": "{tenant}"})],
    "GET /timers": [
        *lists(
            "/timers",
            group="{group}",
            tag="{group}",
            any_tag="{group}",
            name_prefix="{group}",
            name_contains="{group} name",
            correlation_id="{group}",
            metadata="m={group}",
        ),
        Ask("/timers", 400, params={"cursor": "{cursor}", "limit": "2"}),
        Ask("/timers", 400, params={"cursor": "{cursor}", "sort": "execute_at"}, at_home=400),
    ],
    "GET /audit": [
        *lists("/audit", actor="admin of {tenant}", key="{admin}", target="{id}", group="{group}"),
        Ask("/audit", 400, params={"cursor": "{line}", "limit": "2"}),
    ],
    "GET /audit/export": lists(
        "/audit/export", actor="admin of {tenant}", key="{admin}", target="{id}", group="{group}"
    ),
    # None are kept here; who hears of them where they are is tried in tests/api/test_events.py.
    "GET /events": [Ask("/events", 409, params={"timer": "{id}"}, at_home=409)],
    "GET /actions": [Ask("/actions", 200), Ask("/actions", 400, params={"cursor": "{latest}"})],
    "GET /groups": [Ask("/groups", 200)],
    "GET /usage": [Ask("/usage", 200)],
    "GET /whoami": [Ask("/whoami", 200)],
    # From here on something is made, and it must be the asker's own.
    "POST /timers/actions": [
        Ask("/timers/actions", 202, {"action": verb, "filter": wanted})
        for verb, wanted in (
            ("cancel", {"group": "{group}"}),
            ("delete", {"tags": ["{group}"]}),
            ("fire", {"metadata": {"m": "{group}"}}),
            ("pause", {"correlation_id": "{group}"}),
        )
    ],
    "POST /timers/redrive": [Ask("/timers/redrive", 202, {"filter": {"group": "{group}"}})],
    "POST /timers": [
        Ask("/timers", 201, timer_body(timer_id="{timer_id}", group="{own_group}")),
        Ask("/timers", 201, timer_body(timer_id="{id}")),
        Ask("/timers", 201, timer_body(), headers={"Idempotency-Key": "{timer_id}"}),
        Ask("/timers", 400, timer_body(callback=http_callback(credential="{group}"))),
    ],
    "POST /timers/batch": [
        Ask("/timers/batch", 200, {"timers": [timer_body(timer_id="{timer_id}", group="{group}")]})
    ],
    "PUT /groups/{group}/timers/{timer_id}": [
        Ask(BY_KEY.replace("timer_id", "key"), 412, timer_body(), headers={"If-Match": '"1"'}),
        Ask(BY_KEY.replace("timer_id", "key"), 201, timer_body()),
    ],
    "PUT /targets/{target}": [Ask("/targets/{target}", 200, {"limits": {"concurrency": 1}})],
    "POST /targets/{target}/pause": [Ask("/targets/{target}/pause", 200, {"reason": "mine"})],
    "POST /targets/{target}/resume": [Ask("/targets/{target}/resume", 200)],
    "PUT /groups/{group}": [Ask("/groups/{group}", 200, {"title": "mine"})],
    "POST /groups": [Ask("/groups", 409, {"name": "{group}"})],
    "PUT /credentials/{credential}": [
        Ask("/credentials/{group}", 400, {"groups": None}),
        Ask("/credentials/{group}", 201, BEARER),
    ],
    "POST /credentials": [Ask("/credentials", 409, {"name": "{group}", **BEARER})],
}
OTHERS = ("acme", "emca", "default", "", "Rival", "rival ", "rival,acme", "*", "riv\xe4l")
OPEN = {"GET /healthz", "GET /readyz"}  # to everybody, and they know of no tenant


class Asker(msgspec.Struct, frozen=True):
    """Somebody who is not of the house."""

    key: str
    tenant: str
    headers: dict[str, str] = {}


async def test_tenants_never_see_one_another(store: Store):
    """Another's thing is answered like one that does not exist, after asking the store the same."""
    house = House(store)
    rival = await house.furnish("rival", "mine")
    acme = await house.furnish("acme", "solo")
    await assert_that_the_table_is_whole(house)
    await assert_that_the_names_are_right(house, acme)
    before = await house.belongings("acme")
    await assert_that_lists_are_ones_own(house, rival)
    askers = [
        Asker(rival.key, "rival"),
        Asker(await house.api.make_key(), "default"),
        Asker(KEY, "rival", {"X-Tenant-ID": "rival"}),
    ]
    for route, asks in ASKS.items():
        for ask in asks:
            # Who makes something can do so once: the first of them.
            for asker in askers if ask.status == 404 else askers[:1]:
                # There the operator is at home.
                if asker.key != KEY or not ask.path.startswith(("/tenants", "/nodes")):
                    await assert_alike(house, acme, asker, route, ask)
    await assert_that_mixed_keys_open_nothing(house, acme, rival)
    await assert_that_nobody_acts_for_others(house, rival)
    assert await house.belongings("acme") == before
    await house.work()  # the actions that were asked for: acme's own one only counts
    after = await house.belongings("acme")
    assert [after[what] == before[what] for what in ("timers", "attempts")] == [True, True]
    await assert_that_sweeping_ends_at_the_wall(house, rival)
    await house.service.close()


@pytest.mark.promise("roles-hold")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_group_that_is_hidden_is_asked_for_like_none(store: Store, method: str):
    """By a key of the user's, no timer of it is read, and the store is asked the same."""
    house = House(store)
    acme = await house.api.make_key("acme")
    some = await house.api.make_key("acme", "write", groups=["own", "missing"])
    await house.call("PUT", "/groups/sharded", body={"num_shards": 3}, key=acme)
    for group in ("hidden", "sharded", "default", "own"):
        body = timer_body(group=group, timer_id="k")
        assert (await house.call("POST", "/timers", body=body, key=acme)).status == 201
    house.clock.step_wall_clock(1)
    paths = ["/groups/missing/timers/k"]
    for group in ("hidden", "sharded", "default", "nowhere"):
        paths += [f"/groups/{group}/timers/{timer_id}" for timer_id in ("k", "none")]
    seen = []
    for path in paths:
        answer, calls = await house.watched(method, path, key=some)
        assert answer.summary == (404, 3, "timer not found")
        assert house.noting.by_key == [None]
        seen.append(calls)
    assert [calls == seen[0] for calls in seen] == [True] * len(paths)
    answer, _ = await house.watched(method, "/groups/own/timers/k", key=some)
    assert answer.status == 200
    await house.service.close()


async def assert_that_the_table_is_whole(house: House) -> None:
    """Whoever adds a route says above how somebody could look over a wall by it."""
    described = (await house.api.get("/openapi.json")).envelope["paths"]
    routes = {f"{method.upper()} {path}" for path, each in described.items() for method in each}
    assert set(ASKS) | OPEN == routes


async def assert_that_the_names_are_right(house: House, acme: Tenant) -> None:
    """What nobody else may find is there for the tenant itself, or else nothing is shown here."""
    own = {**acme.names, "own_tenant": "acme", "own_group": "g"}
    for route, asks in ASKS.items():
        for ask in asks if route.startswith("GET ") else ():
            key = KEY if ask.status == 403 or "{node}" in ask.path else acme.key
            params = filled(ask.params, own)
            answer = await house.call("GET", filled(ask.path, own), params=params, key=key)
            assert answer.status == ask.at_home, (ask, answer)
            is_list = ask.params and answer.status == 200
            assert not is_list or re.search(rb'"(id|attempt)":', answer.body), (ask, answer)


async def assert_that_lists_are_ones_own(house: House, rival: Tenant) -> None:
    """A list has all that is the tenant's, and counts nothing else."""
    mine = await house.belongings("rival")

    async def ids(path: str, what: str, name: str = "id") -> list[str]:
        answer = await house.call("GET", path, key=rival.key)
        assert answer.data.get("total") in {None, len(answer.data[what])}
        return sorted(each[name] for each in answer.data[what])

    assert await ids("/timers", "timers") == sorted(mine["timers"])
    targets = await ids("/targets", "targets", "name")
    assert targets == ["both.example:443", "mine.example:443"]
    assert await ids("/groups", "groups", "name") == ["default", "g", "held", "mine"]
    assert await ids("/credentials", "credentials", "name") == ["mine"]
    assert set(await ids("/tenants/rival/keys", "keys")) < rival.ids
    assert await ids("/actions", "actions") == sorted(
        [rival.names["action"], rival.names["under_way"]]
    )
    assert await ids("/audit", "lines") == sorted(line.id for line in mine["lines"])
    usage = (await house.call("GET", "/usage", key=rival.key)).data
    assert sum(usage["timers"].values()) == len(mine["timers"])


async def assert_alike(house: House, acme: Tenant, asker: Asker, route: str, ask: Ask) -> None:
    """What is another's, and what is not there: the same answer, from the same calls.

    And no call reads a timer of another's by its id.
    """
    own = {"own_tenant": asker.tenant, "own_group": "g"}
    seen = []
    house.clock.step_wall_clock(1)
    for names in (acme.names, unlike(acme.names)):
        how = {
            "body": filled(ask.body, names | own),
            "params": filled(ask.params, names | own),
            "headers": filled(ask.headers | asker.headers, names | own),
        }
        path = filled(ask.path, names | own)
        answer, calls = await house.watched(route.partition(" ")[0], path, key=asker.key, **how)
        assert answer.status == ask.status, (asker, ask, answer)
        assert set(house.noting.owners) <= {asker.tenant}, (asker, ask)
        assert_nothing_of(acme, answer, f"{path} {how}")
        seen.append((*alike(answer, names), calls))
    assert seen[0] == seen[1], (asker, ask)


def assert_nothing_of(acme: Tenant, answer: Answer, asked: str) -> None:
    """An answer tells nothing of a tenant but what was in the question."""
    told = answer.body.decode()
    marks = {*acme.ids, *(f"{what} of acme" for what in ("title", "header", "payload", "n"))}
    marks |= {"admin of acme", "read of acme", "host-of-the-operator"}
    assert [mark for mark in marks if mark in told and mark not in asked] == []


async def assert_that_mixed_keys_open_nothing(house: House, acme: Tenant, rival: Tenant) -> None:
    """The id of one key with the secret of another, known or not, is no key; nor is a half."""
    known, secret = acme.key[:19], rival.key[20:]
    unknown = unlike({**acme.names, "key": known[3:]})["key"]
    pairs = [
        (f"{known}_{secret}", f"dt_{unknown}_{secret}"),
        (f"{acme.key[:-1]}", f"dt_{unknown}_{acme.key[20:-1]}"),
        (f"{acme.key}x", f"dt_{unknown}_{acme.key[20:]}x"),
    ]
    for texts in pairs:
        seen = [await house.watched("GET", "/whoami", key=text) for text in texts]
        assert seen[0] == seen[1]
        assert seen[0][0].summary == (401, 4, "unauthorized")
    both = {"Authorization": f"Bearer {acme.key}"}
    answer = await house.call("GET", "/whoami", key=rival.key, headers=both)
    assert answer.data["tenant"] == "rival"


async def assert_that_nobody_acts_for_others(house: House, rival: Tenant) -> None:
    """X-Tenant-ID is refused in the same words at every route, whoever it names."""
    own = {**rival.names, "own_tenant": "rival", "own_group": "g"}
    for route, asks in ASKS.items():
        path, body = filled(asks[0].path, own), filled(asks[0].body, own)
        for name in OTHERS:
            headers = {"X-Tenant-ID": name}
            how = {"key": rival.other_key, "headers": headers, "body": body}
            answer, calls = await house.watched(route.partition(" ")[0], path, **how)
            assert answer.summary == (
                403,
                10,
                "X-Tenant-ID: only the operator's key acts for other tenants",
            )
            assert calls == []


async def assert_that_sweeping_ends_at_the_wall(house: House, rival: Tenant) -> None:
    """Whatever a tenant does to all that it has, it does to nothing else."""
    before = await house.belongings("acme")
    canceling = {"cancel": "true"}
    for method, path, how in (
        ("POST", "/groups/g/pause", {}),
        ("DELETE", "/groups/g", {"params": canceling}),
        ("DELETE", "/groups/solo", {"params": canceling}),
        ("POST", "/timers/actions", {"body": {"action": "delete", "filter": {"all": True}}}),
        ("DELETE", f"/tenants/rival/keys/{rival.names['key']}", {}),
    ):
        answer = await house.call(method, path, key=rival.key, **how)
        assert answer.status in {200, 202}, answer
    await house.work()
    assert (await house.belongings("rival"))["timers"] == {}
    assert house.service.rules.held("acme", "g") is None
    assert (await house.call("DELETE", "/tenants/rival")).status == 200
    assert await house.belongings("acme") == before


def filled(template: Any, names: dict[str, str]) -> Any:
    """A template with names in it."""
    if isinstance(template, dict):
        return {name: filled(value, names) for name, value in template.items()}
    if isinstance(template, list):
        return [filled(each, names) for each in template]
    return template.format_map(names) if isinstance(template, str) else template
