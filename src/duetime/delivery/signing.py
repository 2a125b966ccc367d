"""Signing: what lets a receiver know that a callback came from here, as Standard Webhooks says.

The signature covers the id, the time and the exact bytes of the body. While secrets rotate there
is one signature per active secret, so a receiver that knows either of them accepts the request.

The plainer one covers the body alone: it is easier to check, and does not tell a request from the
same one sent again by somebody who saw it.
"""

import binascii
import hmac
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Raw

from duetime.errors import ConfigurationError
from duetime.webhooks import decode_secret

VARIABLE = "SIGNING_SECRETS"


def parse_secret(text: str) -> bytes:
    """Read a secret such as "whsec_MfKQ9r8G..."; the error never shows it."""
    try:
        return decode_secret(text)
    except ValueError as error:
        raise ConfigurationError(f"{VARIABLE}: each secret {error}") from None


def sign(secret: bytes, webhook_id: str, timestamp: int, body: bytes | Raw) -> str:
    """Sign one request: the value of its ``webhook-signature`` header for this secret."""
    signature = _keyed(secret).copy()
    signature.update(f"{webhook_id}.{timestamp}.".encode())
    signature.update(memoryview(body))
    return "v1," + binascii.b2a_base64(signature.digest(), newline=False).decode()


def signatures(secrets: Sequence[bytes], webhook_id: str, timestamp: int, body: bytes | Raw) -> str:
    """The whole header while several secrets are active."""
    return " ".join([sign(secret, webhook_id, timestamp, body) for secret in secrets])


def body_signatures(secrets: Sequence[bytes], body: bytes | Raw) -> str:
    """The value of the ``X-Timer-Signature`` header, in the order of the secrets."""
    return ",".join([_sign_body(secret, body) for secret in secrets])


def _sign_body(secret: bytes, body: bytes | Raw) -> str:
    signature = _keyed(secret).copy()
    signature.update(memoryview(body))
    return signature.hexdigest()


@lru_cache(maxsize=1024)
def _keyed(secret: bytes) -> hmac.HMAC:
    """The part of the work that depends on the secret alone.

    hmac.digest does it all in one call, but it lets go of the interpreter even for a few bytes,
    and a busy thread is quick to take it: beside one, that costs 20 us more.
    """
    return hmac.new(secret, digestmod="sha256")
