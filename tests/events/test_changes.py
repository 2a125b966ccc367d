"""What is told of each change: every cell of the table of transitions has its events."""

from itertools import pairwise

import pytest
from msgspec import Raw
from msgspec.structs import replace

from duetime import ids, model
from duetime.events.changes import LONGEST_ERROR, of_change, of_new
from duetime.events.types import TYPES
from duetime.model import MAX_LOST
from duetime.retry import RetryPolicy
from duetime.timer import Attempt, HttpCallback, Kind, NatsCallback, Outcome, Status, Timer
from duetime.transitions import TRANSITIONS
from tests.factories import NODE, NOW, make_spec, make_timer

LATER = NOW + 5_000
OK = Outcome(kind=Kind.OK, status_code=200, latency_ms=7)
REFUSED = Outcome(kind=Kind.HTTP, status_code=404, error="HTTP 404", latency_ms=9)
TIMED_OUT = Outcome(kind=Kind.TIMEOUT, error="timed out", retryable=True)
AGAIN = Outcome(kind=Kind.OK, status_code=200, again_at=LATER + 60_000)
LOST = Outcome(kind=Kind.LOST, error="its node was gone before the outcome was known")

SPEC = make_spec(
    callback=HttpCallback(
        url="https://hidden.example/way?token=hidden",
        headers={"X-Hidden": "hidden"},
        payload=Raw(b'"hidden"'),
    ),
    metadata=Raw(b'{"hidden": 1}'),
    name="a name",
    tags=("one", "two"),
    retry_policy=RetryPolicy(max_attempts=3, initial_interval=1000, jitter=0),
    deadline=100_000,
)
PENDING = make_timer(spec=SPEC, execute_at=NOW, fingerprint="before")
EXECUTING = model.claim(PENDING, NODE, NOW, 10_000)
RETRYING = model.finish(EXECUTING, TIMED_OUT, NOW, 0.5)
COMPLETED = model.finish(EXECUTING, OK, NOW, 0.5)
FAILED = model.finish(EXECUTING, REFUSED, NOW, 0.5)
CANCELED = model.cancel(PENDING, NOW)
PAUSED = model.pause(PENDING, NOW)
HELD = model.hold(PENDING, NOW)
OTHER_SPEC = replace(SPEC, name="another")


def lost(new: Timer) -> Attempt:
    return model.attempt_record(EXECUTING, new, LOST, LATER)


def replaced(timer: Timer) -> Timer:
    return model.replace(timer, LATER, spec=OTHER_SPEC, execute_at=LATER, fingerprint="after")


def acted(timer: Timer) -> Timer:
    """The timer as a bulk action leaves it."""
    return replace(timer, progress=replace(timer.progress, action="some-action"))


