"""What goes to the service and what comes back, as typed dictionaries.

They are the service's own JSON, so that nothing is lost on the way: a field that this client does
not know yet is there all the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Required, TypedDict

Status = Literal["pending", "executing", "completed", "failed", "canceled", "paused"]
Signature = Literal["webhook", "timer"]


class HttpCallback(TypedDict, total=False):
    """An HTTP request to make."""

    type: Required[Literal["http"]]
    url: Required[str]
    method: str
    headers: dict[str, str]
    payload: Any
    timeout: str
    credential: str | None
    follow_response: bool


class NatsCallback(TypedDict, total=False):
    """A NATS message to publish."""

    type: Required[Literal["nats"]]
    topic: Required[str]
    key: str
    headers: dict[str, str]
    payload: Any
    jetstream: bool


class RetryPolicy(TypedDict, total=False):
    """When a failed attempt is tried again."""

    max_attempts: int
    initial_interval: str
    backoff_multiplier: float
    max_interval: str
    max_duration: str
    jitter: float


class OnFailure(TypedDict, total=False):
    """Who is told when a timer has failed for good: a callback without a payload."""

    callback: Required[HttpCallback | NatsCallback]
    retry_policy: RetryPolicy | None


class _Fields(TypedDict, total=False):
    execute_at: str
    delay: str
    timezone: str
    name: str | None
    tags: list[str]
    metadata: Any
    correlation_id: str
    retry_policy: RetryPolicy
    deadline: str | None
    on_failure: OnFailure | None


class TimerChange(_Fields, total=False):
    """What can be changed about a timer; what is left out stays as it is."""

    callback: HttpCallback | NatsCallback


class TimerContent(_Fields, total=False):
    """A timer to be: ``callback``, and one of ``delay`` and ``execute_at``."""

    callback: Required[HttpCallback | NatsCallback]


class NewTimer(TimerContent, total=False):
    """A timer to create, under a key of the caller's own if it has one."""

    group: str
    timer_id: str


class Outcome(TypedDict, total=False):
    """What came of an attempt."""

    kind: Required[str]
    status_code: int | None
    latency_ms: int | None
    error: str | None
    response: str | None
    response_headers: dict[str, str] | None


class Timer(TypedDict, total=False):
    """A timer as the service tells of it; lists and short answers leave some of it out."""

    id: Required[str]
    status: Required[Status]
    group: str
    timer_id: str
    version: int
    attempt: int
    failures: int
    max_attempts: int
    occurrence: int
    name: str | None
    tags: list[str]
    created_at: str
    updated_at: str
    execute_at: str
    executed_at: str | None
    callback_type: Literal["http", "nats"]
    callback_config: HttpCallback | NatsCallback
    metadata: Any
    correlation_id: str
    retry_policy: RetryPolicy
    deadline: str | None
    retention: str | None
    response_bytes: int
    response_headers: list[str]
    signatures: list[Signature]
    last_error: str | None
    outcome: Outcome | None
    outcome_kind: str | None
    on_failure: OnFailure | None
    on_failure_timer: str | None
    tells_of: str | None
    next_attempt_at: str | None
    held_since: str | None
    waiting_for: str | None


class Filters(TypedDict, total=False):
    """Which timers to list, and in which order.

    Of several statuses a timer has one, of several tags all, and of ``any_tag`` at least one.
    ``metadata`` has the path of a value in it and the value: ``{"customer.id": 42}``.
    """

    status: Status | Sequence[Status]
    group: str
    tag: str | Sequence[str]
    any_tag: str | Sequence[str]
    name_prefix: str
    name_contains: str
    correlation_id: str
    created_after: str
    created_before: str
    execute_after: str
    execute_before: str
    metadata: Mapping[str, Any]
    last_error: str
    outcome: str
    limit: int
    offset: int
    sort: Literal["created_at", "execute_at"]
    order: Literal["asc", "desc"]
    cursor: str


class Page(TypedDict, total=False):
    """One page of a list."""

    timers: Required[list[Timer]]
    total: int | None
    limit: int
    offset: int
    next_cursor: str | None


class BatchItem(TypedDict):
    """What came of one timer of a batch."""

    code: int
    message: str
    data: Timer | None


class Batch(TypedDict):
    """What came of a batch: each of its timers, in the order they were given."""

    timers: list[BatchItem]
    created: int
    failed: int


class Attempt(TypedDict, total=False):
    """One line of a timer's execution log."""

    occurrence: int
    attempt: Required[int]
    node: str
    started_at: str
    finished_at: str
    kind: Required[str]
    status_code: int | None
    latency_ms: int | None
    error: str | None
    response: str | None
    response_headers: dict[str, str] | None
    next_at: str | None


class Attempts(TypedDict, total=False):
    """A timer's execution log."""

    attempts: Required[list[Attempt]]


class Node(TypedDict, total=False):
    """A node of the service, as the one that answers sees it."""

    name: Required[str]
    state: Required[Literal["alive", "joining", "leaving", "dead", "unknown"]]
    is_this: bool
    host: str
    pid: int
    version: str
    started_at: str
    last_seen_ms: int
    shards: int
    shard_ranges: str | None
    behind_ms: int
    runs_api: bool
    runs_engine: bool


class Nodes(TypedDict, total=False):
    """All nodes that are known."""

    nodes: Required[list[Node]]


class Health(TypedDict, total=False):
    """How the service is."""

    status: Required[str]
    database: str
    nats: str
    timestamp: str
