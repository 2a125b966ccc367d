"""A claim is an attempt that this node has begun, and whose outcome is not written down yet."""

import msgspec

from duetime.clock import Millis
from duetime.engine.lease import Lease
from duetime.timer import Outcome, Status, Timer


class Claim(msgspec.Struct):
    """One attempt, from when the row was won."""

    timer: Timer  # as stored, executing
    holds_until: float  # on the monotonic clock; later than that, nothing may be sent
    lease: Lease = msgspec.field(default_factory=Lease)  # under which it was made, or renewed
    outcome: Outcome | None = None

    def may_be_sent(self, now: Millis, monotonic: float) -> bool:
        """Tell whether nobody else can have taken it up.

        The wall clock is asked as well: on a machine that was suspended, the other one may have
        stood still.
        """
        has_run_out = self.timer.wake_at is not None and now >= self.timer.wake_at
        return monotonic < self.holds_until and self.lease.holds(monotonic) and not has_run_out

    def is_as_stored(self, stored: Timer) -> bool:
        """Tell whether this very claim has landed: of this version, with what it says to send."""
        return stored.version == self.timer.version and self.is_same_attempt(stored)

    def is_same_attempt(self, stored: Timer) -> bool:
        """Tell whether the stored row still is this claim, whatever its version."""
        return (
            stored.status is Status.EXECUTING
            and stored.progress.claimed_by == self.timer.progress.claimed_by
            and stored.progress.attempt == self.timer.progress.attempt
            and stored.progress.occurrence == self.timer.progress.occurrence
        )
