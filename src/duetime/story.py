"""A story: what is told of a timer that has failed for good, as the payload of a timer of its own.

It is bounded, whatever the timer carries: what is long is cut, or left out and named. Nothing of
what only the receiver may see is in it: no header, no payload, no query of the URL.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from duetime import ids
from duetime.clock import Millis, to_rfc3339
from duetime.retry import RetryPolicy
from duetime.timer import Attempt, Callback, HttpCallback, Spec, Timer, callback_type

TYPE = "timer.failed"

MOST_ATTEMPTS = 10  # the last ones
LONGEST_TEXT = 1_000  # characters of an error, or of an answer
LARGEST_METADATA = 16 * 1024  # bytes
_LONGEST_NAME = 255

# Eight attempts within about two hours: whoever is to hear of failures may be down as well.
USUAL_POLICY = RetryPolicy(max_attempts=8, initial_interval=10_000, backoff_multiplier=3.0)


def key_of(failed: Timer) -> str:
    """The key of the timer that tells of this failure: the same whoever makes it, and how often.

    A failed timer keeps its version until that is told, or it comes back to life; if it fails once
    more after that, it has another one.
    """
    return ids.derived_key(failed.id, f"{TYPE} {failed.version}")


def story_of(failed: Timer, attempts: list[Attempt], now: Millis) -> Timer:
    """The timer that tells of a failure: due now, and otherwise like the one that failed."""
    spec, told = failed.spec, failed.spec.on_failure
    if told is None:
        raise ValueError("nobody wants to know of this failure")
    id_ = ids.new_id(now, failed.shard)
    return Timer(
        id=id_,
        tenant=failed.tenant,
        group=failed.group,
        timer_id=key_of(failed),
        execute_at=now,
        wake_at=now,
        created_at=now,
        updated_at=now,
        spec=Spec(
            callback=replace(told.callback, payload=Raw(payload_of(failed, attempts))),
            name=f"failed: {spec.name or failed.timer_id}"[:_LONGEST_NAME],
            tags=spec.tags,
            correlation_id=spec.correlation_id,
            retry_policy=told.retry_policy or USUAL_POLICY,
            retention=spec.retention,
            response_bytes=spec.response_bytes,
            response_headers=spec.response_headers,
            signatures=spec.signatures,
            tells_of=failed.id,
        ),
    )


def payload_of(failed: Timer, attempts: list[Attempt]) -> bytes:
    """The story in JSON."""
    spec, progress = failed.spec, failed.progress
    is_long = spec.metadata is not UNSET and len(spec.metadata) > LARGEST_METADATA
    outcome = progress.outcome
    story: dict[str, Any] = {
        "type": TYPE,
        "timer": {
            "id": failed.id,
            "timer_id": failed.timer_id,
            "group": failed.group,
            "name": spec.name,
            "tags": spec.tags,
            "metadata": None if spec.metadata is UNSET or is_long else spec.metadata,
            "correlation_id": spec.correlation_id,
            "execute_at": to_rfc3339(failed.execute_at),
            "occurrence": progress.occurrence,
            "attempt": progress.attempt,
            "version": failed.version,
            "callback": _callback(spec.callback),
        },
        "failed_at": to_rfc3339(failed.updated_at),
        "last_error": _cut(progress.last_error),
        "outcome": None
        if outcome is None
        else {
            "kind": outcome.kind,
            "status_code": outcome.status_code,
            "latency_ms": outcome.latency_ms,
        },
        "attempts": [_attempt(each) for each in attempts[-MOST_ATTEMPTS:]],
        "left_out": ["timer.metadata"] if is_long else [],
    }
    return msgspec.json.encode(story)


def _callback(callback: Callback) -> dict[str, Any]:
    """Where it went, without what may be secret."""
    kind = {"type": callback_type(callback)}
    if isinstance(callback, HttpCallback):
        url = callback.url.partition("?")[0].partition("#")[0]
        return kind | {"url": url, "method": callback.method}
    return kind | {"topic": callback.topic, "key": callback.key}


def _attempt(attempt: Attempt) -> dict[str, Any]:
    """A line of the log; which node that was is nothing to tell outside."""
    outcome = attempt.outcome
    return {
        "occurrence": attempt.occurrence,
        "attempt": attempt.attempt,
        "started_at": to_rfc3339(attempt.started_at),
        "finished_at": to_rfc3339(attempt.finished_at),
        "kind": outcome.kind,
        "status_code": outcome.status_code,
        "latency_ms": outcome.latency_ms,
        "error": _cut(outcome.error),
        "response": _cut(outcome.response),
    }


def _cut(text: str | None) -> str | None:
    if text is None or len(text) <= LONGEST_TEXT:
        return text
    return text[: LONGEST_TEXT - 1] + "…"
