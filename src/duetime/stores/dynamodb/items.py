"""How a timer becomes an item and comes back.

Every byte is paid for, the names of attributes too, so these are of one letter:

| attribute | what |
|---|---|
| `v`, `s`, `y` | version, status, weight |
| `w` | the place in the due index; an item without one is not in the index |
| `r` | all that the engine changes, as JSON |
| `b`, or `h` | what the user asked for, as JSON; or how its parts are called, if it is heavy |
| `t` | how long it is kept when it has finished, where that is not as usual |
| `a` | the newest attempts, as JSON |
| `i`, `k` | the id, where the place does not say it; where the timer with this id lies |
| `m` | the mark of the write that made the item what it is |
| `x` | the second after which DynamoDB drops the item |
"""

import secrets
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from duetime.clock import Millis
from duetime.stores.dynamodb import keys
from duetime.stores.dynamodb.calls import Item
from duetime.timer import FINISHED, Attempt, Outcome, Progress, Spec, Status, Timer

# Bytes of content that are kept in the timer's own item: each write pays for all of the item, by
# the kilobyte, and a content beside it is paid for once.
LIGHT = 1536
PART = 380_000  # bytes; an item may have 400 KB
_WITHIN = 0x80  # how the bytes begin that do not begin a character

_encode = msgspec.json.Encoder().encode


class _State(msgspec.Struct, frozen=True, array_like=True):
    tenant: str
    group: str
    timer_id: str | None  # None: it is the id
    execute_at: Millis
    created_at: Millis
    updated_at: Millis
    executed_at: Millis | None
    fingerprint: str | None
    progress: Progress


class _Owner(msgspec.Struct, frozen=True, array_like=True):
    tenant: str  # the first of a _State


class _Line(msgspec.Struct, frozen=True, array_like=True):
    occurrence: int
    attempt: int
    node: str
    started_at: Millis
    finished_at: Millis
    outcome: Outcome
    next_at: Millis | None


_decode_state = msgspec.json.Decoder(_State).decode
_decode_owner = msgspec.json.Decoder(_Owner).decode
_decode_spec = msgspec.json.Decoder(Spec).decode
_decode_line = msgspec.json.Decoder(_Line).decode


class Content:
    """What the user asked for, in the item itself or in parts beside it."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer.id
        self._retention = timer.spec.retention
        self.encoded = _encode(timer.spec)
        self.is_heavy = len(self.encoded) > LIGHT

    @property
    def attribute(self) -> Item:
        """What the item of the timer says of it.

        Its retention stands alone, for those who would not read a content that lies beside.
        """
        own = {} if self._retention is None else {"t": integer(self._retention)}
        if not self.is_heavy:
            return {"b": text(self.encoded.decode()), **own}
        return {"h": text(f"{self._digest}.{len(list(self._cut()))}"), **own}

    def parts(self, version: int) -> Iterator[Item]:
        """The items beside the timer's, none if it is light."""
        if self.is_heavy:
            digest = self._digest
            for number, part in enumerate(self._cut()):
                place = keys.of_part(self._timer, digest, number)
                yield {**place.key, "b": text(part.decode()), "v": integer(version)}

    @property
    def _digest(self) -> str:
        return blake2b(self.encoded, digest_size=12).hexdigest()

    def _cut(self) -> Iterator[bytes]:
        rest = self.encoded
        while len(rest) > PART:
            end = PART
            while rest[end] & 0xC0 == _WITHIN:
                end -= 1
            yield rest[:end]
            rest = rest[end:]
        yield rest


def new_mark() -> str:
    """A text that nobody else has."""
    return secrets.token_urlsafe(9)


def attributes(timer: Timer) -> Item:
    """What every change of a timer writes anew; ``w`` is missing where nothing wakes."""
    state = _State(
        timer.tenant,
        timer.group,
        timer.timer_id if keys.has_own_key(timer) else None,
        timer.execute_at,
        timer.created_at,
        timer.updated_at,
        timer.executed_at,
        timer.fingerprint,
        timer.progress,
    )
    item: Item = {
        "v": integer(timer.version),
        "s": text(timer.status.value),
        "y": integer(timer.weight),
        "r": text(_encode(state).decode()),
    }
    if timer.wake_at is not None:
        item["w"] = text(keys.waking(timer.wake_at, timer.id))
    if keys.has_own_key(timer):
        item["i"] = text(timer.id)
    return item


