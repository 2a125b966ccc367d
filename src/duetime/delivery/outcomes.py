"""Outcomes: what an answer, or the lack of one, means for the timer, in words a person understands.

Nothing that the user keeps secret is ever quoted: no header, no body, no query of a URL.
"""

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import NamedTuple

from pyreqwest.exceptions import (
    BodyDecodeError,
    ClientClosedError,
    DecodeError,
    DetailedPyreqwestError,
    ReadError,
    RequestTimeoutError,
)
from pyreqwest.http import Url
from pyreqwest.response import Response

from duetime.clock import Millis, from_datetime
from duetime.durations import format_duration
from duetime.model import Kind, Outcome

LONGEST_WAIT: Millis = 7 * 86_400_000  # a receiver that asks for more is called after this

_PHRASES = {int(status): f"HTTP {status} {status.phrase}" for status in HTTPStatus}
_RETRYABLE = frozenset({408, 425, 429})
_LONGEST_LOCATION = 200

# The library's errors say where they happened only in the messages of their causes. Its classes
# do not: its ConnectError is also raised when a connection breaks after the request was written.
_CONNECTING = "client error (Connect)"
_TCP = "tcp connect error"
_NOISE = re.compile(r" (?:\(os error \d+\)|for url \(.*\))$")
_CERTIFICATE = "invalid peer certificate: "
_TLS_PROBLEMS = {
    "received corrupt message of type InvalidContentType": "the receiver does not speak it here",
    "tls handshake eof": "the receiver closed the connection during the handshake",
}
_CERTIFICATE_PROBLEMS = {
    "expired": "certificate has expired",
    "not valid yet": "certificate is not valid yet",
    "not valid for name": "certificate is for another host",
    "unknownissuer": "certificate is not from a trusted authority",
    "selfsigned": "certificate is not from a trusted authority",
    "causedasendentity": "certificate is an authority's own and not a server's",
    "revoked": "certificate was revoked",
}

# What may have been sent and got no whole answer, the first that fits.
_BROKEN: tuple[tuple[type[DetailedPyreqwestError], Kind, str], ...] = (
    (ClientClosedError, Kind.LOST, "this node stopped before the answer came"),
    (BodyDecodeError, Kind.NETWORK, "the answer of {at} broke off: {reason}"),
    (ReadError, Kind.NETWORK, "the answer of {at} broke off: {reason}"),
    (DecodeError, Kind.NETWORK, "the answer of {at} is not valid HTTP: {reason}"),
)


def answered(response: Response, asked: Url, now: Millis, latency: Millis) -> Outcome:
    """The outcome of an answer. Its status alone decides."""
    status = response.status
    if 200 <= status < 300:  # noqa: PLR2004 - the class of success
        return Outcome(kind=Kind.OK, status_code=status, latency_ms=latency)
    retryable = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _RETRYABLE
    error = _PHRASES.get(status) or f"HTTP {status}"
    if status // 100 == 3 and (location := response.get_header("location")):  # noqa: PLR2004
        error = f"redirect{_to(asked, location)} was not followed (HTTP {status})"
    return Outcome(
        kind=Kind.HTTP,
        status_code=status,
        latency_ms=latency,
        error=error,
        retryable=retryable,
        retry_at=retry_at(response.get_header("retry-after"), now) if retryable else None,
    )


class Failure(NamedTuple):
    """Why there was no answer, and whether it is certain that nothing was sent."""

    outcome: Outcome
    unsent: bool = False


def failed(
    error: DetailedPyreqwestError, at: str, timeout: Millis, connect_timeout: Millis
) -> Failure:
    """The outcome of an attempt that got no answer from ``at``. All of these may be tried again.

    That goes for TLS too: certificates are renewed and load balancers repaired within the time
    that retry policies span, nothing was delivered, and the policy bounds the tries anyway.
    """
    causes = [cause["message"] for cause in error.details["causes"] or ()] or [error.message]
    reason = _NOISE.sub("", causes[-1])
    unsent = _CONNECTING in causes
    if isinstance(error, RequestTimeoutError):
        if unsent:
            within = format_duration(connect_timeout)
            return _failure(Kind.TIMEOUT, f"no connection to {at} within {within}", unsent=True)
        return Failure(timed_out(timeout))
    if unsent:
        return _not_connected(causes, reason, at)
    for family, kind, sentence in _BROKEN:
        if isinstance(error, family):
            return _failure(kind, sentence.format(at=at, reason=reason))
    return _failure(Kind.NETWORK, f"no answer from {at}: {reason}")


def timed_out(timeout: Millis) -> Outcome:
    """The outcome of an attempt whose time ran out."""
    text = f"no answer within {format_duration(timeout)}"
    return Outcome(kind=Kind.TIMEOUT, error=text, retryable=True)


def _not_connected(causes: list[str], reason: str, at: str) -> Failure:
    if _TCP not in causes:
        return _failure(Kind.TLS, f"TLS: {_tls_problem(reason)}", unsent=True)
    if reason == "Connection refused":
        return _failure(Kind.NETWORK, f"connection refused by {at}", unsent=True)
    return _failure(Kind.NETWORK, f"cannot connect to {at}: {reason}", unsent=True)


def _failure(kind: Kind, error: str, *, unsent: bool = False) -> Failure:
    return Failure(Outcome(kind=kind, error=error, retryable=True), unsent)


def retry_at(header: str | None, now: Millis) -> Millis | None:
    """When a Retry-After header, in seconds or as a date, asks to be called again."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdecimal():
        at = now + 1000 * int(text[:12])
    else:
        try:
            date = parsedate_to_datetime(text)
            # "-0000" is UTC as well, but leaves the date without a zone.
            at = from_datetime(date if date.tzinfo else date.replace(tzinfo=UTC))
        except (ValueError, OverflowError):
            return None
    return min(at, now + LONGEST_WAIT) if at > now else None


def _to(asked: Url, location: str) -> str:
    try:
        url = asked.join(location).with_query_string(None).with_fragment(None)
        if url.username or url.password is not None:
            url = url.with_password(None).with_username("")
    except ValueError:
        return ""
    text = str(url)
    return f" to {text if len(text) <= _LONGEST_LOCATION else text[:_LONGEST_LOCATION] + '...'}"


def _tls_problem(reason: str) -> str:
    if not reason.startswith(_CERTIFICATE):
        return _TLS_PROBLEMS.get(reason, reason)
    problem = reason.removeprefix(_CERTIFICATE)
    for sign, sentence in _CERTIFICATE_PROBLEMS.items():
        if sign in problem.lower():
            return sentence
    return f"certificate is invalid: {problem}"
