"""Signing: what lets a receiver know that a callback came from here, as Standard Webhooks says.

The signature covers the id, the time and the exact bytes of the body. While secrets rotate there
is one signature per active secret, so a receiver that knows either of them accepts the request.

The plainer one covers the body alone: it is easier to check, and does not tell a request from the
same one sent again by somebody who saw it.
"""

import binascii
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import Raw

from duetime.errors import ConfigurationError
from duetime.webhooks import decode_secret

if TYPE_CHECKING:
    from hashlib import _Hash

VARIABLE = "SIGNING_SECRETS"

_SMALL = 2048  # bytes of a body that is sooner copied than hashed apart from its head
_BLOCK = 64  # bytes that SHA-256 takes at a time
_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


def parse_secret(text: str) -> bytes:
    """Read a secret such as "whsec_MfKQ9r8G..."; the error never shows it."""
    try:
        return decode_secret(text)
    except ValueError as error:
        raise ConfigurationError(f"{VARIABLE}: each secret {error}") from None


def sign(secret: bytes, webhook_id: str, timestamp: int, body: bytes | Raw) -> str:
    """Sign one request: the value of its ``webhook-signature`` header for this secret."""
    mac = _mac(secret, f"{webhook_id}.{timestamp}.".encode(), body)
    return "v1," + binascii.b2a_base64(mac, newline=False).decode()


def signatures(secrets: Sequence[bytes], webhook_id: str, timestamp: int, body: bytes | Raw) -> str:
    """The whole header while several secrets are active."""
    if len(secrets) == 1:
        return sign(secrets[0], webhook_id, timestamp, body)
    return " ".join([sign(secret, webhook_id, timestamp, body) for secret in secrets])


def body_signatures(secrets: Sequence[bytes], body: bytes | Raw) -> str:
    """The value of the ``X-Timer-Signature`` header, in the order of the secrets."""
    return ",".join([_sign_body(secret, body) for secret in secrets])


def _sign_body(secret: bytes, body: bytes | Raw) -> str:
    return _mac(secret, b"", body).hex()


def _mac(secret: bytes, head: bytes, body: bytes | Raw) -> bytes:
    """The HMAC-SHA256 of a head and a body: what RFC 2104 makes of two hashes.

    Every callback comes through here. hmac.digest does it all in one call, but it lets go of the
    interpreter even for a few bytes, and a busy thread is quick to take it: beside one, that costs
    20 us more. A copy of an hmac.HMAC takes half as long again as those of the two hashes.
    """
    begin, end = _keyed(secret)
    inner, outer = begin(), end()
    if len(body) < _SMALL:
        inner.update(b"".join((head, memoryview(body))))
    else:
        inner.update(head)
        inner.update(memoryview(body))
    outer.update(inner.digest())
    return outer.digest()


@lru_cache(maxsize=1024)
def _keyed(secret: bytes) -> tuple[Callable[[], "_Hash"], Callable[[], "_Hash"]]:
    """The part of the work that depends on the secret alone: both hashes, begun, to be copied."""
    key = secret if len(secret) <= _BLOCK else sha256(secret).digest()
    key = key.ljust(_BLOCK, b"\0")
    return sha256(key.translate(_INNER)).copy, sha256(key.translate(_OUTER)).copy
