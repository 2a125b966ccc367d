"""A signing secret: what callbacks of a group, or of all groups of a tenant, are signed with.

It is shown once, when it is made. What is stored is sealed by the vault for this very secret: it
opens for no other tenant, group or id. Of a secret only its fingerprint is shown again, by which
those who have several can tell them apart.
"""

import re
import secrets
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from duetime.clock import Millis
from duetime.tenancy.group import Group, name_of
from duetime.timer import DEFAULT_GROUP
from duetime.vault import Vault
from duetime.webhooks import PREFIX, encode_secret

KIND = "signing secret"
_ID_BYTES = 8
_KEY_BYTES = 32
_FINGERPRINT = 8  # hex digits
_SECRET = re.compile(rf"(?<={PREFIX})[\w+/=-]+")

Owner: TypeAlias = tuple[str, str | None]  # a tenant, and one of its groups or all of them


class SigningSecret(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A secret, as it is stored."""

    id: str
    tenant: str
    group: str | None = None  # None: all that have none of their own
    # When its group was made: another one of the same name does not inherit it. The default group
    # is always the same.
    group_since: Millis | None = None
    sealed: str
    fingerprint: str
    created_at: Millis
    created_by: str
    expires_at: Millis | None = None
    revoked_at: Millis | None = None  # it is about to be removed
    # Its end before a rotation brought it forward; unset: none did.
    end_before_rotation: Millis | UnsetType | None = UNSET

    @property
    def owner(self) -> Owner:
        return self.tenant, self.group

    @property
    def purpose(self) -> str:
        """What it is sealed for; no name has a slash."""
        return f"{KIND}/{self.tenant}/{self.group or ''}/{self.id}"

    @property
    def end_without_rotation(self) -> Millis | None:
        """When it would end if it had not been rotated: so does the one that takes its place."""
        before = self.end_before_rotation
        return self.expires_at if before is UNSET else before

    def is_active(self, now: Millis) -> bool:
        """Tell whether callbacks are signed with it now."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def sealed_by(self, vault: Vault, key: bytes) -> "SigningSecret":
        """The same with this key in it."""
        return msgspec.structs.replace(
            self, sealed=vault.seal(key, self.purpose), fingerprint=fingerprint_of(key)
        )


def new_id() -> str:
    """An id for a secret."""
    return secrets.token_hex(_ID_BYTES)


def new_key() -> bytes:
    """What nobody can guess."""
    return secrets.token_bytes(_KEY_BYTES)


def fingerprint_of(key: bytes) -> str:
    """How the SHA-256 of a secret's text begins: enough to tell secrets apart, and no more."""
    return sha256(encode_secret(key).encode()).hexdigest()[:_FINGERPRINT]


def hidden(text: str) -> str:
    """A text without the secrets in it."""
    return _SECRET.sub("***", text) if PREFIX in text else text


def group_since(group: Group) -> Millis | None:
    """How a secret knows its group again, though others may get its name."""
    return None if group.name == DEFAULT_GROUP else group.created_at


def by_owner(
    secrets: Iterable[SigningSecret], groups: Mapping[str, Group]
) -> dict[Owner, tuple[SigningSecret, ...]]:
    """Whose they are, the newest first; without those whose group is gone.

    ``groups`` are those that are there, by the names of their records.
    """
    sorted_: dict[Owner, list[SigningSecret]] = {}
    for secret in secrets:
        if _has_group(secret, groups):
            sorted_.setdefault(secret.owner, []).append(secret)
    return {
        owner: tuple(sorted(each, key=lambda secret: (-secret.created_at, secret.id)))
        for owner, each in sorted_.items()
    }


def _has_group(secret: SigningSecret, groups: Mapping[str, Group]) -> bool:
    if secret.group is None or secret.group == DEFAULT_GROUP:
        return True
    group = groups.get(name_of(secret.tenant, secret.group))
    return group is not None and group.created_at == secret.group_since
