"""Signing secrets, as typed dictionaries: the service's own JSON."""

from typing import Required, TypedDict


class NewSigningSecret(TypedDict, total=False):
    """A signing secret to create; at most one of ``expires_at`` and ``expires_in``."""

    group: str | None
    secret: str | None
    expires_at: str | None
    expires_in: str | None


class SigningSecret(TypedDict, total=False):
    """A signing secret as the service tells of it, without the secret itself."""

    id: Required[str]
    group: str | None
    fingerprint: str
    is_active: bool
    created_at: str
    created_by: str
    expires_at: str | None


class MadeSigningSecret(SigningSecret, total=False):
    """A signing secret that was just made, with the secret itself, if it was not brought."""

    secret: str | None


class SigningSecrets(TypedDict, total=False):
    """Signing secrets, newest first."""

    signing_secrets: Required[list[SigningSecret]]


class Unreadable(TypedDict, total=False):
    """Something that no key of the service opens."""

    kind: str
    tenant: str
    id: str


class Resealed(TypedDict, total=False):
    """What is sealed with the newest key now."""

    kept: int
    resealed: int
    unreadable: Required[list[Unreadable]]