def new_item(timer: Timer) -> Item:
    """The item of a new timer."""
    return {
        **keys.of_timer(timer).key,
        **attributes(timer),
        **Content(timer).attribute,
        "m": text(new_mark()),
    }


def id_of(item: Item) -> str:
    """The id of the timer that an item holds."""
    return str(item["i"]["S"] if "i" in item else item["sk"]["S"])


def tenant_of(item: Item) -> str:
    """Whose timer an item holds; the rest of it is not decoded."""
    return _decode_owner(item["r"]["S"]).tenant


def is_timer(item: Item) -> bool:
    """Whether an item is a timer, and not only where one lies."""
    return "r" in item


def is_over(item: Item) -> bool:
    """Whether the timer of an item has come to its end, and nobody looks at it any more."""
    return item["s"] in FINISHED_VALUES.values() and "w" not in item


def parts_of(item: Item) -> list[keys.Place]:
    """Where the content of a timer lies that does not have it in its item."""
    if "h" not in item:
        return []
    digest, _, count = item["h"]["S"].partition(".")
    return [keys.of_part(id_of(item), digest, number) for number in range(int(count))]


def to_timer(item: Item, content: str | None = None) -> Timer:
    """The timer of an item; ``content`` is what its parts make together."""
    state = _decode_state(item["r"]["S"])
    id_ = id_of(item)
    return Timer(
        id=id_,
        tenant=state.tenant,
        group=state.group,
        timer_id=id_ if state.timer_id is None else state.timer_id,
        version=version_of(item),
        status=Status(item["s"]["S"]),
        execute_at=state.execute_at,
        wake_at=int(item["w"]["S"][:15]) if "w" in item else None,
        created_at=state.created_at,
        updated_at=state.updated_at,
        executed_at=state.executed_at,
        fingerprint=state.fingerprint,
        progress=state.progress,
        spec=_decode_spec(item["b"]["S"] if content is None else content),
    )


def updated_at(item: Item) -> Millis:
    """When the timer of an item was last changed."""
    return _decode_state(item["r"]["S"]).updated_at


def retention_of(item: Item) -> Millis | None:
    """How long the timer of an item is kept when it has finished, if it says so itself."""
    return int(item["t"]["N"]) if "t" in item else None


def beginning_of(tenant: str) -> str:
    """How the state of every timer of a tenant begins, by which a filter knows them."""
    return f"[{_encode(tenant).decode()},"


def group_of(item: Item) -> str:
    """The group of the timer of an item."""
    return _decode_state(item["r"]["S"]).group


def version_of(item: Item) -> int:
    """The version of the timer of an item."""
    return int(item["v"]["N"])


def weight_of(item: Item) -> int:
    """How heavy the timer of an item is in memory."""
    return int(item["y"]["N"])


def attempt_text(attempt: Attempt) -> dict[str, Any]:
    """A line of the execution log, as a value."""
    line = _Line(
        attempt.occurrence,
        attempt.attempt,
        attempt.node,
        attempt.started_at,
        attempt.finished_at,
        attempt.outcome,
        attempt.next_at,
    )
    return text(_encode(line).decode())


def to_attempt(timer: str, value: str) -> Attempt:
    """The line of the execution log that a value is."""
    line = _decode_line(value)
    return Attempt(
        timer=timer,
        occurrence=line.occurrence,
        attempt=line.attempt,
        node=line.node,
        started_at=line.started_at,
        finished_at=line.finished_at,
        outcome=line.outcome,
        next_at=line.next_at,
    )


def attempts_in(item: Item) -> list[Attempt]:
    """The lines of the execution log that are in the timer's own item."""
    timer = id_of(item)
    return [to_attempt(timer, value["S"]) for value in item.get("a", {}).get("L", ())]


def attempt_item(attempt: Attempt) -> Item:
    """A line of the execution log, as an item of its own."""
    place = keys.of_attempt(attempt.timer, attempt.occurrence, attempt.attempt)
    return {**place.key, "b": attempt_text(attempt)}


def text(value: str) -> dict[str, Any]:
    """A text, as DynamoDB wants it."""
    return {"S": value}


def integer(value: int) -> dict[str, Any]:
    """A number, as DynamoDB wants it."""
    return {"N": str(value)}


# The statuses of finished timers, as the values of an expression.
FINISHED_VALUES: Item = {f":{status.value}": text(status.value) for status in FINISHED}
# And those that are asleep as well: of one that has failed, somebody may still have to be told.
IS_OVER = f"(s IN ({', '.join(FINISHED_VALUES)}) AND attribute_not_exists(w))"
