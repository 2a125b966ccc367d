"""How a timer becomes what Redis stores, and comes back.

What the user asked for stands apart from the rest of a timer, so that a change of how far it has
come does not write it again. The server looks at neither: what it compares stands beside them.
Times are numbers of sixteen digits at the beginning of a text, so that texts are in their order.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.stores import Change, Due, Insert, Key, Record, Waking
from duetime.stores.codec import decode_line
from duetime.timer import Attempt, Event, HttpCallback, Spec, Timer

_ELSEWHERE = Spec(callback=HttpCallback(url=""), correlation_id="")
_DIGITS = 16
_LAST = 10**_DIGITS - 1

_written = msgspec.json.Encoder().encode
_packed = msgspec.msgpack.Encoder().encode
_timer = msgspec.json.Decoder(Timer).decode
_spec = msgspec.json.Decoder(Spec).decode
_attempt = msgspec.json.Decoder(Attempt).decode
_event = msgspec.json.Decoder(Event).decode


def _json(value: object) -> msgspec.Raw:
    """JSON as a text of MessagePack: the server's scripts do not know how to read bytes of it."""
    written = _written(value)
    return msgspec.Raw(b"\xdb%b%b" % (len(written).to_bytes(4), written))


def of_insert(insert: Insert) -> bytes:
    """A new timer, as insert.lua reads it."""
    timer = insert.timer
    return _packed(
        {
            **_changing(timer, insert.attempts, insert.events),
            "key": _json(_names(Key.of(timer))),
            "tenant": timer.tenant,
            "spec": _json(timer.spec),
        }
    )


def of_change(change: Change) -> bytes:
    """A change, as apply.lua reads it."""
    attempts = () if change.attempt is None else (change.attempt,)
    fields = _changing(change.new, attempts, change.events)
    fields["old_version"] = str(change.old.version)
    if change.new.spec is not change.old.spec:
        fields["spec"] = _json(change.new.spec)
    return _packed(fields)


def _changing(timer: Timer, attempts: Iterable[Attempt], events: Iterable[Event]) -> dict[str, Any]:
    drop_at = timer.drop_at
    is_done = timer.is_over and drop_at is None
    fields = {
        "id": timer.id,
        "version": str(timer.version),
        "due": "" if timer.wake_at is None else _line(Waking.of(timer)),
        "done": f"{moment(timer.updated_at)}{timer.id}" if is_done else "",
        "rest": _json(replace(timer, spec=_ELSEWHERE)),
        "attempts": [
            (attempt_name(each.occurrence, each.attempt), _json(each)) for each in attempts
        ],
        "events": [(each.id, _json(each)) for each in events],
    }
    if drop_at is not None:
        fields["outlived"] = f"{moment(drop_at)}{timer.id} {timer.version}"
    return fields


def to_timer(row: Sequence[bytes]) -> Timer:
    """A timer of its row."""
    rest, spec = row
    return replace(_timer(rest), spec=_spec(spec))


def key_name(key: Key) -> bytes:
    """What a key is called: no two are called the same."""
    return _written(_names(key))


def _names(key: Key) -> tuple[str, str, str]:
    return key.tenant, key.group, key.timer_id


def moment(at: Millis) -> str:
    """A time such that texts are in the order of times; there are none before 1970."""
    return f"{min(max(at, 0), _LAST):0{_DIGITS}}"


def _line(waking: Waking) -> str:
    at, id_, version, weight, is_claimed = waking
    return f"{moment(at)}{id_} {version} {weight} {is_claimed:d}"


def to_waking(line: bytes) -> Waking:
    """A line of the due index."""
    place, version, weight, is_claimed = line.decode().split(" ")
    at, id_ = int(place[:_DIGITS]), place[_DIGITS:]
    return Waking(at, id_, int(version), int(weight), is_claimed == "1")


def behind(place: Due) -> str:
    """What comes behind a place in the due index, and before the next."""
    return f"{moment(place.wake_at)}{place.id}~"


def attempt_name(occurrence: int, attempt: int) -> str:
    """What an attempt begins with in its log."""
    return f"{occurrence:010}{attempt:010}"


def to_attempt(line: bytes) -> Attempt:
    """A line of a log."""
    return _attempt(line[len(attempt_name(0, 0)) :])


def to_event(line: bytes) -> Event:
    """A line of the outbox."""
    return _event(line[line.index(b"{") :])


def of_line(line: AuditLine) -> tuple[str, str, bytes]:
    """A line of the audit, as write_lines.lua reads it."""
    return line.id, line.tenant, _written(line)


def to_line(line: bytes) -> AuditLine:
    """A line of the audit that was stored."""
    return decode_line(line[line.index(b"{") :])


def of_record(record: Record) -> bytes:
    """A document, behind its version."""
    return b"%d:%b" % (record.version, record.data)


def to_record(kind: str, name: bytes, stored: bytes) -> Record:
    """A document that was stored."""
    version, _, data = stored.partition(b":")
    return Record(kind=kind, name=name.decode(), version=int(version), data=data)
