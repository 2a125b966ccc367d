"""The committer holds this node's claims until what came of them is written down.

It gathers outcomes and writes them in batches, and renews the claims of attempts that are still
under way. Both are changes of the same rows by the same node, so one pass does both, and they
never race each other.
"""

import logging
import random
from collections import deque
from collections.abc import Callable, Sequence

from duetime import model
from duetime.clock import Clock, Millis, sleep
from duetime.engine.claim import Claim
from duetime.engine.members import Members
from duetime.errors import StoreError
from duetime.stores import Change, Store
from duetime.timer import Kind, Outcome, Timer

log = logging.getLogger("duetime.engine")

# How long, in seconds, the first outcome of a batch waits for more to share its write.
GATHER_FOR = 0.02

LARGEST = 1_000  # outcomes in one write, as many as the dispatcher claims in one
ENOUGH = 250  # outcomes that wait for no more

# While others are due and late, good outcomes wait longer, so that the next claim need not wait for
# their write: so many seconds, or until there are so many of them, or so heavy ones. If the node
# dies meanwhile, so many callbacks are repeated.
GATHER_BEHIND_FOR = 0.25
ENOUGH_BEHIND = 5_000
HEAVY = 64 * 1024 * 1024

# How long, in seconds, a node that is stopping waits for a store that is failing, before each of
# the last tries. What is not handed back then comes late: its claim must run out first.
LAST_PAUSES = (0.2, 1.0, 3.0)


class Committer:
    """Writes down what came of attempts."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        claim_for: Millis,
        members: Members,
        on_written: Callable[[Timer], None],
        wake: Callable[[], None],
        is_behind: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store = store
        self._clock = clock
        self._claim_for = claim_for
        self._members = members
        self._on_written = on_written
        self._wake = wake
        self._is_behind = is_behind  # there are timers that could be claimed at once
        self._look_every = claim_for / 8000  # seconds, for claims that must be renewed
        self._claims: dict[str, Claim] = {}
        self._ended: deque[Claim] = deque()
        self._ended_weight = 0
        self._is_patient = True  # all that have ended did so well: none waits to be tried again
        self._doubtful: list[Claim] = []  # a write of theirs failed: it may have landed
        self._renew_at = self._ended_since = clock.monotonic()

    def hold(self, claim: Claim) -> None:
        """Take charge of a claim."""
        self._claims[claim.timer.id] = claim

    def holds(self, id_: str) -> bool:
        """Tell whether a timer's claim is in hand here."""
        return id_ in self._claims

    def __len__(self) -> int:
        return len(self._claims)

    def end(self, claims: Sequence[Claim], outcome: Outcome) -> None:
        """Note down how attempts ended, to be written in the next pass."""
        for claim in claims:
            claim.outcome = outcome
        self.note(claims, are_good=outcome.ok)

    def note(self, claims: Sequence[Claim], *, are_good: bool) -> None:
        """Take note of claims that have outcomes, likewise; these are good, or others."""
        had = len(self._ended)
        self._ended_weight += sum([claim.timer.spec.weight for claim in claims])
        self._ended.extend(claims)
        if not are_good:
            self._is_patient = False
        if not had:
            self._ended_since = self._clock.monotonic()
            self._wake()
        elif had < ENOUGH <= len(self._ended):
            self._wake()

    async def gather(self) -> float:
        """Let outcomes gather for a moment before they are written: the step of its loop."""
        if (pause := self._gathering()) > 0:
            return pause
        return await self.step()

    def _gathering(self) -> float:
        """For how many more seconds it pays to gather outcomes before writing them.

        Nobody waits for this write, and a fuller batch costs hardly more than a small one.
        """
        if not self._ended:
            return 0
        now, since = self._clock.monotonic(), self._ended_since
        if self._is_patient and self._ended_weight < HEAVY and self._is_behind():
            longest = min(GATHER_BEHIND_FOR, self._look_every)
            is_enough = len(self._ended) >= ENOUGH_BEHIND or now >= since + longest
            return 0 if is_enough else GATHER_FOR
        return 0 if len(self._ended) >= ENOUGH else since + GATHER_FOR - now

    async def step(self) -> float:
        """Write a batch of outcomes and renewals."""
        if self._doubtful:
            await self._look_again()
        now = self._clock.now()
        ended = [self._ended.popleft() for _ in range(min(len(self._ended), LARGEST))]
        self._ended_weight -= sum([claim.timer.spec.weight for claim in ended])
        if len(self._ended) < LARGEST:  # these have come while others were written
            self._ended_since = self._clock.monotonic()
        self._is_patient = self._is_patient or not self._ended
        ended = [claim for claim in ended if self._claims.get(claim.timer.id) is claim]
        finishing = [(claim, self._finishing(claim, now)) for claim in ended]
        renewing = [
            (claim, Change(claim.timer, model.renew(claim.timer, now, self._claim_for)))
            for claim in self._claims_to_renew()
        ]
        if finishing or renewing:
            await self._write(finishing, renewing)
        return 0 if self._ended else self._look_every

    async def write_the_rest(self) -> None:
        """Write all outcomes, however few: this node is stopping."""
        for pause in (*LAST_PAUSES, None):
            try:
                while self._ended:
                    await self.step()
            except StoreError as error:
                if pause is not None:
                    await sleep(self._clock, pause)
                    continue
                log.warning(
                    "the store is failing (%s): %d claims could not be handed back; "
                    "they will be taken up when they run out",
                    error,
                    len(self),
                )
            return

    async def _write(
        self, finishing: list[tuple[Claim, Change]], renewing: list[tuple[Claim, Change]]
    ) -> None:
        asked_at, lease = self._clock.monotonic(), self._members.lease
        asked = finishing + renewing
        try:
            won = await self._store.apply([change for _, change in asked])
        except Exception:  # whatever it was, the write may have landed
            self._doubtful += [claim for claim, _ in asked]
            self._ended.extendleft(claim for claim, _ in reversed(finishing))
            self._ended_weight += sum([claim.timer.spec.weight for claim, _ in finishing])
            raise
        answers = iter(won)  # to those that finish first, then to the others
        for (claim, change), is_ours in zip(finishing, answers, strict=False):
            self._let_go(claim)
            if is_ours:
                self._on_written(change.new)
        for (claim, change), is_ours in zip(renewing, answers, strict=True):
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
            outcome = new.progress.outcome or outcome  # it may have been asked for too much
        return Change(
            claim.timer, new, attempt=model.attempt_record(claim.timer, new, outcome, now)
        )

    def _claims_to_renew(self) -> list[Claim]:
        now = self._clock.monotonic()
        if now < self._renew_at:
            return []
        self._renew_at = now + self._look_every
        half_over = now + self._claim_for / 2000
        return [
            claim
            for claim in self._claims.values()
            if claim.outcome is None and now < claim.holds_until < half_over
        ]

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
