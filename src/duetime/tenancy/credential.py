"""A credential: with which callbacks authenticate at receivers, so that no timer holds a secret.

All of it is stored as it is but for its secret, of which each type has one: that is sealed, and
bound to all the rest. Whoever can write to the database cannot have it sent elsewhere.
"""

from hashlib import sha256
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from duetime.clock import Millis

KIND = "credential"

Type: TypeAlias = Literal["bearer", "basic", "header", "mtls", "oauth2"]


class Parts(NamedTuple):
    """What a credential of one type consists of."""

    secret: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


PARTS: dict[Type, Parts] = {
    "bearer": Parts("token"),
    "basic": Parts("password", ("username",)),
    "header": Parts("value", ("header",)),
    "mtls": Parts("private_key", ("certificate",), ("authorities",)),
    "oauth2": Parts(
        "client_secret", ("token_url", "client_id"), ("scope", "audience", "auth_style")
    ),
}


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """What a certificate says of itself."""

    subject: str
    issuer: str
    not_after: Millis
    fingerprint: str  # SHA-256, in hex


class Credential(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A credential, as it is stored."""

    tenant: str
    name: str
    type: Type
    hosts: tuple[str, ...]  # the only ones that it is sent to
    allow_http: bool = False  # also without TLS
    groups: frozenset[str] | None = None  # whose timers may use it; None: all
    parts: dict[str, str] = {}  # by the names of their fields
    about: Certificate | None = None  # its client certificate, if it is one
    sealed: str = ""
    created_at: Millis
    created_by: str
    updated_at: Millis

    @property
    def purpose(self) -> str:
        """What its secret is sealed for: as soon as anything else is changed, it does not open."""
        groups = None if self.groups is None else sorted(self.groups)
        bound = (self.type, self.hosts, self.allow_http, groups, self.parts)
        digest = sha256(msgspec.json.encode(bound, order="sorted")).hexdigest()
        return f"credential/{self.tenant}/{self.name}/{PARTS[self.type].secret}/{digest}"

    @property
    def header(self) -> str | None:
        """The header that it sets, in lower case; None: none."""
        if self.type == "mtls":
            return None
        return self.parts["header"].lower() if self.type == "header" else "authorization"

    def is_for(self, group: str) -> bool:
        """Tell whether timers of this group may use it."""
        return self.groups is None or group in self.groups


def name_of(tenant: str, credential: str) -> str:
    """What the record of a credential is called; neither name can have a slash."""
    return f"{tenant}/{credential}"
