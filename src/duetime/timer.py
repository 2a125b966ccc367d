"""The timer, as one row, and what it is made of: what the user asked for, how far it has come.

How it changes is in model.py. What comes by the thousand has ``gc=False``: none of it can be part
of a cycle, and to look for some would be a tenth of the work of firing a timer.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from duetime import ids
from duetime.clock import Millis
from duetime.retry import SINGLE_ATTEMPT, RetryPolicy

DEFAULT_TENANT = "default"
DEFAULT_GROUP = "default"
DEFAULT_TIMEOUT: Millis = 30_000


class Status(StrEnum):
    """Where a timer is in its life."""

    PENDING = "pending"
    EXECUTING = "executing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    PAUSED = "paused"


FINISHED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELED})


class HttpCallback(msgspec.Struct, frozen=True, kw_only=True, tag="http", omit_defaults=True):
    """An HTTP request to make. The payload is kept as the bytes that the user sent."""

    url: str
    method: str = "POST"
    headers: dict[str, str] = {}
    payload: Raw | UnsetType = UNSET
    timeout: Millis = DEFAULT_TIMEOUT
    credential: str | None = None  # the name of what is shown to the receiver
    follow_response: bool = False  # what the receiver answers says whether it is done


class NatsCallback(msgspec.Struct, frozen=True, kw_only=True, tag="nats", omit_defaults=True):
    """A NATS message to publish on ``topic``, or on ``topic.key`` where there is a key."""

    topic: str
    key: str | None = None
    headers: dict[str, str] = {}
    payload: Raw | UnsetType = UNSET
    jetstream: bool = False


Callback: TypeAlias = HttpCallback | NatsCallback

# What vouches for a callback: the headers of Standard Webhooks, or the plainer X-Timer-Signature.
Signature: TypeAlias = Literal["webhook", "timer"]
USUAL_SIGNATURES: tuple[Signature, ...] = ("webhook",)


def callback_type(callback: Callback) -> str:
    """The name by which users know a callback's kind: "http" or "nats"."""
    return str(callback.__struct_config__.tag)


class OnFailure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who is told when a timer has failed for good, and how often that is tried."""

    callback: Callback  # without a payload: that is the story
    retry_policy: RetryPolicy | None = None  # None: as usual for stories


class _Once:
    """A property that is worked out once. That of the library takes a lock for it."""

    def __init__(self, work_out: "Callable[[Spec], int]") -> None:
        self._work_out = work_out
        self._name = work_out.__name__
        self.__doc__ = work_out.__doc__

    def __get__(self, spec: "Spec", _owner: type) -> int:
        value = spec.__dict__[self._name] = self._work_out(spec)
        return value


class Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """What the user asked for: everything about a timer that only the user changes."""

    callback: Callback
    name: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Raw | UnsetType = UNSET
    correlation_id: str
    retry_policy: RetryPolicy = SINGLE_ATTEMPT
    deadline: Millis | None = None  # after execute_at; no attempt starts later than that
    retention: Millis | None = None  # how long it is kept when it has finished; None: as usual
    response_bytes: int = 0  # of each answer, that are kept
    response_headers: tuple[str, ...] = ()  # of each answer, by names in lower case, likewise
    signatures: tuple[Signature, ...] = USUAL_SIGNATURES
    on_failure: OnFailure | None = None
    tells_of: str | None = None  # the timer whose failure this one tells of

    @property
    def payload_size(self) -> int:
        """How many bytes the callback carries."""
        return _length(self.callback.payload)

    @_Once
    def weight(self) -> int:
        """How many bytes of it the user chose; the engine asks for it again and again."""
        weight = _length(self.callback.payload) + _length(self.metadata)
        if self.callback.headers:
            weight += _length_of_all(self.callback.headers)
        if self.on_failure is not None:
            weight += _length_of_all(self.on_failure.callback.headers)
        return weight


def _length_of_all(headers: dict[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in headers.items())


def _length(value: Raw | UnsetType) -> int:
    return 0 if value is UNSET else len(value)


class Kind(StrEnum):
    """How an attempt ended."""

    OK = "ok"
    NETWORK = "network"  # refused, reset, unreachable
    TIMEOUT = "timeout"
    HTTP = "http"  # an answer that is not 2xx, or that says itself that it is none
    RESPONSE = "response"  # one that is, and is not what the schema of its group asks for
    TLS = "tls"
    DNS = "dns"
    EGRESS = "egress"  # the address may not be called
    SIGNING = "signing"  # it could not be signed with what it is to be signed with
    CREDENTIAL = "credential"  # it cannot be shown to the receiver
    NATS = "nats"
    LOST = "lost"  # its node stopped or died before the answer came
    UNSENT = (
        "unsent"  # nothing was sent: the claim had run out, no place was free, or its node stopped
    )


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What came of an attempt, with a sentence that a person understands where it failed."""

    kind: Kind
    status_code: int | None = None
    latency_ms: int | None = None
    error: str | None = None
    retryable: bool = False
    retry_at: Millis | None = None  # the receiver asked not to be called before
    response: str | None = None  # how the answer began, where that is kept
    again_at: Millis | None = None  # all is well, and the receiver asked to be called again then
    response_headers: dict[str, str] | None = None  # those that are kept, where any are

    @property
    def ok(self) -> bool:
        return self.kind is Kind.OK


