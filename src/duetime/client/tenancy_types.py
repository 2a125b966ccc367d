"""Tenants, keys, groups and usage, as typed dictionaries: the service's own JSON."""

from typing import Any, Literal, Required, TypedDict

from duetime.client.types import OnFailure, RetryPolicy, Signature

Role = Literal["admin", "write", "read", "read_without_payloads"]
OnResume = Literal["all", "latest", "none"]


class Quotas(TypedDict, total=False):
    """The most of each; None, or left out: no limit."""

    creates_per_second: float | None
    pending: int | None
    payload_bytes: int | None
    batch_size: int | None


class Limits(TypedDict, total=False):
    """The most callbacks, in the whole cluster; None, or left out: no limit."""

    concurrency: int | None
    per_second: float | None
    burst: int | None


class TenantChange(TypedDict, total=False):
    """What can be changed about a tenant; quotas are replaced as a whole."""

    title: str | None
    quotas: Quotas | None
    limits: Limits | None


class NewTenant(TenantChange, total=False):
    """A tenant to create."""

    name: Required[str]


class Tenant(TypedDict, total=False):
    """A tenant as the service tells of it."""

    name: Required[str]
    title: str | None
    quotas: Quotas
    limits: Limits
    created_at: str | None
    updated_at: str | None
    leaving_since: str | None


class Tenants(TypedDict, total=False):
    """All tenants, by name."""

    tenants: Required[list[Tenant]]


class Deleted(TypedDict, total=False):
    """What is gone."""

    name: str


class NewKey(TypedDict, total=False):
    """A key to create; at most one of ``expires_at`` and ``expires_in``."""

    name: Required[str]
    role: Required[Role]
    groups: list[str] | None
    expires_at: str | None
    expires_in: str | None


class Key(TypedDict, total=False):
    """A key as the service tells of it, without the key itself."""

    id: Required[str]
    tenant: str
    name: str
    role: Role
    groups: list[str] | None
    prefix: str
    created_at: str
    created_by: str
    expires_at: str | None
    last_used_at: str | None


class MadeKey(Key, total=False):
    """A key that was just made, with the key itself: it is told only now."""

    key: Required[str]


class Keys(TypedDict, total=False):
    """The keys of a tenant, oldest first."""

    keys: Required[list[Key]]


class Revoked(TypedDict, total=False):
    """A key that opens nothing any more."""

    id: str


class GroupChange(TypedDict, total=False):
    """What a group shall be; what is left out stays as it is, or is the default in a new one."""

    num_shards: int
    title: str | None
    retry_policy: RetryPolicy | None
    timeout: str | None
    headers: dict[str, str] | None
    retention: str | None
    response_bytes: int | None
    response_headers: list[str] | None
    response_schema: dict[str, Any] | None
    signatures: list[Signature] | None
    credential: str | None
    on_failure: OnFailure | None
    quotas: Quotas | None
    limits: Limits | None
    on_resume: OnResume | None


class NewGroup(GroupChange, total=False):
    """A group to create."""

    name: Required[str]


class Group(TypedDict, total=False):
    """A group as the service tells of it."""

    name: Required[str]
    title: str | None
    num_shards: int
    is_paused: bool
    paused_at: str | None
    resuming: str | None
    on_resume: OnResume
    retry_policy: RetryPolicy | None
    timeout: str | None
    headers: dict[str, str]
    retention: str | None
    response_bytes: int
    response_headers: list[str]
    response_schema: dict[str, Any] | None
    signatures: list[Signature]
    credential: str | None
    on_failure: OnFailure | None
    quotas: Quotas
    limits: Limits
    created_at: str
    updated_at: str


class Groups(TypedDict, total=False):
    """The groups, by name."""

    groups: Required[list[Group]]


class GroupUsage(TypedDict, total=False):
    """How much there is in a group, and how much there may be."""

    group: Required[str]
    timers: dict[str, int]
    pending: int
    quotas: Quotas
    limits: Limits


class Whoami(TypedDict, total=False):
    """What a key is good for."""

    tenant: Required[str]
    role: str
    name: str
    key: str | None
    groups: list[str] | None


class Usage(TypedDict, total=False):
    """How much a tenant has, and how much it may have."""

    tenant: Required[str]
    counted_at: str
    timers: dict[str, int]
    pending: int
    creates_per_second: float
    quotas: Quotas
    limits: Limits
    groups: list[GroupUsage]
