"""What users send about tenants, keys, secrets, groups; types like those of ``requests.py``."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from duetime.ids import SHARDS
from duetime.requests import (
    GROUP_NAME,
    LONGEST_CREDENTIAL,
    Body,
    Duration,
    GroupName,
    Headers,
    OnFailureBody,
    RetryPolicyBody,
    Text,
    Time,
)
from duetime.tenancy.group import OnResume
from duetime.timer import Signature

LONGEST_TENANT = 64
MOST_RESPONSE_BYTES = 16 * 1024
MOST_RESPONSE_HEADERS = 16
LONGEST_RESPONSE_HEADER = 64
MOST_GROUPS_OF_A_KEY = 64
LONGEST_TARGET = 300
TARGET_NAME = r"^[^\s\x00-\x1f\x7f/?#@\\%]+$"  # what is a host is for the sender to say
SLOWEST_PACE = 0.001  # timers per second: one in a quarter of an hour

TenantName: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_TENANT,
        pattern=GROUP_NAME,
        description="Letters, digits, `_` and `-`.",
        examples=["acme"],
    ),
]


class QuotasBody(Body):
    """The most of each; null: no limit. What is left out stays as it is, or is null if new."""

    creates_per_second: (
        Annotated[float, Meta(ge=SLOWEST_PACE, le=1e9, description="Timers created per second.")]
        | UnsetType
        | None
    ) = UNSET
    pending: (
        Annotated[
            int,
            Meta(ge=0, le=2**53, description="Timers that wait, are paused, or are delivered now."),
        ]
        | UnsetType
        | None
    ) = UNSET
    payload_bytes: (
        Annotated[int, Meta(ge=0, le=2**53, description="Bytes of one timer's payload.")]
        | UnsetType
        | None
    ) = UNSET
    batch_size: (
        Annotated[int, Meta(ge=1, le=10_000, description="Timers in one request.")]
        | UnsetType
        | None
    ) = UNSET


class LimitsBody(Body):
    """The most callbacks, in the whole cluster; null: no limit. What is left out stays."""

    concurrency: (
        Annotated[int, Meta(ge=1, le=1_000_000, description="Callbacks under way at once.")]
        | UnsetType
        | None
    ) = UNSET
    per_second: (
        Annotated[float, Meta(ge=SLOWEST_PACE, le=1e9, description="Callbacks begun per second.")]
        | UnsetType
        | None
    ) = UNSET
    burst: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=1_000_000,
                description="Callbacks begun at once after a rest; null: as many as in a second.",
            ),
        ]
        | UnsetType
        | None
    ) = UNSET


class PutTarget(Body):
    """What a target shall be; what is not named stays as it is."""

    limits: LimitsBody | UnsetType | None = UNSET


class PauseTarget(Body):
    """For how long a target is paused: until a time, for a while, or until it is resumed."""

    until: Time | None = None
    for_: Duration | None = msgspec.field(default=None, name="for")
    reason: Annotated[Text, Meta(description="For people: why.")] | None = None


class CreateTenant(Body):
    """A tenant to create."""

    name: TenantName
    title: Text | None = None
    quotas: QuotasBody | None = None
    limits: LimitsBody | None = None


class UpdateTenant(Body):
    """What to change of a tenant; what is not named stays as it is."""

    title: Text | UnsetType | None = UNSET
    quotas: QuotasBody | UnsetType | None = UNSET
    limits: LimitsBody | UnsetType | None = UNSET


KeyRole: TypeAlias = Literal["admin", "write", "read", "read_without_payloads"]


class CreateKey(Body):
    """A key to create."""

    name: Annotated[Text, Meta(description="What the key is for; the audit names it.")]
    role: Annotated[
        KeyRole,
        Meta(
            description="`read_without_payloads` sees no payloads, no values of headers and no "
            "answers of receivers; `read` sees all; `write` changes timers; `admin` also groups "
            "and keys."
        ),
    ]
    groups: (
        Annotated[
            list[GroupName],
            Meta(
                min_length=1,
                max_length=MOST_GROUPS_OF_A_KEY,
                description="The only groups that there are for this key; null: all.",
            ),
        ]
        | None
    ) = None
    expires_at: Time | None = None
    expires_in: Duration | None = None


class RotateKey(Body):
    """How to rotate a key."""

    valid_for: Annotated[
        Duration, Meta(description="How long the old key stays valid beside the new one.")
    ] = "24h"


_OwnSecret: TypeAlias = Annotated[
    str,
    Meta(
        max_length=256,
        description="A secret that you have already: `whsec_` and the base64 of 24 to 64 random "
        "bytes. It is not shown in the answer. Left out: one is made, and shown only there.",
    ),
]


class CreateSigningSecret(Body):
    """A signing secret to create."""

    group: (
        Annotated[
            GroupName,
            Meta(description="Whose callbacks it signs; null: all that have none of their own."),
        ]
        | None
    ) = None
    secret: _OwnSecret | None = None
    expires_at: Time | None = None
    expires_in: Duration | None = None

    def __repr__(self) -> str:
        """Show no secret, wherever this is printed."""
        return f"{type(self).__name__}(...)"


class RotateSigningSecret(Body):
    """How to rotate a signing secret."""

    valid_for: Annotated[
        Duration, Meta(description="How long callbacks are signed with the old one, too.")
    ] = "24h"
    secret: _OwnSecret | None = None

    def __repr__(self) -> str:
        """Show no secret, wherever this is printed."""
        return f"{type(self).__name__}(...)"


_Headers: TypeAlias = Headers | UnsetType | None
_NumShards: TypeAlias = Annotated[
    int,
    Meta(
        ge=1,
        le=SHARDS,
        description="Over how many shards its timers are spread; fixed when the group is created.",
    ),
]
_ResponseBytes: TypeAlias = Annotated[
    int,
    Meta(
        ge=0,
        le=MOST_RESPONSE_BYTES,
        description="How many bytes of each answer of a receiver are kept.",
    ),
]
_ResponseHeaders: TypeAlias = Annotated[
    list[
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=LONGEST_RESPONSE_HEADER,
                pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z",
                examples=["X-Request-Id"],
            ),
        ]
    ],
    Meta(
        max_length=MOST_RESPONSE_HEADERS,
        description="Which headers of each answer of a receiver are kept.",
    ),
]
_ResponseSchema: TypeAlias = Annotated[
    Raw,
    Meta(
        description="A JSON Schema that the body of each 2xx answer must match, or the attempt has "
        "failed; null: none. It counts at once, for all timers of the group.",
        examples=[{"type": "object", "required": ["ok"], "properties": {"ok": {"const": True}}}],
        extra_json_schema={"type": ["object", "null"]},
    ),
]
_Signatures: TypeAlias = Annotated[
    list[Signature],
    Meta(
        max_length=2,
        description="Which signatures callbacks carry: `webhook` (Standard Webhooks), `timer` "
        "(`X-Timer-Signature`).",
    ),
]
_OnFailure: TypeAlias = Annotated[
    OnFailureBody,
    Meta(description="Who is told when a timer has failed for good; null: nobody."),
]
_Rule: TypeAlias = Annotated[
    OnResume,
    Meta(
        description="Which of the timers that fell due while the group was paused are fired when "
        "it is resumed: all, only the latest, or none; the others are canceled."
    ),
]


_Credential: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_CREDENTIAL,
        pattern=GROUP_NAME,
        description="The credential that callbacks are sent with.",
    ),
]


class PutGroup(Body):
    """What a group shall be; what is not named stays as it is, or is the default in a new one.

    null takes it back to the default. Timers get the defaults of their group when they are created.
    """

    num_shards: _NumShards | UnsetType = UNSET
    title: Text | UnsetType | None = UNSET
    retry_policy: RetryPolicyBody | UnsetType | None = UNSET
    timeout: Duration | UnsetType | None = UNSET
    headers: _Headers = UNSET
    retention: Duration | UnsetType | None = UNSET
    response_bytes: _ResponseBytes | UnsetType | None = UNSET
    response_headers: _ResponseHeaders | UnsetType | None = UNSET
    response_schema: _ResponseSchema | UnsetType = UNSET
    signatures: _Signatures | UnsetType | None = UNSET
    credential: _Credential | UnsetType | None = UNSET
    on_failure: _OnFailure | UnsetType | None = UNSET
    quotas: QuotasBody | UnsetType | None = UNSET
    limits: LimitsBody | UnsetType | None = UNSET
    on_resume: _Rule | UnsetType | None = UNSET


class CreateGroup(PutGroup, kw_only=True):
    """A group to create."""

    name: GroupName
