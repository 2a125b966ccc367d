"""Timers, attempts and events for tests: everything has a value, and a test names what it is about.

Each call makes another id and another key, in an order that is the same in every run but for the
random part of the ids.
"""

import itertools
from typing import Any
from zlib import crc32

from msgspec.structs import replace

from duetime import ids, model
from duetime.audit_line import AuditLine
from duetime.stores import Change, Insert, Key, Store
from duetime.timer import (
    DEFAULT_GROUP,
    DEFAULT_TENANT,
    Attempt,
    Event,
    HttpCallback,
    Kind,
    Outcome,
    Spec,
    Timer,
)

NOW = 1_750_000_000_000
NODE = "node-1"

# Timers are spread over so many shards: enough to meet all the ways in which they lie, and few
# enough that engines with a partition for each are asked for some timers of each.
SPREAD = 64

_numbers = itertools.count(1)


def make_spec(**overrides: Any) -> Spec:
    """What a user asked for; the callback is an HTTP request."""
    defaults = {
        "callback": HttpCallback(url="https://example.com/hook"),
        "correlation_id": f"correlation-{next(_numbers)}",
    }
    return Spec(**defaults | overrides)


def make_timer(*, shard: int | None = None, spec: Spec | None = None, **overrides: Any) -> Timer:
    """A pending timer, due one minute after it was created."""
    number = next(_numbers)
    tenant = overrides.get("tenant", DEFAULT_TENANT)
    group = overrides.get("group", DEFAULT_GROUP)
    timer_id = overrides.get("timer_id", f"timer-{number}")
    if shard is None:
        # The same key is always in the same shard, also one that no service would take.
        shard = crc32(repr((tenant, group, timer_id)).encode()) % SPREAD
    created_at = overrides.get("created_at", NOW)
    execute_at = overrides.get("execute_at", created_at + 60_000)
    defaults = {
        "id": ids.new_id(created_at, shard),
        "tenant": tenant,
        "group": group,
        "timer_id": timer_id,
        "execute_at": execute_at,
        "wake_at": execute_at,
        "created_at": created_at,
        "updated_at": created_at,
        "spec": spec or make_spec(),
    }
    return Timer(**defaults | overrides)


def make_event(timer: Timer, *, at: int | None = None, **overrides: Any) -> Event:
    """Something that happened to a timer."""
    at = timer.updated_at if at is None else at
    defaults = {
        "id": ids.new_id(at, timer.shard),
        "type": "timer.created",
        "tenant": timer.tenant,
        "group": timer.group,
        "timer": timer.id,
        "version": timer.version,
        "at": at,
    }
    return Event(**defaults | overrides)


def make_attempt(timer: Timer, **overrides: Any) -> Attempt:
    """A line of a timer's execution log: a success, unless told otherwise."""
    defaults = {
        "timer": timer.id,
        "occurrence": timer.progress.occurrence,
        "attempt": max(timer.progress.attempt, 1),
        "node": NODE,
        "started_at": NOW,
        "finished_at": NOW + 5,
        "outcome": Outcome(kind=Kind.OK, status_code=200, latency_ms=5),
    }
    return Attempt(**defaults | overrides)


def make_line(*, at: int = NOW, **overrides: Any) -> AuditLine:
    """A line of the audit."""
    defaults = {
        "id": ids.new_id(at, next(_numbers) % ids.SHARDS),
        "tenant": DEFAULT_TENANT,
        "at": at,
        "actor": "somebody",
        "action": "timer.cancel",
        "kind": "timer",
        "target": f"timer-{next(_numbers)}",
    }
    return AuditLine(**defaults | overrides)


def claimed(timer: Timer, node: str = NODE) -> Timer:
    """The timer as a node has begun its next attempt."""
    return model.claim(timer, node, NOW, 30_000)


def completed(timer: Timer, now: int = NOW) -> Timer:
    """The timer after a successful attempt, one version above the claim."""
    return model.finish(claimed(timer), Outcome(kind=Kind.OK, status_code=200), now, 0.5)


def claim_of(timer: Timer, node: str = NODE) -> Change:
    """The change by which a node begins the timer's next attempt."""
    return Change(timer, claimed(timer, node))


def key_of(timer: Timer) -> Key:
    """What the user calls the timer."""
    return Key(timer.tenant, timer.group, timer.timer_id, timer.shard)


def with_spec(timer: Timer, **overrides: Any) -> Timer:
    """The timer one version on, with something else asked for."""
    return replace(timer, version=timer.version + 1, spec=replace(timer.spec, **overrides))


async def insert(store: Store, *timers: Timer) -> None:
    """Store timers that must all be new."""
    answers = await store.insert([Insert(timer) for timer in timers])
    assert answers == [None] * len(timers)
