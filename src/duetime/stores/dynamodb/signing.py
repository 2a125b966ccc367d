"""The signature of a request: AWS's version 4, as far as DynamoDB needs it."""

import hashlib
import hmac
from datetime import datetime
from typing import NamedTuple

_SERVICE = "dynamodb"
_ALGORITHM = "AWS4-HMAC-SHA256"
CONTENT_TYPE = "application/x-amz-json-1.0"


class Credentials(NamedTuple):
    """Who asks. Never shown, not even in part."""

    access_key: str
    secret_key: str
    token: str | None = None  # of a role

    def __repr__(self) -> str:
        return "Credentials(...)"


class Signer:
    """Signs requests to one host in one region."""

    def __init__(self, host: str, region: str) -> None:
        self._host = host
        self._region = region
        self._key = b""
        self._key_for: tuple[str, str] | None = None  # the day and the secret that it is made of

    def headers(
        self, credentials: Credentials, target: str, body: bytes, now: datetime
    ) -> dict[str, str]:
        """The headers of a request with this body, the signature among them."""
        at = now.strftime("%Y%m%dT%H%M%SZ")
        fields = {
            "content-type": CONTENT_TYPE,
            "host": self._host,
            "x-amz-date": at,
            "x-amz-target": target,
        }
        if credentials.token is not None:
            fields["x-amz-security-token"] = credentials.token
        signed = sorted(fields)
        names = ";".join(signed)
        canonical = "\n".join(
            (
                "POST",
                "/",
                "",
                *(f"{name}:{fields[name]}" for name in signed),
                "",
                names,
                hashlib.sha256(body).hexdigest(),
            )
        )
        scope = f"{at[:8]}/{self._region}/{_SERVICE}/aws4_request"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        to_sign = f"{_ALGORITHM}\n{at}\n{scope}\n{digest}"
        key = self._signing_key(at[:8], credentials.secret_key)
        fields["authorization"] = (
            f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, "
            f"SignedHeaders={names}, Signature={_mac(key, to_sign).hex()}"
        )
        return fields

    def _signing_key(self, day: str, secret: str) -> bytes:
        """The same for all requests of a day."""
        if self._key_for != (day, secret):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, _SERVICE, "aws4_request"):
                key = _mac(key, part)
            self._key, self._key_for = key, (day, secret)
        return self._key


def _mac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