# action -> the timer before, the timer after, the types of what is told
TOLD: dict[str, list[tuple[Timer, Timer, list[str]]]] = {
    "claim": [
        (PENDING, EXECUTING, ["due", "attempt_started"]),
        (RETRYING, model.claim(RETRYING, NODE, LATER, 10_000), ["attempt_started"]),
    ],
    "expire": [(PENDING, model.expire(PENDING, LATER), ["failed"])],
    "hold": [
        (PENDING, HELD, ["held"]),
        (HELD, model.hold(HELD, LATER), ["held"]),
        (EXECUTING, model.hold(EXECUTING, LATER), ["attempt_failed", "held"]),
    ],
    "let go": [
        (HELD, model.let_go(HELD, LATER), ["released"]),
        (PENDING, acted(model.let_go(PENDING, LATER)), ["released"]),
    ],
    "skip": [(HELD, model.skip(HELD, LATER), ["canceled"])],
    "renew": [(EXECUTING, model.renew(EXECUTING, LATER, 10_000), ["renewed"])],
    "finish": [
        (EXECUTING, model.finish(EXECUTING, OK, LATER, 0.5), ["completed"]),
        (EXECUTING, model.finish(EXECUTING, REFUSED, LATER, 0.5), ["attempt_failed", "failed"]),
        (EXECUTING, model.finish(EXECUTING, TIMED_OUT, LATER, 0.5), ["attempt_failed"]),
        (EXECUTING, model.finish(EXECUTING, AGAIN, LATER, 0.5), ["rescheduled"]),
    ],
    "release": [
        (EXECUTING, model.release(EXECUTING, LATER, was_sent=True), ["attempt_failed"]),
        (EXECUTING, model.release(EXECUTING, LATER, was_sent=False), ["handed_back"]),
    ],
    "take up": [
        (
            EXECUTING,
            model.take_up(EXECUTING, "node-2", LATER, 10_000),
            ["attempt_failed", "attempt_started"],
        ),
        (
            EXECUTING,
            model.take_up(
                replace(EXECUTING, progress=replace(EXECUTING.progress, lost=MAX_LOST - 1)),
                "node-2",
                LATER,
                10_000,
            ),
            ["attempt_failed", "failed"],
        ),
    ],
    "update": [
        (timer, model.update(timer, LATER, spec=spec, execute_at=at), ["updated"])
        for timer in (PENDING, PAUSED, HELD, RETRYING)
        for spec in (SPEC, OTHER_SPEC)
        for at in (timer.execute_at, LATER + 1000)
    ],
    "shift": [
        (timer, acted(model.shift(timer, LATER, 1000)), ["updated"])
        for timer in (PENDING, PAUSED, HELD, RETRYING)
    ],
    "replace": [
        (timer, replaced(timer), ["updated"])
        for timer in (PENDING, PAUSED, HELD, COMPLETED, FAILED, CANCELED)
    ],
    "cancel": [(timer, model.cancel(timer, LATER), ["canceled"]) for timer in (PENDING, PAUSED)],
    "pause": [(PENDING, model.pause(PENDING, LATER), ["paused"])],
    "resume": [(PAUSED, model.resume(PAUSED, LATER), ["resumed"])],
    "fire": [
        (PENDING, model.fire(PENDING, LATER), ["updated"]),
        (HELD, model.fire(HELD, LATER), ["updated"]),
        (PAUSED, model.fire(PAUSED, LATER), ["resumed"]),
    ],
    "redrive": [(FAILED, model.redrive(FAILED, LATER), ["redriven"])],
    "tell": [
        (FAILED, model.tell(FAILED, LATER, "story"), ["told"]),
        (FAILED, model.tell(FAILED, LATER, None), ["told"]),
    ],
}
CASES = [(action, *case) for action, cases in TOLD.items() for case in cases]


def test_every_transition_is_told_of():
    """A change that is new in the table of transitions must say what is told of it."""
    tried = {
        action: {
            before: {new.status for old, new, _ in cases if old.status is before}
            for before in {old.status for old, _, _ in cases}
        }
        for action, cases in TOLD.items()
    }
    assert tried == {
        action: {before: set(after) for before, after in row.items()}
        for action, row in TRANSITIONS.items()
    }


@pytest.mark.promise("events-complete")
@pytest.mark.parametrize(("action", "old", "new", "types"), CASES)
def test_what_is_told(action, old, new, types):
    """Each change has its events, at least one, in order, which say where the timer is now."""
    events = of_change(old, new, None)
    assert [event.type for event in events] == types
    for event in events:
        assert (event.version, event.at) == (new.version, new.updated_at)
        assert (event.timer, event.timer_id) == (new.id, new.timer_id)
        assert (event.tenant, event.group) == (new.tenant, new.group)
        assert event.correlation_id == new.spec.correlation_id
        assert event.tags == new.spec.tags
        assert ids.shard_of(event.id) == new.shard
        assert ids.time_of(event.id) == event.at
    assert all(one.id < other.id for one, other in pairwise(events))


@pytest.mark.parametrize(("action", "old", "new", "types"), CASES)
def test_nothing_is_told_that_is_delivered(action, old, new, types):
    """Nothing of the payload, the headers, the URL or the metadata; and not which node it was."""
    for event in (*of_change(old, new, None), *of_new(new)):
        assert "hidden" not in str(event)
        assert NODE not in str(event)
        assert "node-2" not in str(event)


def test_every_type_is_described():
    """What can be told, and nothing else, stands in the list of types."""
    told = {event.type for _, old, new, _ in CASES for event in of_change(old, new, None)}
    assert told | {"created"} == set(TYPES)


def test_a_new_timer():
    """When it is due, how it will be delivered, and its name if it has one."""
    [event] = of_new(PENDING)
    assert (event.type, event.version, event.attempt) == ("created", 1, 0)
    assert event.data == {
        "execute_at": "2025-06-15T15:06:40Z",
        "callback_type": "http",
        "name": "a name",
    }
    [event] = of_new(make_timer(spec=make_spec(callback=NatsCallback(topic="hidden"))))
    assert event.data == {"execute_at": "2025-06-15T15:07:40Z", "callback_type": "nats"}


