"""Outcomes: what an answer, or the lack of one, means for the timer, in words a person understands.

Nothing that the user keeps secret is ever quoted: no header, no body, no query of a URL.
What is kept of an answer stands beside the words, and only where it is asked for.
"""

import os
import ssl
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http import HTTPStatus

from msgspec.structs import replace
from pyreqwest.http import Url

from duetime.clock import Clock, Millis, from_datetime
from duetime.delivery import following
from duetime.delivery.answers import BrokeOff, GivenUp, NoAnswer, NotHttp, Response
from duetime.delivery.capture import NOTHING, Capture
from duetime.delivery.egress import Egress
from duetime.delivery.opening import TlsFailed
from duetime.delivery.proxy import ProxyFailed
from duetime.delivery.receiver import Receiver
from duetime.delivery.resolver import Answer
from duetime.durations import format_duration
from duetime.timer import Kind, Outcome

LONGEST_WAIT: Millis = 7 * 86_400_000  # a receiver that asks for more is called after this

_PHRASES = {int(status): f"HTTP {status} {status.phrase}" for status in HTTPStatus}
_RETRYABLE = frozenset({408, 425, 429})
_LONGEST_LOCATION = 200

# Numbers of OpenSSL's, and what they mean to the receiver's operator.
_CERTIFICATE_PROBLEMS = {
    9: "certificate is not valid yet",
    10: "certificate has expired",
    18: "certificate is not from a trusted authority",
    19: "certificate is not from a trusted authority",
    20: "certificate is not from a trusted authority",
    21: "certificate is not from a trusted authority",
    23: "certificate was revoked",
    62: "certificate is for another host",
    64: "certificate is for another host",
}
_TOO_OLD = frozenset({"UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION"})
_NOT_SPOKEN = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE"}
)


def answered(
    response: Response, capture: Capture, asked: Url, clock: Clock, latency: Millis
) -> Outcome:
    """The outcome of an answer. Its status decides, and where that is 2xx, what the group asks."""
    status = response.status
    if capture is NOTHING and 200 <= status < 300:  # noqa: PLR2004 - the class of success
        return _succeeded(status, latency)
    text, fields = capture.text(response), capture.fields(response)
    if 200 <= status < 300:  # noqa: PLR2004 - the class of success
        error = capture.problem(response)
        if error is None:
            success = Outcome(
                kind=Kind.OK,
                status_code=status,
                latency_ms=latency,
                response=text,
                response_headers=fields,
            )
            return _followed(success, capture.wish(response, clock.now()))
        # As after a 5xx: it is for the receiver to be repaired, and the policy bounds the tries.
        kind, retryable = Kind.RESPONSE, True
    else:
        kind = Kind.HTTP
        # What is no status of HTTP counts as a fault of the receiver's, as RFC 9110 has it.
        is_none = not 100 <= status < 600  # noqa: PLR2004 - the five classes
        is_its_fault = is_none or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        retryable = is_its_fault or status in _RETRYABLE
        error = _PHRASES.get(status) or f"HTTP {status:03}{', which is no status' * is_none}"
        if status // 100 == 3 and (location := response.header(b"location")):  # noqa: PLR2004
            error = f"redirect{_to(asked, location)} was not followed (HTTP {status})"
    return Outcome(
        kind=kind,
        status_code=status,
        latency_ms=latency,
        error=error,
        retryable=retryable,
        retry_at=retry_at(response.header(b"retry-after"), clock.now()) if retryable else None,
        response=text,
        response_headers=fields,
    )


@lru_cache(maxsize=1024)  # most attempts end like this, after as many milliseconds as others
def _succeeded(status: int, latency: Millis) -> Outcome:
    return Outcome(kind=Kind.OK, status_code=status, latency_ms=latency)


def _followed(outcome: Outcome, wish: following.Wish) -> Outcome:
    """The outcome of a success, by what the answer's body asks for."""
    if wish.error is None:
        return outcome if wish.again_at is None else replace(outcome, again_at=wish.again_at)
    return replace(outcome, kind=Kind.HTTP, error=wish.error, retryable=wish.retryable)


def timed_out(timeout: Millis, *, has_begun: bool = False) -> Outcome:
    """The outcome of an attempt whose time ran out, be it before an answer or in the middle."""
    what = "the answer did not end" if has_begun else "no answer"
    return _failed(Kind.TIMEOUT, f"{what} within {format_duration(timeout)}")


