"""Timers that name a credential, or are given one by their group, and those that cannot have it."""

from typing import Any

import pytest

from duetime.stores.memory import MemoryStore
from tests.api.client import Api, http_callback, timer_body
from tests.api.conftest import MakeApi
from tests.api.test_bulk import acted
from tests.api.test_credentials import BASIC, BEARER, HEADER, MTLS, OAUTH2, URL, calling


async def test_a_timer_names_a_credential(api: Api):
    """When it is made, replaced or updated; null switches it off."""
    await api.put("/credentials/bank", BEARER)
    made = await api.post("/timers", calling())
    assert made.status == 201
    id_ = made.data["id"]
    assert (await api.shown(id_))["callback_config"]["credential"] == "bank"
    put = await api.put("/groups/g/timers/x", calling())
    assert put.status == 201
    other = {"callback": http_callback(url=URL, credential=None)}
    assert (await api.put(f"/timers/{id_}", other)).status == 200
    assert (await api.shown(id_))["callback_config"]["credential"] is None
    back = {"callback": http_callback(url=URL, credential="bank")}
    assert (await api.put(f"/timers/{id_}", back)).status == 200
    assert (await api.shown(id_))["callback_config"]["credential"] == "bank"


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize(
    ("callback", "message"),
    [
        ({"credential": "other"}, "there is no credential 'other' for the group 'default'"),
        ({"url": "https://evil.example/"}, "the credential 'bank' may not be sent to evil.example"),
        (
            {"url": "https://bank.example/"},
            "the credential 'bank' may not be sent to bank.example",
        ),
        (
            {"url": "https://xapi.bank.example/"},
            "the credential 'bank' may not be sent to xapi.bank.example",
        ),
        (
            {"url": "https://api.bank.example.evil.example/"},
            "the credential 'bank' may not be sent to api.bank.example.evil.example",
        ),
        (
            {"url": "https://evil.example/api.bank.example"},
            "the credential 'bank' may not be sent to evil.example",
        ),
        ({"url": "http://api.bank.example/"}, "the credential 'bank' is sent over https only"),
    ],
)
async def test_what_a_timer_cannot_name(quick_api: Api, callback: dict[str, Any], message: str):
    """Whoever creates timers cannot have a credential sent to a server of theirs."""
    await quick_api.put("/credentials/bank", BEARER)
    good = await quick_api.post("/timers", calling())
    body = {"url": URL, "credential": "bank", **callback}
    expected = (400, 2, f"callback.credential: {message}")
    timer = timer_body(callback=http_callback(**body))
    assert (await quick_api.post("/timers", timer)).summary == expected
    assert (await quick_api.put("/groups/default/timers/x", timer)).summary == expected
    change = {"callback": http_callback(**body)}
    assert (await quick_api.put(f"/timers/{good.data['id']}", change)).summary == expected
    batch = await quick_api.post("/timers/batch", {"timers": [timer, calling()]})
    answers = [(each["code"], each["message"]) for each in batch.data["timers"]]
    assert answers[0] == expected[1:]
    assert answers[1][0] == 0


async def test_an_update_of_many_is_held_to_each_group(quick_api: Api):
    """The action begins, and fails for the timers that may not have the credential."""
    await quick_api.put("/credentials/bank", {**BEARER, "groups": ["good"]})
    for group in ("good", "bad"):
        await quick_api.create(group=group, tags=["x"])
    update = {"callback": http_callback(url=URL, credential="bank")}
    body = {"action": "update", "filter": {"tags": ["x"]}, "update": update}
    done = await acted(quick_api, **body)
    assert (done["changed"], done["failed"]) == (1, 1), done


async def test_a_credential_for_some_groups(quick_api: Api):
    """Timers of others do not even hear that it is there."""
    await quick_api.put("/credentials/bank", {**BEARER, "groups": ["pay"]})
    assert (await quick_api.post("/timers", {**calling(), "group": "pay"})).status == 201
    refused = await quick_api.post("/timers", {**calling(), "group": "mail"})
    message = "callback.credential: there is no credential 'bank' for the group 'mail'"
    assert refused.summary == (400, 2, message)


@pytest.mark.parametrize(
    ("body", "header", "is_refused"),
    [
        (BEARER, "authorization", True),
        (BASIC, "AUTHORIZATION", True),
        (OAUTH2, "Authorization", True),
        (HEADER, "x-api-key", True),
        (HEADER, "Authorization", False),
        (MTLS, "Authorization", False),
    ],
)
async def test_a_header_that_the_credential_sets(
    quick_api: Api, body: dict[str, Any], header: str, *, is_refused: bool
):
    """A timer cannot bring its own beside it; a client certificate goes with any."""
    await quick_api.put("/credentials/bank", body)
    answer = await quick_api.post("/timers", calling(headers={header: "mine"}))
    assert (answer.status == 400) == is_refused
    if is_refused:
        assert answer.message == f"callback.headers: {header} is set by the credential 'bank'"
        assert (await quick_api.post("/timers", calling(headers={"X-Other": "v"}))).status == 201


async def test_a_group_gives_its_timers_a_credential(api: Api):
    """Unless they name another, or none."""
    await api.put("/credentials/bank", BEARER)
    await api.put("/credentials/other", BASIC)
    assert (await api.put("/groups/g", {"credential": "bank"})).data["credential"] == "bank"

    async def given(**callback: Any) -> Any:
        timer = await api.create(group="g", callback=http_callback(url=URL, **callback))
        return (await api.shown(timer["id"]))["callback_config"]["credential"]

    assert await given() == "bank"
    assert await given(credential="other") == "other"
    assert await given(credential=None) is None
    elsewhere = timer_body(group="g", callback=http_callback(url="https://evil.example/"))
    refused = await api.post("/timers", elsewhere)
    message = (
        "callback.credential: the credential 'bank' may not be sent to evil.example; null is none"
    )
    assert refused.summary == (400, 2, message)
    assert (await api.put("/groups/g", {"credential": None})).data["credential"] is None
    assert await given() is None


async def test_a_group_cannot_give_what_it_cannot_have(api: Api):
    """One that is not there, or not for this group; one that it gives is not deleted."""
    await api.put("/credentials/bank", {**BEARER, "groups": ["g"]})
    for group, name in (("g", "other"), ("h", "bank")):
        refused = await api.put(f"/groups/{group}", {"credential": name})
        message = f"credential: there is no credential '{name}' for the group '{group}'"
        assert refused.summary == (400, 2, message)
    await api.put("/groups/g", {"credential": "bank"})
    kept = await api.delete("/credentials/bank")
    message = "credential: the group 'g' gives it to its timers; change that first"
    assert kept.summary == (409, 5, message)
    await api.put("/groups/g", {"credential": None})
    assert (await api.delete("/credentials/bank")).status == 200


async def test_one_that_another_node_has_just_made(make_api: MakeApi):
    """Is known to this one as soon as a timer names it."""
    store = MemoryStore()
    here, there = make_api(store), make_api(store)
    await here.get("/credentials")
    await there.put("/credentials/bank", BEARER)
    assert (await here.post("/timers", calling())).status == 201
    await there.put("/credentials/other", BEARER)
    callback = http_callback(url=URL, credential="other")
    batch = await here.post("/timers/batch", {"timers": [timer_body(callback=callback)] * 2})
    assert batch.data["created"] == 2
