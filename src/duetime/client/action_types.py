"""Actions on many timers at once, as typed dictionaries: the service's own JSON."""

from typing import Any, Literal, Required, TypedDict

from duetime.client.types import Status

ActionName = Literal["cancel", "pause", "resume", "fire", "redrive", "shift", "update", "delete"]


class TimerFilter(TypedDict, total=False):
    """Which timers an action is for: those that match all of it. ``all`` stands alone."""

    all: Literal[True]
    status: Status | list[Status]
    group: str
    tags: list[str]
    any_tags: list[str]
    name_prefix: str
    name_contains: str
    correlation_id: str
    created_after: str
    created_before: str
    execute_after: str
    execute_before: str
    metadata: dict[str, Any]
    last_error: str
    outcome: str


class Action(TypedDict, total=False):
    """An action as the service tells of it, and how far it has come."""

    id: Required[str]
    action: ActionName
    state: Required[Literal["running", "done", "canceled", "failed"]]
    dry_run: bool
    filter: TimerFilter
    matched: int
    changed: int
    skipped: int
    failed: int
    created_at: str
    finished_at: str | None
    actor: str
    error: str | None


class Actions(TypedDict, total=False):
    """The actions that are known."""

    actions: Required[list[Action]]
