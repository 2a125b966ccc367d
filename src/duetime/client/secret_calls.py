"""The calls about signing secrets, as values."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from duetime.client.calls import Call
from duetime.client.secret_types import (
    MadeSigningSecret,
    NewSigningSecret,
    Resealed,
    SigningSecrets,
)
from duetime.client.tenancy_types import Revoked

_PATH = "/signing-secrets"


def create_signing_secret(secret: NewSigningSecret) -> Call[MadeSigningSecret]:
    return Call("POST", _PATH, secret, needs=_needs(secret.get("secret")))


def signing_secrets(group: str | None) -> Call[SigningSecrets]:
    query: Mapping[str, Any] = {} if group is None else {"group": group}
    return Call("GET", _PATH, query=query, needs="signing_secrets", needs_type=list)


def rotate_signing_secret(
    id_: str, valid_for: str | None, secret: str | None
) -> Call[MadeSigningSecret]:
    given = {"valid_for": valid_for, "secret": secret}
    body = {name: value for name, value in given.items() if value is not None}
    return Call("POST", f"{_secret(id_)}/rotate", body, needs=_needs(secret))


def revoke_signing_secret(id_: str) -> Call[Revoked]:
    return Call("DELETE", _secret(id_))


def reseal_secrets() -> Call[Resealed]:
    return Call("POST", "/secrets/reseal", needs="unreadable", needs_type=list)


def _needs(brought: str | None) -> str:
    """Without which field an answer is of no use: that of a secret which nobody knows yet."""
    return "secret" if brought is None else "id"


def _secret(id_: str) -> str:
    return f"{_PATH}/{quote(id_, safe='')}"
