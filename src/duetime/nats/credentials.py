"""Credentials: who we are to a NATS server, by a password, a token, an nkey or a credentials file.

Files are read whenever a connection is made, so that a renewed one is used without a restart.
"""

import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from duetime.errors import ConfigurationError
from duetime.nats.servers import Server

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PART = re.compile(r"-{3,}BEGIN ([A-Z ]+?)-{3,}\s+(\S+)\s+-{3,}END [A-Z ]+?-{3,}")
_SEED = 18 << 3  # what the first five bits of every seed say
_USER = 20 << 3  # and those of a user's public key
_SEED_BYTES = 32


class Credentials(NamedTuple):
    """What there is to show, besides what a server's URL says."""

    token: str = ""
    nkey_seed: str = ""  # a file
    creds: str = ""  # a file

    def shown_to(self, server: Server, nonce: str) -> dict[str, str]:
        """The fields of CONNECT. ConfigurationError if there is a file that cannot be used."""
        fields: dict[str, str] = {}
        if server.user:
            fields |= {"user": server.user, "pass": server.password}
        elif token := server.token or self.token:
            fields["auth_token"] = token
        if self.creds:
            jwt, seed = _read_creds(self.creds)
            _check_seed(seed, f"NATS_CREDS: {self.creds}")
            fields |= {"jwt": jwt, "sig": signed(seed, nonce)}
        elif self.nkey_seed:
            seed = _read(self.nkey_seed, "NATS_NKEY_SEED").strip()
            _check_seed(seed, f"NATS_NKEY_SEED: {self.nkey_seed}")
            fields |= {"nkey": public_key(seed), "sig": signed(seed, nonce)}
        return fields

    def check(self) -> None:
        """Raise ConfigurationError if a file cannot be used."""
        self.shown_to(Server("nowhere"), "nonce")


def signed(seed: str, nonce: str) -> str:
    """A server's nonce, signed with the key that grows from this seed."""
    signature = _private_key(seed).sign(nonce.encode())
    return base64.urlsafe_b64encode(signature).rstrip(b"=").decode()


def public_key(seed: str) -> str:
    """The nkey of a user, by which servers know it."""
    key = bytes([_USER]) + _private_key(seed).public_key().public_bytes_raw()
    return base64.b32encode(key + _checksum(key).to_bytes(2, "little")).rstrip(b"=").decode()


def _check_seed(seed: str, where: str) -> None:
    try:
        _raw(seed)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _private_key(seed: str) -> "Ed25519PrivateKey":
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
    except ImportError:
        raise ConfigurationError(
            "NATS_NKEY_SEED and NATS_CREDS need a package that is not installed: "
            "pip install 'duetime[nats]'"
        ) from None
    return ed25519.Ed25519PrivateKey.from_private_bytes(_raw(seed))


def _raw(seed: str) -> bytes:
    """The 32 bytes that a seed is made of; ValueError if it is not whole, or not a user's."""
    try:
        data = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except ValueError:
        data = b""
    content, checksum = data[:-2], data[-2:]
    if (
        len(content) != 2 + _SEED_BYTES
        or _checksum(content).to_bytes(2, "little") != checksum
        or content[0] & 0xF8 != _SEED
        or ((content[0] & 0x07) << 5 | content[1] >> 3) != _USER
    ):
        raise ValueError("the seed of the nkey must be that of a user: SU...")
    return content[2:]


def _checksum(data: bytes) -> int:
    """CRC-16 as XMODEM has it."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def _read_creds(file: str) -> tuple[str, str]:
    parts = dict(_PART.findall(_read(file, "NATS_CREDS")))
    try:
        return parts["NATS USER JWT"], parts["USER NKEY SEED"]
    except KeyError:
        raise ConfigurationError(
            f"NATS_CREDS: {file} has no user's JWT or no seed of an nkey in it"
        ) from None


def _read(file: str, setting: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigurationError(f"{setting}: {file} cannot be read: {reason}") from None
