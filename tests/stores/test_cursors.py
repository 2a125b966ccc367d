"""Cursors tell nothing of what is another's, on every store, wherever a page has to end."""

from base64 import urlsafe_b64decode
from typing import Any

import pytest

from duetime import audit_pages, searching
from duetime.stores import Store
from duetime.stores.dynamodb import walks
from duetime.stores.walking import walk
from tests.api.client import timer_body
from tests.factories import make_line
from tests.stores.neighbours import NOW, House

MANY = 30
LOOKING_AT_ALL = {"Cassandra", "DynamoDB"}  # at the timers of all tenants, for a list of one


async def followed(house: House, path: str, key: str, **params: Any) -> list[str]:
    """The cursors of all pages of a list that has nothing for this key."""
    cursors: list[str] = []
    while True:
        page = (await house.call("GET", path, key=key, params=params)).data
        assert [] in page.values()
        if page["next_cursor"] is None:
            return cursors
        assert page["next_cursor"] not in cursors
        cursors.append(page["next_cursor"])
        params = {**params, "cursor": page["next_cursor"]}


def assert_untold(cursors: list[str], made: list[str]) -> None:
    """No cursor has an id in it, nor the time that ids begin with."""
    told = b" ".join(urlsafe_b64decode(cursor + "==") for cursor in cursors)
    for id_ in made:
        assert id_.encode() not in told
        assert id_[:13].encode() not in told
        assert str(int(id_[:13].replace("-", ""), 16)).encode() not in told


async def make_many(house: House, key: str, group: str) -> list[str]:
    body = {"timers": [timer_body(group=group) for _ in range(MANY)]}
    answer = await house.call("POST", "/timers/batch", body=body, key=key)
    return [each["data"]["id"] for each in answer.data["timers"]]


@pytest.mark.promise("tenants-apart")
async def test_a_cursor_tells_nothing_of_other_tenants(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    """Who has nothing is led past all that others have, and learns of none of it by a cursor."""
    monkeypatch.setattr(walk, "__defaults__", (10,))
    monkeypatch.setattr(walks, "_SHORTEST", 3)
    house = House(store)
    rival = await house.api.make_key("rival", "read_without_payloads")
    acme = await house.api.make_key("acme")
    await house.call("PUT", "/groups/g", body={"num_shards": 1}, key=acme)
    made = await make_many(house, acme, "g")
    cursors = await followed(house, "/timers", rival, limit=1)
    assert bool(cursors) == (store.traits.engine in LOOKING_AT_ALL)
    assert_untold(cursors, made)
    for cursor in cursors:
        answer = await house.call("GET", "/timers", key=acme, params={"cursor": cursor})
        assert answer.summary == (400, 2, "cursor: is not one that this list gave out")
    await house.service.close()


@pytest.mark.promise("roles-hold")
async def test_a_cursor_tells_nothing_of_other_groups(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    """A key that is for some groups is led past the others, and learns of none of them either."""
    monkeypatch.setattr(searching, "PAGE", 5)
    monkeypatch.setattr(searching.search, "__kwdefaults__", {"counts": False, "most_seen": 10})
    monkeypatch.setattr(audit_pages, "READ_AT_ONCE", 5)
    monkeypatch.setattr(audit_pages, "MOST_SEEN", 10)
    house = House(store)
    acme = await house.api.make_key("acme")
    some = await house.api.make_key("acme", "admin", groups=["a", "b"])
    made = await make_many(house, acme, "hidden")
    lines = [make_line(tenant="acme", group="hidden", at=NOW + at) for at in range(MANY)]
    await store.write_lines(lines, None)
    cursors = await followed(house, "/timers", some)
    assert len(cursors) >= MANY // 10
    assert_untold(cursors, made)
    cursors = await followed(house, "/audit", some)
    assert len(cursors) >= MANY // 10
    assert_untold(cursors, [line.id for line in lines])
    await house.service.close()
