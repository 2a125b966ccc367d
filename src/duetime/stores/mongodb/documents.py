"""How a timer becomes a document and comes back.

What the server compares or indexes are fields; the rest of a spec, of the progress and of an
outcome is JSON text, so that the user's own JSON is kept byte for byte. A field without a value is
absent.
An id is a UUID of sixteen bytes, whose order is that of the texts.

The newest lines of the execution log lie in the document itself, so that they are written together
with the change, or not at all. Before there are many, they move to a collection of their own.
"""

from collections.abc import Collection
from typing import Any

from bson.binary import UUID_SUBTYPE, Binary

from duetime import ids
from duetime.clock import Millis
from duetime.stores import Change, Insert
from duetime.stores.codec import (
    SCALARS,
    decode_outcome,
    decode_progress,
    progress_text,
    to_attempt,
    to_json,
    to_timer,
)
from duetime.stores.mongodb.connection import Document
from duetime.timer import Attempt, Status, Timer

# A document ends at 16 MiB, all included.
HEAVIEST = 15 * 1024 * 1024

# What a timer is read back by.
READ = SCALARS[1:]  # all but the id
PROJECTION = dict.fromkeys(("_id", *READ, "progress", "spec"), 1)

_STATUSES = {status.value: status for status in Status}
_STATUS = READ.index("status")
# The driver has a kind of its own for large numbers, which others do not know to be one.
_NUMBERS = [
    READ.index(name)
    for name in ("version", "execute_at", "wake_at", "created_at", "updated_at", "executed_at")
]


# Ids ------------------------------------------------------------------------------------------


def to_id(text: str) -> Binary:
    """An id as it is stored."""
    return Binary(bytes.fromhex(text.replace("-", "")), UUID_SUBTYPE)


from_id = ids.from_bytes


def known_ids(texts: Any) -> list[Binary]:
    """Those of the texts that are ids at all, once each: the others are nobody's."""
    return [to_id(text) for text in dict.fromkeys(texts) if ids.is_uuid(text)]


def by_id(stored: bytes) -> Document:
    """What finds a timer by its id: its shard is said too, which a sharded cluster goes by."""
    return {"_id": stored, "shard": _shard_of(stored)}


def by_ids(stored: Collection[bytes]) -> Document:
    """The same for many."""
    shards = sorted({_shard_of(each) for each in stored})
    return {"_id": {"$in": list(stored)}, "shard": {"$in": shards}}


def _shard_of(stored: bytes) -> int:
    return int.from_bytes(stored[6:8]) % ids.SHARDS


def bound(text: str) -> Binary:
    """An id to compare with. A text that is none may still say where to go on: at either end."""
    return to_id(ids.bound(text))


def first_id(at: Millis) -> Binary:
    """The least id that was made at this time."""
    return to_id(ids.first_at(at))


# Timers ---------------------------------------------------------------------------------------


def to_document(insert: Insert) -> Document:
    """A timer as it is first stored; the log that it brings along lies beside it."""
    timer = insert.timer
    document = {
        "_id": to_id(timer.id),
        "tenant": timer.tenant,
        "group": timer.group,
        "timer_id": timer.timer_id,
        "shard": timer.shard,
        "created_at": timer.created_at,
        **_moving(timer),
        **_asked_for(timer),
        "has_log": bool(insert.attempts) or None,
        "drop_at": timer.drop_at,
    }
    return {name: value for name, value in document.items() if value is not None}


def to_update(change: Change) -> Document:
    """What changes in a document that holds the old timer."""
    fields = _moving(change.new)
    if change.is_rewriting:
        fields |= _asked_for(change.new)
    if change.new.drop_at != change.old.drop_at:
        fields["drop_at"] = change.new.drop_at
    put = {name: value for name, value in fields.items() if value is not None}
    update: Document = {"$set": put}
    if len(put) < len(fields):
        update["$unset"] = dict.fromkeys(fields.keys() - put.keys(), "")
    return update


def _moving(timer: Timer) -> Document:
    """How far it has come."""
    return {
        "version": timer.version,
        "status": timer.status.value,
        "wake_at": timer.wake_at,
        "updated_at": timer.updated_at,
        "executed_at": timer.executed_at,
        "progress": progress_text(timer.progress),
    }


def _asked_for(timer: Timer) -> Document:
    """What the user may change."""
    spec = timer.spec
    return {
        "execute_at": timer.execute_at,
        "fingerprint": timer.fingerprint,
        "weight": timer.weight,
        "name": spec.name,
        "correlation_id": spec.correlation_id,
        "tags": sorted(set(spec.tags)) or None,
        "spec": to_json(spec),
    }


def from_document(document: Document) -> Timer:
    """The timer that a document holds."""
    scalars: list[Any] = [document.get(name) for name in READ]
    scalars[_STATUS] = _STATUSES[document["status"]]
    for place in _NUMBERS:
        if scalars[place] is not None:
            scalars[place] = int(scalars[place])
    return to_timer(
        [from_id(document["_id"]), *scalars],
        decode_progress(document["progress"]),
        document["spec"],
    )


# The execution log ----------------------------------------------------------------------------


def to_line(attempt: Attempt) -> list[Any]:
    """A line of the log, in the document of its timer or in one of its own."""
    return [
        attempt.occurrence,
        attempt.attempt,
        attempt.node,
        attempt.started_at,
        attempt.finished_at,
        attempt.next_at,
        to_json(attempt.outcome),
    ]


def from_line(timer: str, line: list[Any]) -> Attempt:
    """The attempt that a line tells of."""
    occurrence, attempt, node, *times, outcome = line
    whole = (None if at is None else int(at) for at in times)
    return to_attempt((timer, int(occurrence), int(attempt), node, *whole, decode_outcome(outcome)))


def line_id(timer: bytes, occurrence: int, attempt: int) -> bytes:
    """What a line in a document of its own is called: in the order of the log, timer by timer."""
    return timer + occurrence.to_bytes(8) + attempt.to_bytes(8)


def last_line_id(timer: bytes) -> bytes:
    """Where the lines of a timer end."""
    return timer + b"\xff" * 16
