"""The vault: secrets that are kept for users, readable only with a key that is not in the store.

Each is sealed by AES-256-GCM under a key from ``SECRETS_KEY``, with random bytes of its own, and
bound to its purpose: what was sealed as one thing cannot be passed off as another by whoever can
write to the database. The first key seals, every one of them opens, so that keys can rotate.
"""

import base64
import binascii
import os
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from duetime.errors import ConfigurationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

VARIABLE = "SECRETS_KEY"
KEY_BYTES = 32

_VERSION = "v1"
_NONCE = 12  # bytes, as the standard has it
_NAME = 8  # hex digits that tell a key from the others
_MAKE_ONE = f"make one with: openssl rand -base64 {KEY_BYTES}"


class CannotOpen(Exception):
    """What was sealed cannot be read here; the text says why, and nothing of what it is."""


def parse_key(text: str) -> bytes:
    """Read a key such as openssl makes it; the error never shows it."""
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigurationError(
            f"{VARIABLE}: each key must be the base64 of {KEY_BYTES} random bytes; {_MAKE_ONE}"
        )
    return key


class Vault:
    """Seals secrets and opens them. Without a key it does neither, and says so."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._ciphers = {_name_of(key): _cipher(key) for key in keys}
        self._newest = _name_of(keys[0]) if keys else None

    @property
    def problem(self) -> str | None:
        """Why nothing can be kept here, in words for whoever asked; None: it can."""
        if self._newest is None:
            return f"the service has no {VARIABLE} to keep secrets with; {_MAKE_ONE}"
        return None

    def seal(self, content: bytes, purpose: str) -> str:
        """Seal a content, to be opened for the same purpose only."""
        if self._newest is None:
            raise ConfigurationError(f"{VARIABLE}: not set; {_MAKE_ONE}")
        nonce = os.urandom(_NONCE)
        hidden = self._ciphers[self._newest].encrypt(nonce, content, purpose.encode())
        return f"{_VERSION}.{self._newest}.{base64.b64encode(nonce + hidden).decode()}"

    def open(self, sealed: str, purpose: str) -> bytes:
        """What was sealed; CannotOpen if its key is not here, or it is not what was sealed."""
        version, _, rest = sealed.partition(".")
        name, _, encoded = rest.partition(".")
        cipher = self._ciphers.get(name) if version == _VERSION else None
        if cipher is None:
            raise CannotOpen(f"it was sealed with a key that is not in {VARIABLE}")
        # Only here: whoever has no key need not have the library.
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415

        try:
            written = base64.b64decode(encoded, validate=True)
            return cipher.decrypt(written[:_NONCE], written[_NONCE:], purpose.encode())
        except (InvalidTag, ValueError):
            raise CannotOpen("it was altered, or moved from another place") from None

    def is_newest(self, sealed: str) -> bool:
        """Tell whether something is sealed with the key that seals now."""
        return sealed.startswith(f"{_VERSION}.{self._newest}.")


def _name_of(key: bytes) -> str:
    return sha256(b"duetime vault" + key).hexdigest()[:_NAME]


def _cipher(key: bytes) -> "AESGCM":
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
    except ImportError:
        raise ConfigurationError(
            f"{VARIABLE}: needs a package that is not installed: pip install 'duetime[secrets]'"
        ) from None
    return AESGCM(key)
