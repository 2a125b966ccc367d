"""A group: a workload with its own number of shards, its own defaults, and a switch to pause it."""

from typing import Literal, TypeAlias

import msgspec

from duetime.clock import Millis
from duetime.retry import RetryPolicy
from duetime.tenancy.limits import BOUNDLESS, Limits
from duetime.tenancy.quotas import UNLIMITED, Quotas
from duetime.timer import USUAL_SIGNATURES, OnFailure, Signature, Status, Timer

KIND = "group"

# What becomes of timers that fell due while their group was paused: all are fired, or only the one
# that was due last, or none; the others are canceled.
OnResume: TypeAlias = Literal["all", "latest", "none"]
USUAL_ON_RESUME: OnResume = "all"


class Defaults(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a timer is given that does not ask for anything else when it is made."""

    retry_policy: RetryPolicy | None = None
    timeout: Millis | None = None
    headers: dict[str, str] = {}
    retention: Millis | None = None
    response_bytes: int = 0  # of each answer, that are kept
    response_headers: tuple[str, ...] = ()  # of each answer, by names in lower case, likewise
    signatures: tuple[Signature, ...] = USUAL_SIGNATURES
    credential: str | None = None
    on_failure: OnFailure | None = None


NO_DEFAULTS = Defaults()


class Group(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A group, as it is stored."""

    tenant: str
    name: str
    # Keys are hashed onto so many. It never changes, not even when the group is deleted and made
    # anew: a node that has not heard of that yet would look for its timers elsewhere.
    num_shards: int
    title: str | None = None
    defaults: Defaults = NO_DEFAULTS
    quotas: Quotas = UNLIMITED
    limits: Limits = BOUNDLESS
    on_resume: OnResume = USUAL_ON_RESUME
    response_schema: str | None = None  # JSON Schema that answers must match, as JSON
    paused_at: Millis | None = None  # the last time
    resumed_at: Millis | None = None  # since then
    resuming: str | None = None  # the action that sees to what fell due meanwhile, until it has
    created_at: Millis
    updated_at: Millis
    deleted_at: Millis | None = None
    # Somebody is about to delete it, if nothing is to come. Nothing else follows from that: who
    # makes a timer in it takes the mark away first, and so stops them.
    leaving_since: Millis | None = None

    @property
    def is_paused(self) -> bool:
        return self.paused_at is not None and self.resumed_at is None

    def holds(self, timer: Timer) -> bool:
        """Tell whether a timer of this group must not be started now, though it is due."""
        if self.is_paused or self.resuming is None:
            return self.is_paused
        # What the action has seen to carries its id, and is free.
        return self.caught(timer) and self.resuming not in (timer.progress.action or "").split()

    def caught(self, timer: Timer) -> bool:
        """Tell whether a timer fell due while the group was paused, or still is.

        One that is executing has been started, be it by a node that is gone. And one that tells of
        a failure waits as they all do, but is nothing that the group's rule could drop.
        """
        if timer.status is Status.EXECUTING or timer.spec.tells_of is not None:
            return False
        due_at = timer.wake_at if timer.progress.held_since is None else timer.progress.held_since
        if due_at is None or self.paused_at is None or due_at < self.paused_at:
            return False
        return self.resumed_at is None or due_at < self.resumed_at


def name_of(tenant: str, group: str) -> str:
    """What the record of a group is called; neither name can have a slash."""
    return f"{tenant}/{group}"
