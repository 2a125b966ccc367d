"""How a timer becomes values and comes back: what stores write the same way, each in its own form.

What an engine compares or indexes stands alone; the rest of a spec, of the progress and of an
outcome is JSON text. The user's own JSON inside a spec (payload, metadata) is kept byte for byte.
"""

import sys
from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from duetime import ids
from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.timer import UNTRIED, Attempt, Event, Outcome, Progress, Spec, Status, Timer

# The columns of a row by which it is read back; ``progress`` and ``spec`` follow as JSON.
SCALARS = (
    "id",
    "tenant",
    "group",
    "timer_id",
    "version",
    "status",
    "execute_at",
    "wake_at",
    "created_at",
    "updated_at",
    "executed_at",
    "fingerprint",
)
# Those that follow from the spec or the id: for indexes and choosing, not to read a timer back.
DERIVED = ("shard", "name", "correlation_id", "weight", "drop_at")
COLUMNS = (*SCALARS, *DERIVED, "progress", "spec")

Scalars: TypeAlias = tuple[
    str,
    str,
    str,
    str,
    int,
    Status,
    Millis,
    Millis | None,
    Millis,
    Millis,
    Millis | None,
    str | None,
]
# timer, occurrence, attempt, node, started_at, finished_at, next_at, outcome
AttemptRow: TypeAlias = tuple[str, int, int, str, Millis, Millis, Millis | None, Outcome]

_decode_spec = msgspec.json.Decoder(Spec).decode
decode_progress = msgspec.json.Decoder(Progress).decode
decode_outcome = msgspec.json.Decoder(Outcome).decode
decode_attempts = msgspec.json.Decoder(list[AttemptRow]).decode
decode_event = msgspec.json.Decoder(Event).decode
decode_line = msgspec.json.Decoder(AuditLine).decode

_SURROGATES = range(0xD800, 0xE000)  # code points that are no characters

_encode = msgspec.json.Encoder().encode
_UNTRIED_TEXT = _encode(UNTRIED).decode()


def to_json(value: Any) -> str:
    """Write a value as JSON text, as an SQL parameter wants it."""
    return _encode(value).decode()


def progress_text(progress: Progress) -> str:
    """The progress column; most timers are new, so theirs is written only once."""
    return _UNTRIED_TEXT if progress is UNTRIED else to_json(progress)


def to_columns(timer: Timer) -> tuple[Any, ...]:
    """A timer as the values of COLUMNS."""
    spec = timer.spec
    return (
        timer.id,
        timer.tenant,
        timer.group,
        timer.timer_id,
        timer.version,
        timer.status.value,
        timer.execute_at,
        timer.wake_at,
        timer.created_at,
        timer.updated_at,
        timer.executed_at,
        timer.fingerprint,
        timer.shard,
        spec.name,
        spec.correlation_id,
        timer.weight,
        timer.drop_at,
        progress_text(timer.progress),
        to_json(spec),
    )


def scalars_of(timer: Timer) -> Scalars:
    """A timer's SCALARS."""
    return (
        timer.id,
        timer.tenant,
        timer.group,
        timer.timer_id,
        timer.version,
        timer.status,
        timer.execute_at,
        timer.wake_at,
        timer.created_at,
        timer.updated_at,
        timer.executed_at,
        timer.fingerprint,
    )


def to_timer(scalars: Sequence[Any], progress: Progress, spec: Raw | str | bytes) -> Timer:
    """The timer of a row: its SCALARS, its progress, and its spec as JSON.

    The spec must be a text of its own, not a part of a whole page: its payload refers to the bytes
    that it was decoded from, and holds them in memory as long as the timer lives.
    """
    return Timer(
        id=scalars[0],
        tenant=scalars[1],
        group=scalars[2],
        timer_id=scalars[3],
        version=scalars[4],
        status=scalars[5],
        execute_at=scalars[6],
        wake_at=scalars[7],
        created_at=scalars[8],
        updated_at=scalars[9],
        executed_at=scalars[10],
        fingerprint=scalars[11],
        progress=progress,
        spec=_decode_spec(spec),
    )


def attempt_row(attempt: Attempt) -> AttemptRow:
    """An attempt as a row, its outcome and all."""
    return (
        attempt.timer,
        attempt.occurrence,
        attempt.attempt,
        attempt.node,
        attempt.started_at,
        attempt.finished_at,
        attempt.next_at,
        attempt.outcome,
    )


def to_attempt(row: Sequence[Any]) -> Attempt:
    """The attempt of an AttemptRow."""
    return Attempt(
        timer=row[0],
        occurrence=row[1],
        attempt=row[2],
        node=row[3],
        started_at=row[4],
        finished_at=row[5],
        next_at=row[6],
        outcome=row[7],
    )


def shard_set(shards: Collection[int]) -> bytes | None:
    """The shards as a set of bits; None where all are meant, which needs no filter."""
    if len(shards) == ids.SHARDS:
        return None
    bits = bytearray(ids.SHARDS // 8)
    for shard in shards:
        bits[shard >> 3] |= 1 << (shard & 7)
    return bytes(bits)


def prefix_end(prefix: str) -> str | None:
    """The least text above every text that starts with the prefix; None if there is none.

    A range needs no wildcards, so that none in the prefix has to be escaped.
    """
    while prefix:
        last = ord(prefix[-1]) + 1
        prefix = prefix[:-1]
        if last == _SURROGATES.start:
            last = _SURROGATES.stop
        if last <= sys.maxunicode:
            return prefix + chr(last)
    return None
