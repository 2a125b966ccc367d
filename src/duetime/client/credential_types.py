"""Credentials, as typed dictionaries: the service's own JSON."""

from typing import Literal, Required, TypedDict

CredentialType = Literal["bearer", "basic", "header", "mtls", "oauth2"]


class CredentialChange(TypedDict, total=False):
    """What a credential shall be; what is left out stays as it is."""

    type: CredentialType
    hosts: list[str]
    allow_http: bool
    groups: list[str] | None
    token: str
    username: str
    password: str
    header: str
    value: str
    certificate: str
    private_key: str
    authorities: str | None
    token_url: str
    client_id: str
    client_secret: str
    scope: str | None
    audience: str | None
    auth_style: Literal["basic", "body"] | None


class NewCredential(CredentialChange, total=False):
    """A credential to create."""

    name: Required[str]


class CertificateInfo(TypedDict, total=False):
    """What a client certificate says of itself."""

    subject: str
    issuer: str
    not_after: str
    fingerprint: str


class Credential(TypedDict, total=False):
    """A credential as the service tells of it, without its secret."""

    name: Required[str]
    type: CredentialType
    hosts: list[str]
    allow_http: bool
    groups: list[str] | None
    username: str | None
    header: str | None
    certificate: str | None
    authorities: str | None
    certificate_info: CertificateInfo | None
    token_url: str | None
    client_id: str | None
    scope: str | None
    audience: str | None
    auth_style: str | None
    created_at: str
    created_by: str
    updated_at: str


class Credentials(TypedDict, total=False):
    """The credentials, by name."""

    credentials: Required[list[Credential]]
