"""What users send about credentials: types like those of ``duetime.requests``."""

from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from duetime.delivery.grant import Style
from duetime.requests import GROUP_NAME, LONGEST_CREDENTIAL, PRINTABLE, Body, GroupName, Text
from duetime.tenancy.credential import Type
from duetime.tenancy.requests import MOST_GROUPS_OF_A_KEY

MOST_HOSTS = 32
LONGEST_HOST = 255
LONGEST_SECRET = 8 * 1024
LONGEST_KEY = 8 * 1024
LONGEST_CHAIN = 16 * 1024
LONGEST_AUTHORITIES = 32 * 1024

CredentialName: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_CREDENTIAL,
        pattern=GROUP_NAME,
        description="Letters, digits, `_` and `-`.",
        examples=["bank"],
    ),
]
_Hosts: TypeAlias = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=LONGEST_HOST)]],
    Meta(
        min_length=1,
        max_length=MOST_HOSTS,
        description="The only hosts that it is sent to, without ports: `api.example.com`, or "
        "`*.example.com` for all below that domain.",
        examples=[["api.bank.example"]],
    ),
]
_Groups: TypeAlias = Annotated[
    list[GroupName],
    Meta(
        min_length=1,
        max_length=MOST_GROUPS_OF_A_KEY,
        description="The only groups whose timers may use it; null: all.",
    ),
]
_Secret: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_SECRET)]
_Printable: TypeAlias = Annotated[str, Meta(min_length=1, max_length=2048, pattern=PRINTABLE)]


class PutCredential(Body):
    """What a credential shall be; what is not named stays as it is.

    Its secret must be given anew where it shall go further than before: to other hosts or another
    `token_url`, or without TLS. Of each type there is one: `token` of `bearer`, `password` of
    `basic`, `value` of `header`, `private_key` of `mtls`, `client_secret` of `oauth2`. It is never
    shown again.
    """

    type: Annotated[Type, Meta(description="Required when it is created; then for ever.")] | (
        UnsetType
    ) = UNSET
    hosts: _Hosts | UnsetType = UNSET
    allow_http: Annotated[bool, Meta(description="Send it also without TLS.")] | UnsetType = UNSET
    groups: _Groups | UnsetType | None = UNSET
    token: _Secret | UnsetType = UNSET
    username: Annotated[Text, Meta(description="Without a colon.")] | UnsetType = UNSET
    password: _Secret | UnsetType = UNSET
    header: (
        Annotated[Text, Meta(description="The header's name.", examples=["X-Api-Key"])] | UnsetType
    ) = UNSET
    value: Annotated[_Secret, Meta(description="The header's value.")] | UnsetType = UNSET
    certificate: (
        Annotated[
            str,
            Meta(
                max_length=LONGEST_CHAIN,
                description="The client certificate in PEM, and behind it those that lead from it "
                "to an authority.",
            ),
        ]
        | UnsetType
    ) = UNSET
    private_key: (
        Annotated[
            str,
            Meta(max_length=LONGEST_KEY, description="The certificate's, in PEM."),
        ]
        | UnsetType
    ) = UNSET
    authorities: (
        Annotated[
            str,
            Meta(
                max_length=LONGEST_AUTHORITIES,
                description="Certificates in PEM of those who may vouch for the receiver, in the "
                "place of those that the service trusts.",
            ),
        ]
        | UnsetType
        | None
    ) = UNSET
    token_url: (
        Annotated[
            str,
            Meta(
                max_length=2048,
                description="Where tokens are to be had.",
                examples=["https://login.bank.example/token"],
            ),
        ]
        | UnsetType
    ) = UNSET
    client_id: _Printable | UnsetType = UNSET
    client_secret: _Secret | UnsetType = UNSET
    scope: _Printable | UnsetType | None = UNSET
    audience: _Printable | UnsetType | None = UNSET
    auth_style: (
        Annotated[
            Style,
            Meta(
                description="How the client says who it is: with basic authentication, as unless "
                "it is set, or in the body of its request."
            ),
        ]
        | UnsetType
        | None
    ) = UNSET

    def __repr__(self) -> str:
        """Show no secret, wherever this is printed."""
        return f"{type(self).__name__}(...)"


class CreateCredential(PutCredential, kw_only=True):
    """A credential to create."""

    name: CredentialName