class Progress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How far the timer has come: everything that only the engine changes."""

    occurrence: int = 1
    attempt: int = 0  # the number of the newest attempt of this occurrence
    failures: int = 0  # attempts that count against max_attempts
    lost: int = 0  # attempts, in a row, whose outcome nobody knows
    first_attempt_at: Millis | None = None
    claimed_at: Millis | None = None
    claimed_by: str | None = None
    last_error: str | None = None
    outcome: Outcome | None = None
    held_since: Millis | None = None  # it fell due then, while its group was paused
    action: str | None = None  # the last bulk action that changed it
    again: int = 0  # how often, in a row, the receiver asked to be called again
    story: str | None = None  # the timer that tells of its failure


UNTRIED = Progress()


class Timer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One timer, as one row."""

    id: str
    tenant: str
    group: str
    timer_id: str
    version: int = 1
    status: Status = Status.PENDING
    execute_at: Millis
    wake_at: Millis | None  # when somebody must look at it next; None: never
    created_at: Millis
    updated_at: Millis
    executed_at: Millis | None = None
    spec: Spec
    progress: Progress = UNTRIED
    fingerprint: str | None = None  # of the content it was created with, to know it again

    @property
    def shard(self) -> int:
        return ids.shard_of(self.id)

    @property
    def weight(self) -> int:
        """About how many bytes it takes in memory: what the user sent, and some for the rest."""
        return LIGHTEST + self.spec.weight

    @property
    def is_over(self) -> bool:
        """Tell whether nothing of it is still to come, so that it may be dropped when it is old.

        One that has failed is awake until that has been told to whom it wants to know.
        """
        return self.wake_at is None and self.status in FINISHED

    @property
    def drop_at(self) -> Millis | None:
        """When it may be dropped, if it is over and has a retention of its own."""
        retention = self.spec.retention
        if retention is None or not self.is_over:
            return None
        return self.updated_at + retention

    @property
    def webhook_id(self) -> str:
        """The same in all attempts of one occurrence, so that a receiver can tell a repeat."""
        return f"{self.id}-{self.progress.occurrence}"


LIGHTEST = 2048


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of a timer's execution log."""

    timer: str
    occurrence: int
    attempt: int
    node: str
    started_at: Millis
    finished_at: Millis
    outcome: Outcome
    next_at: Millis | None = None  # when the timer is tried again, if it is


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Something that happened to a timer, kept until it has been told to the outside.

    It says what has changed and never what is delivered: no payload, no header and no URL, so that
    whoever may hear of a timer need not be allowed to read it.
    """

    id: str  # made by ids.event_id: those of one timer are in the order of its versions
    type: str
    tenant: str
    group: str
    timer: str
    timer_id: str = ""
    version: int
    occurrence: int = 1
    attempt: int = 0
    at: Millis
    correlation_id: str = ""
    tags: tuple[str, ...] = ()
    data: dict[str, Any] = {}
