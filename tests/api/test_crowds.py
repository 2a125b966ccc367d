"""Many who ask at once for the last places that a tenant has: no more of them get one."""

import asyncio
from collections import Counter

import pytest

from duetime.stores import Store
from duetime.tenancy import api_keys, groups
from tests.api.client import Answer, Api, timer_body
from tests.api.conftest import MakeApi
from tests.api.gated import GatedStore, started

pytestmark = pytest.mark.promise("bounded-memory")

KEYS = "/tenants/default/keys"
MANY = 8


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three places for groups, and three for keys."""
    monkeypatch.setattr(groups, "MOST_GROUPS", 3)
    monkeypatch.setattr(api_keys, "MOST_KEYS", 3)


async def at_once(api: Api, gated: GatedStore, *asked: tuple) -> list[Answer]:
    """Ask all of this before any of it is written."""
    gated.gate.clear()
    tasks = await started(*(api.call(*each) for each in asked))
    gated.gate.set()
    return await asyncio.gather(*tasks)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("how", ["POST", "PUT", "timer"])
async def test_groups(make_api: MakeApi, store: Store, how: str):
    """However they are made; and there is none left over when they are done."""
    gated = GatedStore(store, "put_record")
    api = make_api(gated)
    gated.gate.set()
    assert (await api.post("/groups", {"name": "first"})).status == 201
    ways = {
        "POST": lambda name: ("POST", "/groups", {"name": name}),
        "PUT": lambda name: ("PUT", f"/groups/{name}", {}),
        "timer": lambda name: ("POST", "/timers", timer_body(group=name)),
    }
    asked = [ways[how](f"g{number}") for number in range(MANY)]
    answers = await at_once(api, gated, *asked)
    assert Counter(answer.status for answer in answers) == {201: 2, 409: MANY - 2}
    assert {answer.message for answer in answers if answer.status == 409} == {
        "group: a tenant has at most 3 groups; delete some"
    }
    names = [group["name"] for group in (await api.get("/groups")).data["groups"]]
    assert len(names) == 3 + 1  # the default group is there without having been made
    assert api.service.groups._newcomers._names == {}
    assert (await api.delete("/groups/first")).status == 200
    assert (await api.post("/groups", {"name": "another"})).status == 201


@pytest.mark.usefixtures("few")
async def test_one_group_for_many(make_api: MakeApi, store: Store):
    """Timers that make the same group at once need one place, be it the last."""
    gated = GatedStore(store, "put_record")
    api = make_api(gated)
    gated.gate.set()
    for name in ("a", "b"):
        assert (await api.post("/groups", {"name": name})).status == 201
    asked = [("POST", "/timers", timer_body(group="c")) for _ in range(MANY)]
    assert {answer.status for answer in await at_once(api, gated, *asked)} == {201}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("how", ["create", "rotate"])
async def test_keys(make_api: MakeApi, store: Store, how: str):
    """Made or rotated; other tenants have places of their own."""
    gated = GatedStore(store, "put_record")
    api = make_api(gated)
    gated.gate.set()
    await api.make_key()
    await api.make_key("rival")
    [first] = (await api.get(KEYS)).data["keys"]
    path = KEYS if how == "create" else f"{KEYS}/{first['id']}/rotate"
    body = {"name": "n", "role": "read"} if how == "create" else None
    asked = [("POST", path, body) for _ in range(MANY)]
    others = ("POST", "/tenants/rival/keys", {"name": "n", "role": "read"})
    *answers, theirs = await at_once(api, gated, *asked, others)
    assert theirs.status == 201
    assert Counter(answer.status for answer in answers) == {201: 2, 409: MANY - 2}
    assert len((await api.get(KEYS)).data["keys"]) == 3
    assert api.service.keys._newcomers._names == {}
