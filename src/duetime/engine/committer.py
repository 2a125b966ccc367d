"""The committer holds this node's claims until what came of them is written down.

It gathers outcomes and writes them in batches, and renews the claims of attempts that are still
under way. Both are changes of the same rows by the same node, so one pass does both, and they
never race each other.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable

import msgspec

from duetime import model
from duetime.clock import Clock, Millis
from duetime.engine.lease import Lease
from duetime.model import Kind, Outcome, Status, Timer
from duetime.stores import Change, Store

# How long, in seconds, the first outcome of a batch waits for more to share its write.
GATHER_FOR = 0.02


class Claim(msgspec.Struct):
    """An attempt that this node has begun and not yet written down."""

    timer: Timer  # as stored, executing
    holds_until: float  # on the monotonic clock; later than that, nothing may be sent
    lease: Lease = msgspec.field(default_factory=Lease)  # under which it was made, or renewed
    task: asyncio.Task[None] | None = None
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


class Committer:
    """Writes down what came of attempts."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        claim_for: Millis,
        lease: Callable[[], Lease],
        on_written: Callable[[Timer], None],
        wake: Callable[[], None],
        largest: int = 500,
    ) -> None:
        self._store = store
        self._clock = clock
        self._claim_for = claim_for
        self._lease = lease
        self._on_written = on_written
        self._wake = wake
        self._largest = largest
        self._enough = largest // 2  # outcomes that wait for no more
        self._claims: dict[str, Claim] = {}
        self._ended: deque[Claim] = deque()
        self._doubtful: list[Claim] = []  # a write of theirs failed: it may have landed
        self._renew_at = self._write_at = clock.monotonic()

    def hold(self, claim: Claim) -> None:
        """Take charge of a claim."""
        self._claims[claim.timer.id] = claim

    def holds(self, id_: str) -> bool:
        """Tell whether a timer's claim is in hand here."""
        return id_ in self._claims

    def __len__(self) -> int:
        return len(self._claims)

    @property
    def under_way(self) -> list[Claim]:
        """The claims whose attempt has not ended yet."""
        return [claim for claim in self._claims.values() if claim.outcome is None]

    @property
    def has_unwritten(self) -> bool:
        """Tell whether an outcome waits to be written."""
        return bool(self._ended)

    def end(self, claim: Claim, outcome: Outcome) -> None:
        """Note down how an attempt ended, to be written in the next pass."""
        claim.outcome = outcome
        self._ended.append(claim)
        if len(self._ended) == 1:
            self._write_at = self._clock.monotonic() + GATHER_FOR
            self._wake()
        elif len(self._ended) == self._enough:
            self._wake()

    def gathering(self) -> float:
        """For how many more seconds it pays to gather outcomes before writing them.

        Nobody waits for this write, and a fuller batch costs hardly more than a small one.
        """
        if not self._ended or len(self._ended) >= self._enough:
            return 0
        return self._write_at - self._clock.monotonic()

    async def step(self) -> float:
        """Write a batch of outcomes and renewals."""
        if self._doubtful:
            await self._look_again()
        now = self._clock.now()
        ended = [self._ended.popleft() for _ in range(min(len(self._ended), self._largest))]
        ended = [claim for claim in ended if self._claims.get(claim.timer.id) is claim]
        renewed = self._claims_to_renew()
        changes = [self._finishing(claim, now) for claim in ended]
        changes += [
            Change(claim.timer, model.renew(claim.timer, now, self._claim_for)) for claim in renewed
        ]
        if changes:
            await self._write(ended, renewed, changes)
        return 0 if self._ended else self._claim_for / 8000

    async def _write(self, ended: list[Claim], renewed: list[Claim], changes: list[Change]) -> None:
        asked_at, lease = self._clock.monotonic(), self._lease()
        try:
            won = await self._store.apply(changes)
        except Exception:  # whatever it was, the write may have landed
            self._doubtful += ended + renewed
            self._ended.extendleft(reversed(ended))
            raise
        for claim, change, is_ours in zip(ended, changes, won, strict=False):
            self._let_go(claim)
            if is_ours:
                self._on_written(change.new)
        for claim, change, is_ours in zip(
            renewed, changes[len(ended) :], won[len(ended) :], strict=True
        ):
            if is_ours:
                claim.timer = change.new
                claim.holds_until = asked_at + self._claim_for / 1000
                claim.lease = lease
            else:
                claim.holds_until = asked_at  # somebody took it up: this one must not send

    def _finishing(self, claim: Claim, now: Millis) -> Change:
        outcome = claim.outcome or Outcome(kind=Kind.LOST)
        if outcome.kind is Kind.UNSENT:  # nothing happened that a log could tell of
            return Change(claim.timer, model.release(claim.timer, now, was_sent=False))
        if outcome.kind is Kind.LOST:
            new = model.release(claim.timer, now, was_sent=True)
        else:
            new = model.finish(claim.timer, outcome, now, random.random())  # noqa: S311 - jitter
        return Change(
            claim.timer, new, attempt=model.attempt_record(claim.timer, new, outcome, now)
        )

    def _claims_to_renew(self) -> list[Claim]:
        now = self._clock.monotonic()
        if now < self._renew_at:
            return []
        self._renew_at = now + self._claim_for / 8000
        half_over = now + self._claim_for / 2000
        return [claim for claim in self.under_way if now < claim.holds_until < half_over]

    async def _look_again(self) -> None:
        """Find out what became of the claims whose last write failed."""
        stored = await self._store.get([claim.timer.id for claim in self._doubtful])
        doubtful, self._doubtful = self._doubtful, []
        for claim, timer in zip(doubtful, stored, strict=True):
            if timer is not None and claim.is_same_attempt(timer):
                claim.timer = timer
            elif claim.outcome is None:
                claim.holds_until = self._clock.monotonic()
            elif self._let_go(claim) and timer is not None:
                self._on_written(timer)

    def _let_go(self, claim: Claim) -> bool:
        """Forget a claim, but not a later one of the same timer."""
        is_held = self._claims.get(claim.timer.id) is claim
        if is_held:
            del self._claims[claim.timer.id]
        return is_held
