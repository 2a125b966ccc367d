"""Views: timers and attempts as the API shows them."""

from hashlib import blake2b
from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw

from duetime.api.callback_views import (
    HttpCallbackView,
    NatsCallbackView,
    OnFailureView,
    RetryPolicyView,
    callback_view,
    hidden_callback,
    hidden_on_failure,
    on_failure_view,
    policy_view,
)
from duetime.clock import to_rfc3339
from duetime.durations import format_duration
from duetime.tenancy.caller import Caller
from duetime.tenancy.role import Role
from duetime.timer import Attempt, Kind, Outcome, Signature, Status, Timer, callback_type

Instant: TypeAlias = Annotated[
    str,
    Meta(extra_json_schema={"format": "date-time"}, examples=["2030-01-01T09:00:00Z"]),
]

Excerpt: TypeAlias = Annotated[
    str | None,
    Meta(
        description="How the body of the receiver's answer began, read as UTF-8; what is none, and "
        "control characters, are replaced. Null: nothing of the answers is kept (response_bytes), "
        "or no whole answer came."
    ),
]


KeptHeaders: TypeAlias = Annotated[
    dict[str, str] | None,
    Meta(
        description="Headers of the receiver's answer, by their names in lower case, made harmless "
        "likewise. Null: none are kept (response_headers), or no whole answer came."
    ),
]


class OutcomeView(msgspec.Struct, kw_only=True):
    """What came of an attempt."""

    kind: Kind
    status_code: int | None
    latency_ms: int | None
    error: str | None
    response: Excerpt
    response_headers: KeptHeaders


class TimerView(msgspec.Struct):
    """A timer in short."""

    id: str
    created_at: Instant
    updated_at: Instant
    execute_at: Instant
    callback_type: str
    status: Status
    executed_at: Instant | None
    group: str
    timer_id: str
    name: str | None
    tags: tuple[str, ...]
    correlation_id: str
    version: int
    attempt: Annotated[int, Meta(description="The number of the newest attempt; 0: none yet.")]
    failures: Annotated[
        int, Meta(description="How many attempts have failed, of the `max_attempts` that it has.")
    ]
    max_attempts: int
    next_attempt_at: Annotated[
        Instant | None, Meta(description="When the next attempt starts, if one is waiting.")
    ]
    last_error: str | None
    outcome_kind: Annotated[Kind | None, Meta(description="How the last attempt ended.")]


class TimerDetailView(TimerView):
    """A timer with all that is known of it."""

    callback_config: HttpCallbackView | NatsCallbackView
    occurrence: Annotated[
        int,
        Meta(
            description="Which occurrence this is: another one when it has new content, or when "
            "the receiver asked to be called again."
        ),
    ]
    metadata: Raw | None
    retry_policy: RetryPolicyView
    deadline: str | None
    retention: Annotated[
        str | None,
        Meta(description="How long it is kept when it has finished; null: as the service has it."),
    ]
    response_bytes: Annotated[
        int, Meta(description="How many bytes of each answer's body are kept; 0: none.")
    ]
    response_headers: Annotated[
        tuple[str, ...], Meta(description="Which headers of each answer are kept.")
    ]
    signatures: Annotated[
        tuple[Signature, ...],
        Meta(
            description="Which signatures go with its callback, where the service has secrets: "
            '"webhook" is the header Webhook-Signature, "timer" is X-Timer-Signature.'
        ),
    ]
    on_failure: Annotated[
        OnFailureView | None, Meta(description="Who is told when it has failed for good.")
    ]
    on_failure_timer: Annotated[
        str | None, Meta(description="The timer that tells of its last failure.")
    ]
    tells_of: Annotated[str | None, Meta(description="The timer whose failure this one tells of.")]
    outcome: OutcomeView | None
    held_since: Annotated[
        Instant | None,
        Meta(description="When it was due, if its group is paused and it waits for that to end."),
    ]
    waiting_for: Annotated[
        str | None,
        Meta(
            description="Why it has not started though it is due, if its target is paused or keeps "
            "failing."
        ),
    ]


class CanceledView(msgspec.Struct):
    """A timer that was canceled."""

    id: str
    status: Status


class TimerListView(msgspec.Struct):
    """One page of timers."""

    timers: list[TimerView]
    total: Annotated[
        int | None,
        Meta(
            description="How many match in all; null on pages got by cursor, unless asked for by "
            "total=true, and where the store does not count."
        ),
    ]
    limit: int
    offset: int
    next_cursor: Annotated[
        str | None, Meta(description="Ask for the next page with this; null: there is none.")
    ]


class BatchItemView(msgspec.Struct):
    """What became of one timer of a batch: an envelope of its own."""

    code: int
    message: str
    data: TimerView | None


class BatchView(msgspec.Struct):
    """What became of a batch, in the order of the request."""

    timers: list[BatchItemView]
    created: Annotated[int, Meta(description="How many are new; the rest failed or existed.")]
    failed: int


