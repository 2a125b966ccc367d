"""Following: what a receiver that is asked whether all is done has to say, in the body it answers.

Only of a callback with ``follow_response``, and only where the status says success. Whatever is
not written as below means that it is done. But an answer that begins to ask for something, and
cannot be understood, or was not read to its end, is a failed attempt: to take it for a success
would lose what was asked for.

| body | meaning |
|---|---|
| `{"ok": false, "next_execute_at": "2030-01-01T09:00:00Z"}` | call again then |
| `{"ok": false, "delay": "15m"}` | call again after that |
| `{"ok": false}` | a failed attempt |
"""

from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from duetime.clock import LATEST, Millis, from_datetime, read_rfc3339
from duetime.durations import parse_duration

MOST_BYTES = 64 * 1024  # of an answer, with its headers
SOONEST: Millis = 1_000  # after the answer: whoever asks for less is called then
FURTHEST: Millis = 366 * 86_400_000

_FIELDS = ("next_execute_at", "delay")


class Wish(NamedTuple):
    """What the receiver wants; nothing at all is what most do."""

    again_at: Millis | None = None
    error: str | None = None  # why it is a failed attempt
    retryable: bool = True


DONE = Wish()
NOT_DONE = Wish(error='the receiver answered "ok": false')
CUT_OFF = Wish(error="follow_response: the answer was not read to its end; it may have 64 KiB")
TOO_FAR = Wish(
    error="follow_response: the receiver asked to be called again more than a year ahead",
    retryable=False,
)


class _Body(msgspec.Struct):
    ok: Raw | UnsetType = UNSET
    next_execute_at: Raw | UnsetType = UNSET
    delay: Raw | UnsetType = UNSET


# Nothing but what is looked at is read: a long list of floats takes half a second.
_decode = msgspec.json.Decoder(_Body).decode
_decode_text = msgspec.json.Decoder(str | None).decode


def read(body: bytes, now: Millis) -> Wish:
    """What a whole body asks for."""
    try:
        answer = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return DONE
    if answer.ok is UNSET or bytes(answer.ok) != b"false":
        return DONE
    given = {name: value for name in _FIELDS if (value := _text(getattr(answer, name))) is not None}
    if len(given) == len(_FIELDS):
        return _unreadable("next_execute_at", "cannot be given together with delay")
    for field, text in given.items():
        return _again(field, text, now)
    return NOT_DONE


def _again(field: str, text: Any, now: Millis) -> Wish:
    try:
        at = _time(text) if field == "next_execute_at" else now + _delay(text)
    except (ValueError, OverflowError) as error:
        return _unreadable(field, str(error))
    if at > min(now + FURTHEST, LATEST):
        return TOO_FAR
    return Wish(again_at=max(at, now + SOONEST))


def _text(value: Raw | UnsetType) -> Any:
    """A value of the answer; None: it is not there, or null, which says as much."""
    if value is UNSET:
        return None
    try:
        return _decode_text(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return UNSET  # something, and no text


def _time(text: Any) -> Millis:
    at = read_rfc3339(text if isinstance(text, str) else "")
    if at.tzinfo is None:
        raise ValueError('needs an offset such as "Z"')
    return from_datetime(at)


def _delay(text: Any) -> Millis:
    return parse_duration(text if isinstance(text, str) else "")


def _unreadable(field: str, problem: str) -> Wish:
    """A wish that cannot be understood; what was written there is not quoted."""
    return Wish(error=f"follow_response: {field} in the answer: {problem}")
