"""How rows become what the model knows: texts come as bytes, and ids as sixteen of them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from duetime.model import Attempt, Outcome, Progress, Status, Timer
from duetime.stores import Waking
from duetime.stores.codec import SCALARS, to_timer

_IN_STATES = frozenset({"version", "status", "wake_at", "updated_at", "executed_at"})
# The columns of a timer, of ``timers t`` and ``states s``.
NAMES = ", ".join(f"{'s' if name in _IN_STATES else 't'}.`{name}`" for name in SCALARS)

_TEXTS = tuple(SCALARS.index(name) for name in ("tenant", "group", "timer_id"))
_ID, _STATUS, _FINGERPRINT = map(SCALARS.index, ("id", "status", "fingerprint"))
_STATUSES = {status.value.encode(): status for status in Status}
_EXECUTING = Status.EXECUTING.value.encode()

_decode_progress = msgspec.json.Decoder(Progress).decode
_decode_outcome = msgspec.json.Decoder(Outcome).decode


def id_of(value: bytes) -> str:
    """An id as the model writes it."""
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def timer_of(row: Sequence[Any]) -> Timer:
    """A timer, from NAMES, its progress and its spec."""
    scalars = list(row[: len(SCALARS)])
    scalars[_ID] = id_of(scalars[_ID])
    for place in _TEXTS:
        scalars[place] = scalars[place].decode()
    scalars[_STATUS] = _STATUSES[scalars[_STATUS]]
    if scalars[_FINGERPRINT] is not None:
        scalars[_FINGERPRINT] = scalars[_FINGERPRINT].decode()
    return to_timer(scalars, _decode_progress(row[-2]), row[-1])


def waking_of(row: Sequence[Any]) -> Waking:
    """A line of the due index."""
    wake_at, id_, version, weight, status = row
    return Waking(wake_at, id_of(id_), version, weight, status == _EXECUTING)


def attempt_of(timer: str, row: Sequence[Any]) -> Attempt:
    """A line of a timer's execution log."""
    occurrence, attempt, node, started_at, finished_at, next_at, outcome = row
    return Attempt(
        timer=timer,
        occurrence=occurrence,
        attempt=attempt,
        node=node.decode(),
        started_at=started_at,
        finished_at=finished_at,
        next_at=next_at,
        outcome=_decode_outcome(outcome),
    )
