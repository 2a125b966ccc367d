"""The headers of a callback, and which of them are whose.

Duetime's own come first, the timer's replace them, and last come the ``webhook-*`` ones, which a
signature vouches for, and the signatures that the timer is to have. In a request, names are in
title case here and on the wire: receivers should not care for it, and some do. In a NATS message
they are written as the docs write them, because there most receivers do care.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from random import getrandbits
from string import ascii_letters, digits, punctuation
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Raw

from duetime import __version__
from duetime.clock import Millis, to_rfc3339
from duetime.delivery.signing import body_signatures, signatures
from duetime.timer import Callback, HttpCallback, NatsCallback, Timer

USER_AGENT = f"duetime/{__version__}"
MOST_HEADERS = 64
MOST_BYTES = 16 * 1024

_SIGNED = "webhook-"
_OWNED = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-timer-signature",
    }
)
_OWNED_PREFIXES = (_SIGNED, "proxy-")
_BODY_SIGNATURE = "x-timer-signature"
_OWNED_IN_MESSAGES = (_SIGNED, "nats-", _BODY_SIGNATURE)

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Beyond ASCII there is no telling which encoding a receiver reads, so nothing is sent in one.
_VALUE = re.compile(r"[\t -~]*")
_QUOTED_SAFE = "".join(set(punctuation) - {"%"}) + ascii_letters + digits

# A receiver may insist on being told that there is no body where one is usual.
_LENGTH_EXPECTED = frozenset({"POST", "PUT", "PATCH"})

_SIGNATURES = ("Webhook-Signature", "X-Timer-Signature")

_spelled = lru_cache(maxsize=1024)(str.title)


def problem_with(headers: Mapping[str, str], *, in_message: bool = False) -> str | None:
    """Why these headers of a timer cannot be sent, or None if they can. Never shows a value."""
    if len(headers) > MOST_HEADERS:
        return f"at most {MOST_HEADERS} are possible"
    if sum(map(len, headers)) + sum(map(len, headers.values())) > MOST_BYTES:
        return f"must be at most {MOST_BYTES} bytes together"
    seen = set()
    for name, value in headers.items():
        lower = name.lower()
        if problem := _problem_with_one(name, lower, value, in_message=in_message):
            return problem
        if lower in seen:
            return f"{name} is given twice"
        seen.add(lower)
    return None


def _problem_with_one(name: str, lower: str, value: str, *, in_message: bool) -> str | None:
    if not _TOKEN.fullmatch(name):
        return f"{name[:64]!r} is not a valid header name"
    if in_message and lower.startswith(_OWNED_IN_MESSAGES):
        return f"{name} cannot be set, as Duetime or NATS itself sets it"
    if not in_message and (lower in _OWNED or lower.startswith(_OWNED_PREFIXES)):
        return f"{name} cannot be set, as Duetime or HTTP itself sets it"
    if not _VALUE.fullmatch(value):
        return f"the value of {name} must be printable ASCII text"
    return None


class About(msgspec.Struct, frozen=True, gc=False):
    """What every attempt tells of itself, however it is sent."""

    timer: str
    attempt: str
    due: str
    correlation_id: str
    trace: str  # the trace is the occurrence, and the span is the attempt
    webhook_id: str
    timestamp: str
    signature: str  # none: it is not to have one
    body_signature: str  # likewise


def about(timer: Timer, content: bytes | Raw, now: Millis, secrets: Sequence[bytes]) -> About:
    """All that is to be told of one attempt, whose body this is."""
    wanted = timer.spec.signatures if secrets else ()
    webhook_id, timestamp = timer.webhook_id, now // 1000
    return About(
        timer.id,
        str(timer.progress.attempt),
        to_rfc3339(timer.execute_at),
        _correlation_id(timer),
        f"00-{_trace_id(timer)}-{getrandbits(64) or 1:016x}-01",
        webhook_id,
        str(timestamp),
        signatures(secrets, webhook_id, timestamp, content) if "webhook" in wanted else "",
        body_signatures(secrets, content) if "timer" in wanted else "",
    )


def build(
    timer: Timer, callback: HttpCallback, now: Millis, secrets: Sequence[bytes]
) -> dict[str, str]:
    """Write the headers of one attempt."""
    content = body(callback)
    told = about(timer, content, now, secrets)
    headers = {
        "Accept": "*/*",
        "User-Agent": USER_AGENT,
        "X-Timer-Id": told.timer,
        "X-Timer-Attempt": told.attempt,
        "X-Timer-Due": told.due,
        "X-Correlation-Id": told.correlation_id,
        "Traceparent": told.trace,
    }
    if callback.payload is not UNSET:
        headers["Content-Type"] = "application/json"
    if callback.headers:
        for name, value in callback.headers.items():
            headers[_spelled(name)] = value
        for name in _SIGNATURES:  # also if there is none, nobody else's passes for it
            headers.pop(name, None)
    if callback.payload is not UNSET or callback.method in _LENGTH_EXPECTED:
        headers["Content-Length"] = str(len(content))
    headers["Webhook-Id"] = told.webhook_id
    headers["Webhook-Timestamp"] = told.timestamp
    if told.signature:
        headers["Webhook-Signature"] = told.signature
    if told.body_signature:
        headers["X-Timer-Signature"] = told.body_signature
    return headers


def head(
    timer: Timer,
    callback: HttpCallback,
    now: Millis,
    secrets: Sequence[bytes],
    *,
    path: str,
    host: str,
) -> bytes:
    """The head of the request of one attempt, as it goes over the wire.

    The same as ``written`` makes of what ``build`` says. Most timers have no headers of their own,
    and to write the others at once takes a third of the time.
    """
    if callback.headers:
        return written(callback.method, path, host, build(timer, callback, now, secrets))
    content = body(callback)
    told = about(timer, content, now, secrets)
    has_payload = callback.payload is not UNSET
    kind = "Content-Type: application/json\r\n" if has_payload else ""
    is_told_length = has_payload or callback.method in _LENGTH_EXPECTED
    length = f"Content-Length: {len(content)}\r\n" if is_told_length else ""
    signed = f"Webhook-Signature: {told.signature}\r\n" if told.signature else ""
    if told.body_signature:
        signed += f"X-Timer-Signature: {told.body_signature}\r\n"
    text = (
        f"{callback.method} {path} HTTP/1.1\r\nHost: {host}\r\n"
        f"Accept: */*\r\nUser-Agent: {USER_AGENT}\r\n"
        f"X-Timer-Id: {told.timer}\r\nX-Timer-Attempt: {told.attempt}\r\n"
        f"X-Timer-Due: {told.due}\r\nX-Correlation-Id: {told.correlation_id}\r\n"
        f"Traceparent: {told.trace}\r\n{kind}{length}"
        f"Webhook-Id: {told.webhook_id}\r\nWebhook-Timestamp: {told.timestamp}\r\n"
        f"{signed}\r\n"
    )
    lines = 12 + bool(kind) + bool(length) + bool(told.signature) + bool(told.body_signature)
    return _on_lines(text, lines)


def of_message(
    timer: Timer, callback: NatsCallback, now: Millis, secrets: Sequence[bytes]
) -> bytes:
    """The headers of the message of one attempt, as a block.

    A stream keeps one message of each ``Nats-Msg-Id``: it is that of the occurrence, so that a
    repeated attempt is dropped. ValueError if a header holds what could be read as another one.
    """
    told = about(timer, body(callback), now, secrets)
    signed = f"webhook-signature: {told.signature}\r\n" if told.signature else ""
    if told.body_signature:
        signed += f"X-Timer-Signature: {told.body_signature}\r\n"
    if callback.jetstream:
        signed += f"Nats-Msg-Id: {told.webhook_id}\r\n"
    if callback.headers:
        first = _own_and_ours(callback.headers, told)
    else:  # most have none, and to write the others at once takes a third of the time
        first = (
            f"X-Timer-Id: {told.timer}\r\nX-Timer-Attempt: {told.attempt}\r\n"
            f"X-Timer-Due: {told.due}\r\nX-Correlation-ID: {told.correlation_id}\r\n"
            f"traceparent: {told.trace}\r\n"
        )
    return (
        f"NATS/1.0\r\n{first}webhook-id: {told.webhook_id}\r\n"
        f"webhook-timestamp: {told.timestamp}\r\n{signed}\r\n"
    ).encode("ascii")


def _own_and_ours(own: Mapping[str, str], told: About) -> str:
    """The timer's own instead of Duetime's, but for those that nobody else's may pass for."""
    headers = {
        "x-timer-id": ("X-Timer-Id", told.timer),
        "x-timer-attempt": ("X-Timer-Attempt", told.attempt),
        "x-timer-due": ("X-Timer-Due", told.due),
        "x-correlation-id": ("X-Correlation-ID", told.correlation_id),
        "traceparent": ("traceparent", told.trace),
    }
    for name, value in own.items():
        lower = name.lower()
        if not lower.startswith(_OWNED_IN_MESSAGES):
            headers[lower] = name, value
    text = "".join([f"{name}: {value}\r\n" for name, value in headers.values()])
    if text.count("\n") > len(headers) or text.count("\r") > len(headers):
        raise ValueError("a header has more than one line")
    return text


