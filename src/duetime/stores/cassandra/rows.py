"""Rows: what a timer is made of in the partition of its shard, and how it comes back.

| kind | at | id | n | columns |
|---|---|---|---|---|
| TRUTH | 0 | the timer's id | 0 | version, state, and spec or, if it is big, heavy |
| KEY | 0 | its key | 0 | timer: the id that has this key |
| DUE, LATE | wake_at | the timer's id | 0 | version, weight, is_claimed |
| ATTEMPT | 0 | the timer's id | occurrence and attempt | body |
| EVENT | 0 | the event's id | 0 | body |
| FENCE | 0 | nothing | 0 | version; the epoch and the floor of all |
| FINISHED | updated_at | the timer's id | 0 | version |

A state is one text of JSON and not a column for each of its fields, because a cell costs more than
what is in it. What the user asked for is a text of its own, since it rarely changes and may be big.
"""

from typing import Any, NamedTuple

import msgspec
from cassandra.query import UNSET_VALUE

from duetime import ids
from duetime.clock import Millis
from duetime.stores import Due, Key
from duetime.stores.codec import (
    Scalars,
    attempt_row,
    decode_attempts,
    scalars_of,
    to_attempt,
    to_json,
)
from duetime.stores.codec import to_timer as timer_of
from duetime.timer import Attempt, Progress, Status, Timer

TRUTH, KEY, DUE, LATE, ATTEMPT, EVENT, FINISHED, FENCE = range(8)

BEGINNING = Due(-(2**63), "")  # before every line of what is due

HEAVY = 32 * 1024  # bytes of a timer that is heavy

_ATTEMPTS = 2**31  # of one occurrence

_decode_state = msgspec.json.Decoder(tuple[Scalars, Progress]).decode


def state_of(timer: Timer) -> str:
    """All of a timer but its spec."""
    return to_json((scalars_of(timer), timer.progress))


def to_timer(state: str, spec: str) -> Timer:
    """The timer of a truth row."""
    scalars, progress = _decode_state(state)
    return timer_of(scalars, progress, spec)


class Ended(NamedTuple):
    """What a purge needs to know of a timer that has finished."""

    id: str
    tenant: str
    group: str
    timer_id: str
    version: int
    status: Status
    wake_at: Millis | None
    updated_at: Millis

    @property
    def shard(self) -> int:
        return ids.shard_of(self.id)


def to_ended(state: str) -> Ended:
    """The same of a truth row, without what the user asked for."""
    scalars, _ = _decode_state(state)
    return Ended(*scalars[:6], wake_at=scalars[7], updated_at=scalars[9])


class Counted(msgspec.Struct, frozen=True, array_like=True):
    """What counting needs to know of a timer: how its SCALARS begin."""

    id: str
    tenant: str
    group: str
    timer_id: str
    version: int
    status: Status


_decode_counted = msgspec.json.Decoder(tuple[Counted, msgspec.Raw]).decode


def to_counted(state: str) -> Counted:
    """The same of a truth row; the rest is not decoded."""
    return _decode_counted(state)[0]


def key_of(timer: Timer | Key | Ended) -> str:
    """A key as one text, which no other key has."""
    return to_json((timer.tenant, timer.group, timer.timer_id))


def number_of(occurrence: int, attempt: int) -> int:
    """The place of an attempt in its timer's log."""
    return occurrence * _ATTEMPTS + attempt


def attempt_body(attempt: Attempt) -> str:
    """An attempt as text."""
    return to_json(attempt_row(attempt))


def to_attempts(bodies: list[str]) -> list[Attempt]:
    """Attempts from their texts."""
    return [to_attempt(row) for row in decode_attempts(f"[{','.join(bodies)}]")]


def is_heavy(timer: Timer) -> bool:
    """Tell whether its spec has a column of its own, which a list of timers does not read."""
    return timer.weight > HEAVY


def spec_columns(timer: Timer, old: Timer | None = None) -> tuple[Any, Any]:
    """The columns spec and heavy. What an old version did not have either is not written."""
    text = to_json(timer.spec)
    other = None if old is not None and is_heavy(old) != is_heavy(timer) else UNSET_VALUE
    return (other, text) if is_heavy(timer) else (text, other)