def unresolved(host: str, answer: Answer | None, waited: Millis) -> Outcome:
    """The outcome where a host has no address, or none was found within this time."""
    reason = answer.error if answer else f"no answer within {format_duration(waited)}"
    return _failed(Kind.DNS, f"cannot resolve host {host}: {reason}")


def not_permitted(receiver: Receiver, answer: Answer, egress: Egress) -> Outcome:
    """The outcome where a receiver may be called at none of its addresses."""
    address, host = answer.addresses[0], receiver.host
    which = address if address == host else f"{address}, the address of {host},"
    at = None if answer is receiver.unresolved else address
    text = f"{which} may not be called; {egress.remedy(host, receiver.port, at)}"
    return Outcome(kind=Kind.EGRESS, error=text)


def not_signed(why: str) -> Outcome:
    """The outcome where a callback cannot be signed as it should be, so that it is not sent.

    It may be tried again: whoever runs the service can see to it.
    """
    return _failed(Kind.SIGNING, f"not sent, as it cannot be signed: {why}")


def no_credential(name: str, error: str, *, retryable: bool = True) -> Outcome:
    """The outcome where a callback's credential cannot be shown, so that nothing was sent.

    What only a person can mend is not tried again: the timer fails, and can be redriven then.
    """
    text = f"the credential '{name}' {error}"
    return Outcome(kind=Kind.CREDENTIAL, error=text, retryable=retryable)


def not_connected(error: OSError | TlsFailed | ProxyFailed, at: str, within: float) -> Outcome:
    """The outcome where no connection to ``at`` was made, so that nothing was sent.

    All of these may be tried again, TLS too: certificates are renewed and load balancers repaired
    within the time that retry policies span, and the policy bounds the tries anyway.
    """
    if isinstance(error, ProxyFailed):
        text = f"no connection to {at} through the proxy: {error}"
        return Outcome(kind=error.kind, error=text, retryable=error.kind is not Kind.EGRESS)
    if isinstance(error, TlsFailed):
        return _no_tls(error.__cause__, at, within)
    if isinstance(error, ConnectionRefusedError):
        return _failed(Kind.NETWORK, f"connection refused by {at}")
    if error.errno is not None:
        return _failed(Kind.NETWORK, f"cannot connect to {at}: {os.strerror(error.errno)}")
    if isinstance(error, TimeoutError):
        return _failed(Kind.TIMEOUT, f"no connection to {at} within {_waited(within)}")
    return _failed(Kind.NETWORK, f"cannot connect to {at}: {error}")


def _no_tls(cause: BaseException | None, at: str, within: float) -> Outcome:
    if isinstance(cause, TimeoutError) and cause.errno is None:
        return _failed(Kind.TIMEOUT, f"no TLS handshake with {at} within {_waited(within)}")
    return _failed(Kind.TLS, f"TLS: {_tls_problem(cause)}")


def _waited(seconds: float) -> str:
    return format_duration(round(1000 * seconds))


def unanswered(error: NoAnswer, at: str) -> Outcome:
    """The outcome where a request was sent to ``at`` and got no whole answer."""
    if isinstance(error, GivenUp):
        return _failed(Kind.LOST, "this node stopped before the answer came")
    if isinstance(error, NotHttp):
        return _failed(Kind.NETWORK, f"the answer of {at} is not valid HTTP: {error}")
    if isinstance(error, BrokeOff):
        return _failed(Kind.NETWORK, f"the answer of {at} broke off: {error}")
    return _failed(Kind.NETWORK, f"no answer from {at}: {error}")


def _failed(kind: Kind, error: str) -> Outcome:
    return Outcome(kind=kind, error=error, retryable=True)


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


def _tls_problem(error: BaseException | None) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        known = _CERTIFICATE_PROBLEMS.get(error.verify_code)
        return known or f"certificate is invalid: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError | ConnectionError):
        return "the receiver closed the connection during the handshake"
    if isinstance(error, ssl.SSLError) and error.reason in _NOT_SPOKEN:
        return "the receiver does not speak it here"
    if isinstance(error, ssl.SSLError) and error.reason in _TOO_OLD:
        return "the receiver speaks no version of it that is safe (1.2 or newer)"
    reason = getattr(error, "reason", None) or error
    return str(reason).replace("_", " ").lower()
