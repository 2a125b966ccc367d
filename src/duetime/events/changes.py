"""Changes as they are told: the events of a new timer, and of a change, by what is different.

Pure, and the same whoever works it out. Every version of a timer has at least one event, so whoever
has heard of all its versions has missed nothing. None says what is delivered, or which node did it.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from duetime import ids
from duetime.clock import to_rfc3339
from duetime.timer import Attempt, Event, Kind, Outcome, Progress, Status, Timer, callback_type

LONGEST_ERROR = 1_000  # characters

_Telling: TypeAlias = Callable[[Timer, Timer, Attempt | None], tuple[Event, ...]]

_LOST = Outcome(kind=Kind.LOST)
_NOTHING: dict[str, Any] = {}  # nobody changes it


def of_new(timer: Timer) -> tuple[Event, ...]:
    """What is told of a timer that was made."""
    spec = timer.spec
    data = {
        "execute_at": to_rfc3339(timer.execute_at),
        "callback_type": callback_type(spec.callback),
    }
    if spec.name is not None:
        data["name"] = spec.name
    return (_event("created", timer, timer.progress, data),)


def of_change(old: Timer, new: Timer, attempt: Attempt | None) -> tuple[Event, ...]:
    """What is told of a change, with the attempt that it ends, if it is known."""
    return _TELLING.get((old.status, new.status), _updated)(old, new, attempt)


# What the engine does -------------------------------------------------------------------------


def _claimed(_old: Timer, new: Timer, _attempt: Attempt | None) -> tuple[Event, ...]:
    progress = new.progress
    if progress.attempt > 1:
        return (_event("attempt_started", new, progress, _NOTHING),)
    return (
        _event("due", new, progress, {"due_at": to_rfc3339(new.execute_at)}),
        _event("attempt_started", new, progress, _NOTHING, 1),
    )


def _completed(_old: Timer, new: Timer, attempt: Attempt | None) -> tuple[Event, ...]:
    outcome = new.progress.outcome if attempt is None else attempt.outcome
    return (_event("completed", new, new.progress, _answer(outcome)),)


def _expired(_old: Timer, new: Timer, _attempt: Attempt | None) -> tuple[Event, ...]:
    return (_failed(new, 0),)


def _gave_up(old: Timer, new: Timer, attempt: Attempt | None) -> tuple[Event, ...]:
    return _attempt_failed(old, new, attempt), _failed(new, 1)


def _went_on(old: Timer, new: Timer, attempt: Attempt | None) -> tuple[Event, ...]:
    """Its claim was renewed, or its attempt was lost and the next one begins."""
    if new.progress.attempt == old.progress.attempt:
        return (_event("renewed", new, new.progress, _NOTHING),)
    return (
        _attempt_failed(old, new, attempt),
        _event("attempt_started", new, new.progress, _NOTHING, 1),
    )


def _waits_again(old: Timer, new: Timer, attempt: Attempt | None) -> tuple[Event, ...]:
    """An attempt has ended, or never began, and another one is to come."""
    before, after = old.progress, new.progress
    if after.occurrence != before.occurrence:
        data = {"execute_at": to_rfc3339(new.execute_at), **_answer(after.outcome)}
        return (_event("rescheduled", new, after, data),)
    if after.attempt < before.attempt:
        return (_event("handed_back", new, after, _NOTHING),)
    failed = _attempt_failed(old, new, attempt)
    if after.held_since is not None:
        return failed, _event("held", new, after, _NOTHING, 1)
    return (failed,)


def _told(_old: Timer, new: Timer, _attempt: Attempt | None) -> tuple[Event, ...]:
    story = new.progress.story
    return (_event("told", new, new.progress, {} if story is None else {"story": story}),)


# What the user does ---------------------------------------------------------------------------


def _still_waits(old: Timer, new: Timer, attempt: Attempt | None) -> tuple[Event, ...]:
    """It was changed by its user, or held because its group is paused, or let go."""
    if not _is_rewritten(old, new) and new.execute_at == old.execute_at:
        was_held, is_held = old.progress.held_since, new.progress.held_since
        is_put_off = new.wake_at != old.wake_at and not _is_due(new)
        if is_held is not None and (was_held is None or is_put_off):
            return (_event("held", new, new.progress, _NOTHING),)
        if is_held is None and _is_let_go(old, new):
            return (_event("released", new, new.progress, _NOTHING),)
    return _updated(old, new, attempt)


def _is_let_go(old: Timer, new: Timer) -> bool:
    """Tell whether it goes on from when it fell due, as the action says that resumes its group.

    One that was about to be held is let go like those that were.
    """
    was_held = old.progress.held_since
    if was_held is None:
        return new.wake_at == old.wake_at and new.progress.action != old.progress.action
    return new.wake_at == was_held


def _updated(old: Timer, new: Timer, _attempt: Attempt | None) -> tuple[Event, ...]:
    data = {
        "change": _change(old, new),
        "status": new.status.value,
        "execute_at": to_rfc3339(new.execute_at),
    }
    return (_event("updated", new, new.progress, data),)


def _resumed(old: Timer, new: Timer, attempt: Attempt | None) -> tuple[Event, ...]:
    return _goes_on("resumed", old, new, attempt)


def _redriven(old: Timer, new: Timer, attempt: Attempt | None) -> tuple[Event, ...]:
    return _goes_on("redriven", old, new, attempt)


def _goes_on(type_: str, old: Timer, new: Timer, attempt: Attempt | None) -> tuple[Event, ...]:
    """It waits for its time again as it was, unless it was replaced."""
    if _is_rewritten(old, new):
        return _updated(old, new, attempt)
    return (_event(type_, new, new.progress, {"execute_at": to_rfc3339(new.execute_at)}),)


def _paused(_old: Timer, new: Timer, _attempt: Attempt | None) -> tuple[Event, ...]:
    return (_event("paused", new, new.progress, _NOTHING),)


def _canceled(old: Timer, new: Timer, _attempt: Attempt | None) -> tuple[Event, ...]:
    error = new.progress.last_error  # a group that is resumed may skip what it held
    data = {} if error == old.progress.last_error else {"error": _cut(error)}
    return (_event("canceled", new, new.progress, data),)


_TELLING: Mapping[tuple[Status, Status], _Telling] = {
    (Status.PENDING, Status.PENDING): _still_waits,
    (Status.PENDING, Status.EXECUTING): _claimed,
    (Status.PENDING, Status.FAILED): _expired,
    (Status.PENDING, Status.CANCELED): _canceled,
    (Status.PENDING, Status.PAUSED): _paused,
    (Status.EXECUTING, Status.PENDING): _waits_again,
    (Status.EXECUTING, Status.EXECUTING): _went_on,
    (Status.EXECUTING, Status.COMPLETED): _completed,
    (Status.EXECUTING, Status.FAILED): _gave_up,
    (Status.FAILED, Status.PENDING): _redriven,
    (Status.FAILED, Status.FAILED): _told,
    (Status.PAUSED, Status.PENDING): _resumed,
    (Status.PAUSED, Status.CANCELED): _canceled,
    # All others are updates: of one that is paused, and whatever has been replaced.
}


# What they consist of -------------------------------------------------------------------------


def _event(
    type_: str, timer: Timer, progress: Progress, data: dict[str, Any], number: int = 0
) -> Event:
    spec, at = timer.spec, timer.updated_at
    return Event(
        id=ids.event_id(timer.id, at, timer.version, number),
        type=type_,
        tenant=timer.tenant,
        group=timer.group,
        timer=timer.id,
        timer_id=timer.timer_id,
        version=timer.version,
        occurrence=progress.occurrence,
        attempt=progress.attempt,
        at=at,
        correlation_id=spec.correlation_id,
        tags=spec.tags,
        data=data,
    )


def _attempt_failed(old: Timer, new: Timer, attempt: Attempt | None) -> Event:
    """The end of the attempt that was executing: it is lost if nobody knows what came of it."""
    outcome: Outcome | None = _LOST
    if attempt is not None:
        outcome = attempt.outcome
    elif new.progress.outcome is not old.progress.outcome:
        outcome = new.progress.outcome
    data = _answer(outcome)
    if outcome is not None:
        data = {"kind": outcome.kind.value, **data}
        if outcome.error is not None:
            data["error"] = _cut(outcome.error)
    if new.status is Status.PENDING and new.wake_at is not None:
        data["next_attempt_at"] = to_rfc3339(new.wake_at)
    return _event("attempt_failed", new, old.progress, data)


def _failed(new: Timer, number: int) -> Event:
    data = {"error": _cut(new.progress.last_error)}
    return _event("failed", new, new.progress, data, number)


def _answer(outcome: Outcome | None) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if outcome is not None and outcome.status_code is not None:
        data["status_code"] = outcome.status_code
    if outcome is not None and outcome.latency_ms is not None:
        data["latency_ms"] = outcome.latency_ms
    return data


def _cut(error: str | None) -> str | None:
    return error and error[:LONGEST_ERROR]


def _change(old: Timer, new: Timer) -> str:
    """What an update was, as far as the difference tells; only bulk actions shift timers."""
    if new.fingerprint != old.fingerprint or old.status not in {Status.PENDING, Status.PAUSED}:
        return "replace"
    if new.spec is not old.spec:
        return "update"
    if new.wake_at != old.wake_at and _is_due(new):
        return "fire"
    return "update" if new.progress.action == old.progress.action else "shift"


def _is_rewritten(old: Timer, new: Timer) -> bool:
    return new.spec is not old.spec or new.fingerprint != old.fingerprint


def _is_due(timer: Timer) -> bool:
    return timer.wake_at is not None and timer.wake_at <= timer.updated_at
