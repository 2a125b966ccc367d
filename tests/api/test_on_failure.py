"""Who is told of a failure: given with a timer or by its group, shown, and checked."""

import pytest

from tests.api.client import Api, http_callback, timer_body

TOLD = {"callback": http_callback(url="https://told.example/hook", headers={"X-Key": "s3cret"})}
SHOWN = {
    "callback": {
        "type": "http",
        "url": "https://told.example/hook",
        "method": "POST",
        "headers": {"X-Key": "s3cret"},
        "payload": None,
        "timeout": "30s",
        "credential": None,
        "follow_response": False,
    },
    "retry_policy": None,
}


async def test_it_is_shown(api: Api):
    """As it was given, with what is usual; also after an update, and none if it was taken off."""
    made = await api.create(on_failure=TOLD)
    assert (await api.shown(made["id"]))["on_failure"] == SHOWN
    policy = {"max_attempts": 2}
    await api.put(f"/timers/{made['id']}", {"on_failure": {**TOLD, "retry_policy": policy}})
    shown = await api.shown(made["id"])
    assert shown["on_failure"]["retry_policy"]["max_attempts"] == 2
    await api.put(f"/timers/{made['id']}", {"on_failure": None})
    assert (await api.shown(made["id"]))["on_failure"] is None


async def test_a_group_gives_it(api: Api):
    """To timers that are made without one; null takes it back, there and here."""
    answer = await api.put("/groups/g", {"on_failure": TOLD})
    assert answer.data["on_failure"] == SHOWN
    given = await api.create(group="g")
    assert (await api.shown(given["id"]))["on_failure"] == SHOWN
    none = await api.create(group="g", on_failure=None)
    assert (await api.shown(none["id"]))["on_failure"] is None
    answer = await api.put("/groups/g", {"title": "G"})
    assert answer.data["on_failure"] == SHOWN
    answer = await api.put("/groups/g", {"on_failure": None})
    assert answer.data["on_failure"] is None


async def test_the_headers_of_a_group_are_not_for_who_is_told(api: Api):
    """They may be secrets of the receivers."""
    await api.put("/groups/g", {"headers": {"Authorization": "s3cret"}, "timeout": "5s"})
    made = await api.create(group="g", on_failure={"callback": http_callback()})
    callback = (await api.shown(made["id"]))["on_failure"]["callback"]
    assert (callback["headers"], callback["timeout"]) == ({}, "30s")


async def test_secrets_are_hidden_from_who_may_not_see_them(api: Api):
    """Of a timer and of a group alike."""
    await api.put("/groups/g", {"on_failure": TOLD})
    made = await api.create(group="g")
    key = await api.make_key("default", "read_without_payloads")
    for path in (f"/timers/{made['id']}", "/groups/g", "/groups"):
        answer = await api.call("GET", path, key=key)
        assert b"s3cret" not in answer.body
        assert b"X-Key" in answer.body


@pytest.mark.promise("bad-input")
@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({}, "on_failure.callback: required"),
        ("https://told.example/", "on_failure: "),
        ({"callback": "https://told.example/"}, "on_failure.callback: "),
        ({**TOLD, "url": "x"}, "on_failure.url: unknown field"),
        ({"callback": http_callback(url="ftp://a.example/")}, "on_failure.callback.url: must be"),
        ({"callback": http_callback(method="GET")}, "on_failure.callback.payload: a GET"),
        ({"callback": http_callback(payload={})}, "on_failure.callback.payload: is the story"),
        ({"callback": http_callback(payload=None)}, "on_failure.callback.payload: is the story"),
        ({"callback": http_callback(timeout="1h")}, "on_failure.callback.timeout: must be"),
        ({"callback": http_callback(timeout="x")}, "on_failure.callback.timeout: must be"),
        ({"callback": http_callback(headers={"a b": "c"})}, "on_failure.callback.headers: "),
        ({"callback": {"type": "nats", "topic": "t"}}, "on_failure.callback.type: nats is not"),
        ({**TOLD, "retry_policy": {"max_attempts": 0}}, "on_failure.retry_policy.max_attempts: "),
        (
            {**TOLD, "retry_policy": {"max_interval": "x"}},
            "on_failure.retry_policy.max_interval: ",
        ),
        ({**TOLD, "on_failure": TOLD}, "on_failure.on_failure: unknown field"),
    ],
)
async def test_what_nobody_could_be_told_by(quick_api: Api, told, message):
    """It names the field, and changes nothing, of a timer as of a group."""
    made = await quick_api.create()
    refusals = [
        await quick_api.post("/timers", timer_body(on_failure=told)),
        await quick_api.put(f"/timers/{made['id']}", {"on_failure": told}),
        await quick_api.put("/groups/g", {"on_failure": told}),
    ]
    for answer in refusals:
        assert (answer.status, answer.code) == (400, 2)
        assert answer.message.startswith(message), answer.message
    assert (await quick_api.shown(made["id"]))["version"] == 1
    assert len((await quick_api.get("/timers")).data["timers"]) == 1
    assert (await quick_api.get("/groups/g")).status == 404


async def test_bulk_updates_change_it(quick_api: Api):
    """A bad one is refused before any timer is changed."""
    await quick_api.create()
    body = {"action": "update", "filter": {"all": True}}
    bad = {"update": {"on_failure": {"callback": http_callback(method="GET")}}}
    answer = await quick_api.post("/timers/actions", body | bad)
    assert answer.status == 400
    assert answer.message.startswith("update.on_failure.callback.payload: ")


async def test_the_same_create_again(quick_api: Api):
    """Who is told is a part of the content; that nothing is followed need not be said."""
    first = await quick_api.create(timer_id="k", on_failure=TOLD)
    body = timer_body(timer_id="k", on_failure=TOLD)
    again = await quick_api.post("/timers", body)
    assert (again.status, again.data["id"]) == (200, first["id"])
    assert (await quick_api.post("/timers", timer_body(timer_id="k"))).status == 409
    body["callback"] = http_callback(follow_response=False)
    assert (await quick_api.post("/timers", body)).status == 200
    body["callback"] = http_callback(follow_response=True)
    assert (await quick_api.post("/timers", body)).status == 409


async def test_a_head_request_is_not_followed(quick_api: Api):
    """There would be nothing to follow."""
    callback = http_callback(method="HEAD", follow_response=True)
    answer = await quick_api.post("/timers", timer_body(callback=callback))
    assert answer.status == 400
    assert answer.message.startswith("callback.follow_response: ")