class AttemptView(msgspec.Struct, kw_only=True):
    """One line of a timer's execution log."""

    occurrence: int
    attempt: int
    node: Annotated[
        str,
        Meta(
            description="Which node it was: its name for the operator's key, and for others one "
            "that tells nothing of it, but is the same for the same node."
        ),
    ]
    started_at: Instant
    finished_at: Instant
    kind: Kind
    status_code: int | None
    latency_ms: int | None
    error: str | None
    response: Excerpt
    response_headers: KeptHeaders
    next_at: Instant | None


class AttemptListView(msgspec.Struct):
    """One page of a timer's execution log, oldest first."""

    attempts: list[AttemptView]
    next_cursor: str | None


def view(timer: Timer) -> TimerView:
    """A timer in short."""
    progress = timer.progress
    is_waiting = timer.status is Status.PENDING and progress.held_since is None
    return TimerView(
        id=timer.id,
        created_at=to_rfc3339(timer.created_at),
        updated_at=to_rfc3339(timer.updated_at),
        execute_at=to_rfc3339(timer.execute_at),
        callback_type=callback_type(timer.spec.callback),
        status=timer.status,
        executed_at=instant(timer.executed_at),
        group=timer.group,
        timer_id=timer.timer_id,
        name=timer.spec.name,
        tags=timer.spec.tags,
        correlation_id=timer.spec.correlation_id,
        version=timer.version,
        attempt=progress.attempt,
        failures=progress.failures,
        max_attempts=timer.spec.retry_policy.max_attempts,
        next_attempt_at=instant(timer.wake_at) if is_waiting else None,
        last_error=progress.last_error,
        outcome_kind=None if progress.outcome is None else progress.outcome.kind,
    )


def detail_view(timer: Timer, waiting_for: str | None = None) -> TimerDetailView:
    """A timer with all that is known of it."""
    spec, progress = timer.spec, timer.progress
    return TimerDetailView(
        **msgspec.structs.asdict(view(timer)),
        callback_config=callback_view(spec.callback),
        occurrence=progress.occurrence,
        metadata=None if spec.metadata is UNSET else spec.metadata,
        retry_policy=policy_view(spec.retry_policy),
        deadline=None if spec.deadline is None else format_duration(spec.deadline),
        retention=None if spec.retention is None else format_duration(spec.retention),
        response_bytes=spec.response_bytes,
        response_headers=spec.response_headers,
        signatures=spec.signatures,
        on_failure=on_failure_view(spec.on_failure),
        on_failure_timer=progress.story,
        tells_of=spec.tells_of,
        outcome=None if progress.outcome is None else _outcome_view(progress.outcome),
        held_since=instant(progress.held_since) if timer.status is Status.PENDING else None,
        waiting_for=waiting_for,
    )


def without_payloads(shown: TimerDetailView) -> TimerDetailView:
    """A timer for those who may not see what it carries."""
    outcome = shown.outcome
    if outcome is not None:
        outcome = msgspec.structs.replace(outcome, response=None, response_headers=None)
    return msgspec.structs.replace(
        shown,
        callback_config=hidden_callback(shown.callback_config),
        outcome=outcome,
        on_failure=hidden_on_failure(shown.on_failure),
    )


def attempt_view(attempt: Attempt, caller: Caller) -> AttemptView:
    """One line of a timer's execution log, as far as the caller may see it."""
    outcome, sees_answers = attempt.outcome, caller.may(Role.READ)
    return AttemptView(
        occurrence=attempt.occurrence,
        attempt=attempt.attempt,
        node=attempt.node if caller.is_operator else _disguised(attempt.node),
        started_at=to_rfc3339(attempt.started_at),
        finished_at=to_rfc3339(attempt.finished_at),
        kind=outcome.kind,
        status_code=outcome.status_code,
        latency_ms=outcome.latency_ms,
        error=outcome.error,
        response=outcome.response if sees_answers else None,
        response_headers=outcome.response_headers if sees_answers else None,
        next_at=instant(attempt.next_at),
    )


def _disguised(node: str) -> str:
    """A name for a node that does not tell on which machine of the operator it runs.

    It has no more bits than the name has random ones at its end: so whoever guesses the rest of the
    name finds that each guess fits.
    """
    return f"node-{blake2b(node.encode(), digest_size=3).hexdigest()}"


def instant(at: int | None) -> str | None:
    """A time that may be missing, as it is shown."""
    return None if at is None else to_rfc3339(at)


def _outcome_view(outcome: Outcome) -> OutcomeView:
    return OutcomeView(
        kind=outcome.kind,
        status_code=outcome.status_code,
        latency_ms=outcome.latency_ms,
        error=outcome.error,
        response=outcome.response,
        response_headers=outcome.response_headers,
    )
