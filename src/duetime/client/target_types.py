"""What the service says of targets, as dictionaries with types."""

from typing import Literal, Required, TypedDict

from duetime.client.tenancy_types import Limits


class TargetChange(TypedDict, total=False):
    """What a target shall be; what is left out stays as it is."""

    limits: Limits | None


class Target(TypedDict, total=False):
    """A target as the service tells of it."""

    name: Required[str]
    state: Literal["ok", "paused", "failing", "probing"]
    since: str | None
    until: str | None
    paused_by: str | None
    reason: str | None
    failures: int
    last_error: str | None
    waiting: int
    under_way: int
    limits: Limits
    created_at: str | None
    updated_at: str | None


class Targets(TypedDict, total=False):
    """The targets that there is something to tell of, by name."""

    targets: Required[list[Target]]
