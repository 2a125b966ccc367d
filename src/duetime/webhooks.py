"""Webhooks: how a receiver makes sure that a callback came from here, unaltered, and just now.

    from duetime import webhooks

    try:
        callback = webhooks.verify(body, headers, secret)
    except webhooks.VerificationError:
        ...  # answer 401, and do nothing else
    if callback.id in seen:
        ...  # it is the same callback once more: answer 200

The body is what arrived, byte for byte: what was decoded and encoded again has another signature.
It needs nothing but Python's own library. Signatures are those of Standard Webhooks, so each of its
libraries reads them too.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Iterable, Mapping
from time import time
from typing import NamedTuple, TypeAlias

from duetime.errors import DuetimeError

PREFIX = "whsec_"
# The specification's bounds: below, a secret could be guessed; above, it is surely something else.
SHORTEST, LONGEST = 24, 64

TOLERANCE = 300  # seconds that a callback may be old, or ahead of this clock

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
BODY_SIGNATURE = "x-timer-signature"

_TIMESTAMP = re.compile(r"\d{1,12}", re.ASCII)
_VERSION = b"v1,"

Text: TypeAlias = str | bytes
Headers: TypeAlias = Mapping[str, str] | Iterable[tuple[Text, Text]]


class VerificationError(DuetimeError):
    """A request is not to be trusted; the text says why, and shows nothing of a secret."""


class MissingHeader(VerificationError):
    """There is no such header: it is unsigned, or something on its way has taken it off."""


class MalformedHeader(VerificationError):
    """A header is not what it should be, or is there twice."""


class NoMatchingSignature(VerificationError):
    """None of the signatures is made with one of these secrets over this body."""


class TooOld(VerificationError):
    """It was signed right, but long ago: somebody may be sending it once more."""


class TooNew(VerificationError):
    """It was signed right, but in the future: one of the clocks is wrong."""


class Verified(NamedTuple):
    """A request that was signed with one of the secrets."""

    id: str  # the same for all attempts at one callback: deduplicate by it
    timestamp: int  # seconds; when this attempt was sent


def verify(
    body: Text,
    headers: Headers,
    secrets: str | Iterable[str],
    *,
    tolerance: float = TOLERANCE,
    now: float | None = None,
) -> Verified:
    """Check a request by its ``webhook-*`` headers; VerificationError says what is wrong with it.

    ``secrets`` is one, or several while they rotate: either will do. ``now`` is the time in
    seconds, if it shall not be the clock's. Only what is signed right is ever too old or too new.
    """
    keys = _keys(secrets)
    given = _given(headers, ID, TIMESTAMP, SIGNATURE)
    timestamp = given[TIMESTAMP]
    if not _TIMESTAMP.fullmatch(timestamp):
        raise MalformedHeader(f"{TIMESTAMP}: must be the time in whole seconds")
    content = _bytes(f"{given[ID]}.{timestamp}.") + _bytes(body)
    expected = [_VERSION + _base64(key, content) for key in keys]
    if not _is_among(expected, _bytes(given[SIGNATURE]).split()):
        raise NoMatchingSignature(f"{SIGNATURE}: is not made with this secret over this body")
    _check_age((time() if now is None else now) - int(timestamp), tolerance)
    return Verified(given[ID], int(timestamp))


def verify_body_signature(body: Text, headers: Headers, secrets: str | Iterable[str]) -> None:
    """Check a request by its ``X-Timer-Signature``, which callbacks have whose group asks for it.

    It covers the body alone: a request that somebody sends once more passes, too.
    """
    keys = _keys(secrets)
    given = _given(headers, BODY_SIGNATURE)[BODY_SIGNATURE]
    content = _bytes(body)
    expected = [hmac.digest(key, content, "sha256").hex().encode() for key in keys]
    signatures = [each.strip().lower() for each in _bytes(given).split(b",")]
    if not _is_among(expected, signatures):
        raise NoMatchingSignature(f"{BODY_SIGNATURE}: is not made with this secret over this body")


def decode_secret(text: str) -> bytes:
    """The key that a secret such as "whsec_MfKQ9r8G..." stands for; ValueError never shows it."""
    encoded = text.strip()
    if not encoded.startswith(PREFIX):
        raise ValueError(f'must start with "{PREFIX}"')
    encoded = encoded[len(PREFIX) :]
    try:
        # Some leave out the signs that fill it up.
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not SHORTEST <= len(key) <= LONGEST:
        raise ValueError(
            f'must be "{PREFIX}" and the base64 of {SHORTEST} to {LONGEST} random bytes; '
            f"make one with: echo {PREFIX}$(openssl rand -base64 32)"
        )
    return key


def encode_secret(key: bytes) -> str:
    """A key as secrets are written."""
    return PREFIX + base64.b64encode(key).decode()


def _keys(secrets: str | Iterable[str]) -> list[bytes]:
    keys = []
    for number, text in enumerate([secrets] if isinstance(secrets, str) else secrets, start=1):
        try:
            keys.append(decode_secret(text))
        except ValueError as error:
            raise ValueError(f"secret number {number}: {error}") from None
    if not keys:
        raise ValueError("there is no secret to verify with")
    return keys


def _given(headers: Headers, *wanted: str) -> dict[str, str]:
    """These headers by their lower-case names, each of them once."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    given: dict[str, str] = {}
    for name, value in pairs:
        lower = _text(name).lower()
        if lower in given:
            raise MalformedHeader(f"{lower}: is given more than once")
        if lower in wanted:
            given[lower] = _text(value).strip()
    for name in wanted:
        if not given.get(name):
            raise MissingHeader(f"{name}: is missing")
    return given


def _is_among(expected: Iterable[bytes], signatures: Iterable[bytes]) -> bool:
    """Tell whether one is there, in a time that does not tell how much of it is right."""
    found = False
    for signature in signatures:
        for each in expected:
            found |= hmac.compare_digest(each, signature)
    return found


def _check_age(age: float, tolerance: float) -> None:
    if age > tolerance:
        raise TooOld(f"{TIMESTAMP}: it was signed {age:.0f} s ago; {tolerance:.0f} s are allowed")
    if -age > tolerance:
        raise TooNew(
            f"{TIMESTAMP}: it was signed {-age:.0f} s in the future; {tolerance:.0f} s are allowed"
        )


def _base64(key: bytes, content: bytes) -> bytes:
    return base64.b64encode(hmac.digest(key, content, "sha256"))


def _bytes(text: Text) -> bytes:
    if isinstance(text, str):
        try:
            return text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise NoMatchingSignature("there is half a character, which is never signed") from None
    return bytes(memoryview(text))  # TypeError for what was decoded already


def _text(value: Text) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
