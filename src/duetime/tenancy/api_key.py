"""An API key: made once, shown once, and kept as a hash.

The text of a key is ``dt_<id>_<secret>``. The part before the secret is safe to show, and is how
the key is found; of the whole only the SHA-256 is stored. That is enough for a secret of 256 random
bits, which nobody can try out, and costs a request a microsecond.
"""

import hmac
import re
import secrets
from hashlib import sha256

import msgspec
from msgspec import UNSET, UnsetType

from duetime.clock import Millis
from duetime.tenancy.role import Role

KIND = "key"
_MARK = "dt"
_ID_BYTES = 8
_SECRET_BYTES = 32
_SECRET = re.compile(rf"(?<={_MARK}_[0-9a-f]{{{2 * _ID_BYTES}}}_)[\w-]+")


class ApiKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key, as it is stored: all but the key itself."""

    id: str
    tenant: str
    name: str
    role: Role
    groups: frozenset[str] | None = None  # None: all
    digest: str  # SHA-256 of its text, in hex
    created_at: Millis
    created_by: str
    expires_at: Millis | None = None
    revoked_at: Millis | None = None  # it is about to be removed
    # Its end before a rotation brought it forward; unset: none did.
    end_before_rotation: Millis | UnsetType | None = UNSET

    @property
    def prefix(self) -> str:
        """How the text of the key begins: safe to show."""
        return f"{_MARK}_{self.id}"

    @property
    def end_without_rotation(self) -> Millis | None:
        """When it would end if it had not been rotated: so does the key that takes its place."""
        before = self.end_before_rotation
        return self.expires_at if before is UNSET else before

    def is_valid(self, now: Millis) -> bool:
        """Tell whether it opens anything now."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def opens_with(self, digest: str) -> bool:
        """Tell whether this is its digest, in a time that tells nothing of it."""
        return hmac.compare_digest(self.digest, digest)


def new_id() -> str:
    """An id for a key."""
    return secrets.token_hex(_ID_BYTES)


def new_text(id_: str) -> str:
    """The text of a new key: whoever made it must keep it, for nobody else does."""
    return f"{_MARK}_{id_}_{secrets.token_urlsafe(_SECRET_BYTES)}"


def digest_of(text: bytes) -> str:
    """What is stored of a key's text."""
    return sha256(text).hexdigest()


def hidden(text: str) -> str:
    """A text without the secrets of the keys in it."""
    return _SECRET.sub("***", text) if f"{_MARK}_" in text else text


def id_in(text: bytes) -> str | None:
    """The id of the key that a text could be, if it looks like one of ours at all."""
    mark, _, rest = text.partition(b"_")
    id_, _, secret = rest.partition(b"_")
    if mark != _MARK.encode() or len(id_) != 2 * _ID_BYTES or not secret or not id_.isascii():
        return None
    return id_.decode()
