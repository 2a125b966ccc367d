"""Keys and tokens with which tests make an operator, an account and a user of NATS."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duetime.nats.credentials import _checksum

OPERATOR, ACCOUNT, USER = 14 << 3, 0, 20 << 3
_SEED = 18 << 3


class Nkey(NamedTuple):
    """A key of some kind."""

    kind: int
    key: Ed25519PrivateKey

    @property
    def public(self) -> str:
        return _text(bytes([self.kind]) + self.key.public_key().public_bytes_raw())

    @property
    def seed(self) -> str:
        first = _SEED | self.kind >> 5
        second = (self.kind & 31) << 3
        return _text(bytes([first, second]) + self.key.private_bytes_raw())

    def vouch_for(self, other: "Nkey", name: str, **claims: Any) -> str:
        """A JWT in which this key says something of another."""
        head = _part({"typ": "JWT", "alg": "ed25519-nkey"})
        body: dict[str, Any] = {
            "iss": self.public,
            "sub": other.public,
            "name": name,
            "iat": 1_700_000_000,
            "nats": {"version": 2, **claims},
        }
        body["jti"] = base64.b32encode(hashlib.sha256(json.dumps(body).encode()).digest()).decode()
        signed = f"{head}.{_part(body)}"
        return f"{signed}.{_base64(self.key.sign(signed.encode()))}"


def new(kind: int) -> Nkey:
    """A key that nobody has."""
    return Nkey(kind, Ed25519PrivateKey.generate())


class House(NamedTuple):
    """What a server must be configured with, and the user that it then knows."""

    configuration: str
    jwt: str
    user: Nkey

    def creds(self, folder: Path) -> str:
        """A credentials file, as NATS's own tools write it."""
        place = folder / "user.creds"
        place.write_text(
            f"-----BEGIN NATS USER JWT-----\n{self.jwt}\n------END NATS USER JWT------\n\n"
            "************************* IMPORTANT *************************\n"
            "NKEY Seed printed below can be used to sign and prove identity.\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{self.user.seed}\n------END USER NKEY SEED------\n"
        )
        return str(place)


def house() -> House:
    """An operator with one account, and a user of it."""
    operator, account, user = new(OPERATOR), new(ACCOUNT), new(USER)
    of_operator = operator.vouch_for(operator, "operator", type="operator")
    of_account = operator.vouch_for(
        account,
        "account",
        type="account",
        limits={"subs": -1, "data": -1, "payload": -1, "conn": -1, "leaf": -1}
        | {"imports": -1, "exports": -1, "wildcards": True},
    )
    of_user = account.vouch_for(
        user, "user", type="user", subs=-1, data=-1, payload=-1, pub={}, sub={}
    )
    configuration = (
        f"operator: {of_operator}\nresolver: MEMORY\n"
        f"resolver_preload: {{ {account.public}: {of_account} }}"
    )
    return House(configuration, of_user, user)


def _text(data: bytes) -> str:
    return base64.b32encode(data + _checksum(data).to_bytes(2, "little")).rstrip(b"=").decode()


def _part(content: dict[str, Any]) -> str:
    return _base64(json.dumps(content, separators=(",", ":")).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
