"""Authentication: a request needs the API key."""

import hmac
from hashlib import sha256

from duetime.errors import Unauthorized
from duetime.model import DEFAULT_TENANT


class ApiKey:
    """The key that is valid, kept as a digest."""

    def __init__(self, api_key: str) -> None:
        self._digest = sha256(api_key.encode()).digest()

    def tenant_of(self, presented: bytes | None) -> str:
        """Whose key this is; Unauthorized if nobody's.

        Digests of equal length are compared in constant time, so that the time an answer takes
        tells nothing of the key, not even its length.
        """
        digest = sha256(presented or b"").digest()
        if not hmac.compare_digest(digest, self._digest):
            raise Unauthorized("unauthorized")
        return DEFAULT_TENANT
