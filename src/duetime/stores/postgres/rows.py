"""Rows: what is written to PostgreSQL, in the order of the fields of ``statements.py``."""

from collections.abc import Sequence
from typing import Any

from duetime import ids
from duetime.stores import Change
from duetime.stores.codec import progress_text, to_json
from duetime.stores.postgres.values import escaped, escaped_or_none
from duetime.timer import Attempt, Event, Timer


def key_of(timer: Timer) -> tuple[str, str, str]:
    """By what batches are sorted, so that two that meet wait for one another in one order."""
    return timer.tenant, timer.group, timer.timer_id


def timer_values(timer: Timer) -> tuple[Any, ...]:
    """What the user asked for: the values of NEW_TIMER."""
    spec = timer.spec
    return (
        timer.id,
        escaped(timer.tenant),
        escaped(timer.group),
        escaped(timer.timer_id),
        timer.execute_at,
        timer.created_at,
        timer.fingerprint,
        escaped_or_none(spec.name),
        escaped(spec.correlation_id),
        to_json(spec),
    )


def state_values(timer: Timer) -> tuple[Any, ...]:
    """How far it has come: those of NEW_STATE."""
    return (
        timer.wake_at,
        timer.updated_at,
        timer.executed_at,
        timer.version,
        timer.weight,
        timer.shard,
        timer.status.value,
        progress_text(timer.progress),
    )


def change_values(
    place: int,
    change: Change,
    *,
    is_rewriting: bool,
) -> tuple[Any, ...]:
    """A change: the values of MOVED, and those of REWRITTEN if more than that was changed."""
    timer = change.new
    moved = (
        place,
        timer.id,
        change.old.version,
        timer.version,
        timer.status.value,
        timer.wake_at,
        timer.updated_at,
        timer.executed_at,
        progress_text(timer.progress),
    )
    if not is_rewriting:
        return moved
    spec = timer.spec
    return (
        *moved,
        timer.weight,
        timer.execute_at,
        timer.fingerprint,
        escaped_or_none(spec.name),
        escaped(spec.correlation_id),
        to_json(spec),
    )


def attempt_values(place: int, attempt: Attempt) -> tuple[Any, ...]:
    """Those of ATTEMPT."""
    return (
        place,
        attempt.timer,
        attempt.occurrence,
        attempt.attempt,
        escaped(attempt.node),
        attempt.started_at,
        attempt.finished_at,
        attempt.next_at,
        to_json(attempt.outcome),
    )


def tag_rows(timers: Sequence[tuple[int, Timer]]) -> list[tuple[Any, ...]]:
    """Each tag of each timer once: the values of TAG."""
    return [
        (place, escaped(timer.tenant), escaped(tag), timer.id)
        for place, timer in timers
        for tag in set(timer.spec.tags)
    ]


def event_values(place: int, event: Event) -> tuple[Any, ...]:
    """Those of EVENT."""
    return place, event.id, ids.shard_of(event.id), to_json(event)