def body(callback: Callback) -> bytes | Raw:
    """What follows the headers."""
    return b"" if callback.payload is UNSET else callback.payload


def written(method: str, path: str, host: str, headers: Mapping[str, str]) -> bytes:
    """The head of a request, as it goes over the wire.

    ValueError if a header holds what could be read as another one, or a second request: however
    it came to be stored, it is not sent.
    """
    fields = map(": ".join, headers.items())
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *fields, "", ""]
    return _on_lines("\r\n".join(lines), len(lines) - 1)


def _on_lines(text: str, count: int) -> bytes:
    if text.count("\n") > count or text.count("\r") > count:
        raise ValueError("a header has more than one line")
    return text.encode("ascii")


def _trace_id(timer: Timer) -> str:
    """The same for all attempts of an occurrence, without anything being stored."""
    if timer.progress.occurrence == 1:
        return timer.id.replace("-", "")  # a UUID is as long as the id of a trace
    return blake2b(timer.webhook_id.encode(), digest_size=16).hexdigest()


def _correlation_id(timer: Timer) -> str:
    text = timer.spec.correlation_id
    return text if text == timer.id else header_safe(text)  # most have none of their user's


def header_safe(text: str) -> str:
    """A text as it is if a header can carry it, else percent-encoded as UTF-8."""
    if text.isascii() and text.isprintable() and text == text.strip():
        return text
    return quote(text, safe=_QUOTED_SAFE)
