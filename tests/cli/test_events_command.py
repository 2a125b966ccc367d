"""`duetime events`: what happens to timers, one to a line."""

import json
import signal

import pytest

from duetime.events.types import TYPES
from tests.fake_service import KEY, Pieces, refused
from tests.waiting import PATIENCE

EVENT = {
    "id": "e1",
    "type": "attempt_failed",
    "tenant": "default",
    "group": "g",
    "timer": "01",
    "timer_id": "k\x1b[2J",
    "attempt": 2,
    "time": "2030-01-01T00:00:00Z",
    "data": {"status_code": 503, "latency_ms": 7, "error": "HTTP 503\x1b[2J"},
}
END = b"event: end\nid: p9\ndata: {}\n\n"


def stream(*parts: bytes, **fields):
    return 200, Pieces(list(parts), **fields), {"Content-Type": "text/event-stream"}


def said(**fields) -> bytes:
    event = {**EVENT, **fields}
    data = json.dumps(event)
    return f"id: p{event['id']}\nevent: {event['type']}\ndata: {data}\n\n".encode()


def test_one_to_a_line(call, service):
    """For people, without what could take over their terminal."""
    service.answer = lambda _: stream(said(), said(id="e2", type="created", data={}), END)
    ended = call("events")
    assert ended.code == 0
    first, second = ended.out.splitlines()
    assert first == (
        "2030-01-01T00:00:00Z      attempt_failed   g/k\ufffd[2J  attempt 2  7 ms  "
        "HTTP 503\ufffd[2J"
    )
    assert second == "2030-01-01T00:00:00Z      created          g/k\ufffd[2J"
    assert service.requests[0].target == "/events?follow=false"


def test_what_an_answer_was_is_said_once(call, service):
    """The status stands alone where no sentence begins with it."""
    service.answer = lambda _: stream(
        said(type="completed", data={"status_code": 200, "latency_ms": 1}),
        said(id="e2", data={"status_code": 200, "error": "the answer does not match"}),
        END,
    )
    first, second = call("events").out.splitlines()
    assert first.endswith("attempt 2  HTTP 200  1 ms")
    assert second.endswith("attempt 2  HTTP 200  the answer does not match")


def test_the_help_names_every_type(call):
    """Nobody has to look them up."""
    told = call("events", "--help").out
    assert [type_ for type_ in TYPES if type_ not in told] == []


def test_for_machines(call, service):
    """The event as it came, with the position to go on from."""
    service.answer = lambda _: stream(said(), END)
    ended = call("events", "--json", "--after", "p0")
    assert json.loads(ended.out) == {**EVENT, "position": "pe1"}
    assert service.requests[0].headers["last-event-id"] == "p0"


def test_which(call, service):
    """What is asked for goes to the service."""
    service.answer = lambda _: stream(END)
    call(
        "events", "--group", "g", "--type", "failed", "--type", "due", "--timer", "01", "--tag", "x"
    )
    assert service.requests[0].parameters == [
        ("group", "g"),
        ("type", "failed"),
        ("type", "due"),
        ("timer", "01"),
        ("tag", "x"),
        ("follow", "false"),
    ]


def test_following_goes_on_after_a_break(call, service):
    """And says that there was one."""
    answers = [stream(said(), breaks_off=True), stream(said(), said(id="e2"), END)]
    service.answer = lambda _: answers.pop(0)
    ended = call("events", "--follow")
    assert ended.code == 0
    assert len(ended.out.splitlines()) == 2
    assert ended.err.endswith("trying again\n")
    assert service.requests[1].headers["last-event-id"] == "pe1"


@pytest.mark.parametrize(
    ("answer", "code", "told"),
    [
        (refused(409, 5, "events are not kept; OUTBOX=on"), 5, "OUTBOX=on"),
        (refused(400, 2, "type: unknown"), 2, "type: unknown"),
        (refused(401, 4, "unauthorized"), 4, "unauthorized"),
        (refused(503, 9, "not now"), 1, "not now"),
    ],
)
def test_refusals(call, service, answer, code, told):
    """Each with its own exit code."""
    service.answer = lambda _: answer
    ended = call("events", "--follow")
    assert ended.code == code
    assert told in ended.err


@pytest.mark.parametrize("fields", [{"data": "text"}, {"data": None}, {"group": 1, "time": []}])
def test_an_event_of_another_version(call, service, fields):
    """What is not as expected is shown as well as it can be."""
    service.answer = lambda _: stream(said(**fields), END)
    ended = call("events")
    assert ended.code == 0
    assert len(ended.out.splitlines()) == 1


def test_ctrl_c_ends_it(spawn, service):
    """At once, though nothing happens."""
    service.answer = lambda _: stream(said(), breaks_off=True) if not heard else None
    heard = []
    process = spawn("events", "--follow", "--server", service.url, "--api-key", KEY)
    assert "attempt_failed" in process.stdout.readline()
    heard.append(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) in {130, -signal.SIGINT}
