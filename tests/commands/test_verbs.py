"""Commands over NATS: the four verbs, and what they answer."""

import pytest

from tests.api.client import KEY, http_callback, timer_body
from tests.commands.callers import Served, content
from tests.commands.conftest import Serve
from tests.waiting import eventually

NO_SUCH = "0190163d-8694-739b-aea5-966c26f8ad91"


async def test_a_timer_is_created(served: Served):
    """A create makes the same timer that the same body makes over HTTP."""
    answer = await served.ask("create", timer_body(timer_id="t1"), X_Correlation_ID="c1")
    assert answer.summary == (201, 0, "timer created successfully")
    assert answer.headers["ETag"] == '"1"'
    shown = await served.api.shown(answer.data["id"])
    assert (shown["timer_id"], shown["correlation_id"]) == ("t1", "c1")


async def test_a_create_is_repeated(served: Served):
    """The same create again, by its key or its Idempotency-Key, is answered with its timer."""
    first = await served.ask("create", timer_body(), Idempotency_Key="once")
    again = await served.ask("create", timer_body(), Idempotency_Key="once")
    other = await served.ask("create", timer_body(name="other"), Idempotency_Key="once")
    assert (first.status, again.status, other.status) == (201, 200, 409)
    assert first.data["id"] == again.data["id"]


async def test_a_timer_is_shown(served: Served):
    """A get finds a timer by its id, and by its key."""
    made = await served.api.create(timer_id="t1", group="g")
    by_id = await served.ask("get", {"id": made["id"]})
    by_key = await served.ask("get", {"group": "g", "timer_id": "t1"})
    assert by_id.status == by_key.status == 200
    assert by_id.data == by_key.data == await served.api.shown(made["id"])


async def test_a_key_without_a_group_is_of_the_default_one(served: Served):
    """As in a create, where the group may be left out."""
    made = await served.api.create(timer_id="t1")
    assert (await served.ask("get", {"timer_id": "t1"})).data["id"] == made["id"]


async def test_a_timer_is_updated(served: Served):
    """An update changes what it names, of a timer by its id or by its key, and nothing else."""
    made = await served.api.create(timer_id="t1", group="g", name="before")
    by_id = await served.ask("update", {"id": made["id"], "name": "after"}, If_Match='"1"')
    assert (by_id.status, by_id.headers["ETag"]) == (200, '"2"')
    by_key = await served.ask("update", {"group": "g", "timer_id": "t1", "tags": ["x"]})
    assert by_key.status == 200
    shown = await served.api.shown(made["id"])
    assert (shown["name"], shown["tags"], shown["timer_id"]) == ("after", ["x"], "t1")


async def test_a_timer_is_canceled(served: Served):
    """A cancel by id or by key is acknowledged as over HTTP, and so is one that is repeated."""
    one, other = await served.api.create(), await served.api.create(timer_id="t1", group="g")
    for which in ({"id": one["id"]}, {"group": "g", "timer_id": "t1"}, {"id": one["id"]}):
        answer = await served.ask("cancel", which)
        assert (answer.status, answer.data["status"]) == (200, "canceled")
    assert (await served.api.shown(other["id"]))["status"] == "canceled"


async def test_a_stale_version_is_refused(served: Served):
    """If-Match means what it means over HTTP."""
    made = await served.api.create()
    for verb, body in (("cancel", {}), ("update", {"name": "n"})):
        answer = await served.ask(verb, {"id": made["id"], **body}, If_Match='"7"')
        assert (answer.status, answer.code) == (412, 6)


async def test_failures_are_told_to_tools_of_nats(served: Served):
    """A failure has NATS's own error headers, in one line whatever it quotes."""
    answer = await served.ask("create", {**timer_body(), "über\r\nflüssig": 1})
    assert answer.summary == (400, 2, "über\r\nflüssig: unknown field")
    assert answer.headers["Nats-Service-Error-Code"] == "400"
    assert answer.headers["Nats-Service-Error"] == "?ber?fl?ssig: unknown field"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "id: required, or timer_id and its group"),
        ({"group": "g"}, "id: required, or timer_id and its group"),
        ({"id": NO_SUCH, "timer_id": "t"}, "id: cannot be given together with group and timer_id"),
        ({"id": "x"}, "id: must be a UUID"),
        ({"id": 1}, "id: must be a string or null, not an integer"),
        ({"id": NO_SUCH, "grupo": "g"}, "grupo: unknown field"),
        ({"timer_id": "a\nb"}, "timer_id: has a character that is not allowed here"),
        (b"", "body: not valid JSON: Input data was truncated"),
        (b"[" * 70, "body: nested more than 64 levels deep"),
        (b"\xff", "body: not valid UTF-8 at byte 0"),
    ],
)
@pytest.mark.parametrize("verb", ["get", "cancel", "update"])
async def test_what_names_no_timer(served: Served, verb: str, body, message: str):
    """Whatever is wrong with what names a timer is told by its field."""
    answer = await served.ask(verb, body)
    assert answer.summary == (400, 2, message)


async def test_a_body_over_the_limit(serve: Serve):
    """A body of more than MAX_BODY_BYTES is refused as over HTTP."""
    served = await serve(max_body=1000)
    body = timer_body(metadata="x" * 1000)
    over_nats = await served.ask("create", body)
    assert over_nats.summary == (413, 8, "body: must be at most 1000 bytes")
    assert over_nats.summary == (await served.api.post("/timers", body)).summary


async def test_an_answer_that_is_too_large_for_nats(serve: Serve):
    """A timer larger than a message may be is shown over HTTP, and whoever asked hears that."""
    served = await serve(max_body=2 << 20)
    made = await served.api.create(callback=http_callback(payload="x" * (1 << 20)))
    answer = await served.ask("get", {"id": made["id"]})
    assert (answer.status, answer.code) == (413, 8)
    assert answer.message.endswith("that NATS takes; ask over HTTP")


async def test_a_create_that_nobody_waits_for(served: Served):
    """A create without a reply subject is done all the same."""
    subject = f"{served.prefix}.default.timers.create"
    body = content(timer_body(timer_id="quiet"))
    await served.client.publish(subject, body, headers={"X-API-Key": KEY})

    async def is_there() -> bool:
        return (await served.api.get("/groups/default/timers/quiet")).status == 200

    await eventually(is_there, "the timer")


async def test_a_get_that_nobody_waits_for(served: Served):
    """A get without a reply subject is not done: there would be nobody to hear the answer."""
    made = await served.api.create()
    subject, body = f"{served.prefix}.default.timers.get", content({"id": made["id"]})
    await served.client.publish(subject, body, headers={"X-API-Key": KEY})
    await served.ask("get", {"id": made["id"]})  # comes after it
    [endpoint] = [each for each in served.answering._service._endpoints if each.name == "get"]
    assert endpoint.stats()["num_requests"] == 1