def test_a_failed_attempt():
    """What kind of failure it was, in words, and when it is tried again."""
    new = model.finish(EXECUTING, TIMED_OUT, LATER, 0.5)
    record = model.attempt_record(EXECUTING, new, TIMED_OUT, LATER)
    [event] = of_change(EXECUTING, new, record)
    assert event.data == {
        "kind": "timeout",
        "error": "timed out",
        "next_attempt_at": "2025-06-15T15:06:46Z",
    }
    assert (event.occurrence, event.attempt) == (1, 1)


def test_the_last_failed_attempt():
    """The attempt, then the timer."""
    new = model.finish(EXECUTING, REFUSED, LATER, 0.5)
    attempt, timer = of_change(EXECUTING, new, None)
    assert attempt.data == {
        "kind": "http",
        "status_code": 404,
        "latency_ms": 9,
        "error": "HTTP 404",
    }
    assert timer.data == {"error": "HTTP 404"}


def test_a_lost_attempt():
    """The attempt that was lost has its own number, and the next one another."""
    new = model.take_up(EXECUTING, "node-2", LATER, 10_000)
    gone, begun = of_change(EXECUTING, new, lost(new))
    assert (gone.attempt, begun.attempt) == (1, 2)
    assert gone.data == {"kind": "lost", "error": LOST.error}


def test_a_lost_attempt_is_not_taken_for_the_one_before():
    """What came of an earlier attempt is not told again."""
    again = model.claim(RETRYING, NODE, LATER, 10_000)
    [gone, _] = of_change(again, model.take_up(again, "node-2", LATER, 10_000), None)
    assert gone.data == {"kind": "lost"}


def test_a_success():
    """How the receiver answered, and how quickly."""
    [event] = of_change(EXECUTING, model.finish(EXECUTING, OK, LATER, 0.5), None)
    assert event.data == {"status_code": 200, "latency_ms": 7}
    assert (event.occurrence, event.attempt) == (1, 1)


def test_called_again():
    """When, and as which occurrence."""
    [event] = of_change(EXECUTING, model.finish(EXECUTING, AGAIN, LATER, 0.5), None)
    assert event.data == {"execute_at": "2025-06-15T15:07:45Z", "status_code": 200}
    assert (event.occurrence, event.attempt) == (2, 0)


def test_due_says_when():
    """The time that it was due at, whenever it begins."""
    due, _ = of_change(PENDING, model.claim(PENDING, NODE, LATER, 10_000), None)
    assert due.data == {"due_at": "2025-06-15T15:06:40Z"}


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        (PENDING, model.update(PENDING, LATER, spec=OTHER_SPEC, execute_at=LATER), "update"),
        (PENDING, model.update(PENDING, LATER, spec=SPEC, execute_at=LATER + 9), "update"),
        (PAUSED, model.update(PAUSED, LATER, spec=SPEC, execute_at=LATER + 9), "update"),
        (PENDING, acted(model.shift(PENDING, LATER, 9)), "shift"),
        (PAUSED, acted(model.shift(PAUSED, LATER, 9)), "shift"),
        (RETRYING, acted(model.shift(RETRYING, LATER, 9)), "shift"),
        (PENDING, model.fire(PENDING, LATER), "fire"),
        (HELD, model.fire(HELD, LATER), "fire"),
        (PENDING, replaced(PENDING), "replace"),
        (COMPLETED, replaced(COMPLETED), "replace"),
        (FAILED, replaced(FAILED), "replace"),
    ],
)
def test_which_update(old, new, change):
    """What was done, in which status it is, and when it is due."""
    [event] = of_change(old, new, None)
    assert event.data["change"] == change
    assert event.data["status"] == new.status


def test_skipped_says_why():
    """A timer that its group skips is canceled, with the reason; by its user, without one."""
    [skipped] = of_change(HELD, model.skip(HELD, LATER), None)
    assert skipped.data == {"error": "its group was paused when it was due"}
    [canceled] = of_change(RETRYING, model.cancel(RETRYING, LATER), None)
    assert canceled.data == {}


def test_a_long_error_is_cut():
    """An event is small, whatever the receiver has said."""
    outcome = replace(REFUSED, error="x" * 5_000)
    attempt, failed = of_change(EXECUTING, model.finish(EXECUTING, outcome, LATER, 0.5), None)
    assert len(attempt.data["error"]) == len(failed.data["error"]) == LONGEST_ERROR


def test_unknown_changes_are_told_as_updates():
    """A change that nobody has thought of is told, rather than leaving a gap."""
    odd = replace(COMPLETED, version=COMPLETED.version + 1, status=Status.PAUSED)
    assert [event.type for event in of_change(COMPLETED, odd, None)] == ["updated"]
