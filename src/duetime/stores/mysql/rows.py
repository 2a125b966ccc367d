"""How rows become what the model knows: texts come as bytes, and ids as sixteen of them."""

from collections.abc import Sequence
from typing import Any

from duetime import ids
from duetime.stores import Waking
from duetime.stores.codec import SCALARS, decode_outcome, decode_progress, to_attempt, to_timer
from duetime.timer import Attempt, Status, Timer

_IN_STATES = frozenset({"version", "status", "wake_at", "updated_at", "executed_at"})
# The columns of a timer, of ``timers t`` and ``states s``.
NAMES = ", ".join(f"{'s' if name in _IN_STATES else 't'}.`{name}`" for name in SCALARS)

_TEXTS = tuple(SCALARS.index(name) for name in ("tenant", "group", "timer_id"))
_ID, _STATUS, _FINGERPRINT = map(SCALARS.index, ("id", "status", "fingerprint"))
_STATUSES = {status.value.encode(): status for status in Status}
_EXECUTING = Status.EXECUTING.value.encode()


def timer_of(row: Sequence[Any]) -> Timer:
    """A timer, from NAMES, its progress and its spec."""
    scalars = list(row[: len(SCALARS)])
    scalars[_ID] = ids.from_bytes(scalars[_ID])
    for place in _TEXTS:
        scalars[place] = scalars[place].decode()
    scalars[_STATUS] = _STATUSES[scalars[_STATUS]]
    if scalars[_FINGERPRINT] is not None:
        scalars[_FINGERPRINT] = scalars[_FINGERPRINT].decode()
    return to_timer(scalars, decode_progress(row[-2]), row[-1])


def waking_of(row: Sequence[Any]) -> Waking:
    """A line of the due index."""
    wake_at, id_, version, weight, status = row
    return Waking(wake_at, ids.from_bytes(id_), version, weight, status == _EXECUTING)


def attempt_of(timer: str, row: Sequence[Any]) -> Attempt:
    """A line of a timer's execution log."""
    occurrence, attempt, node, *times, outcome = row
    return to_attempt((timer, occurrence, attempt, node.decode(), *times, decode_outcome(outcome)))
