"""The dispatcher starts what is due: it claims timers in batches, and lets depart what was won.

A claim is a compare-and-set of the row to ``executing``. Whoever wins it may send, until the
claim runs out on its own monotonic clock, or the lease under which it was made; whoever loses it
does nothing.
"""

from collections.abc import Sequence

from duetime import model
from duetime.clock import Clock, Millis
from duetime.delivery import Sender
from duetime.engine.agenda import Agenda
from duetime.engine.claim import Claim
from duetime.engine.committer import Committer
from duetime.engine.departures import Departures
from duetime.engine.gates import Gates
from duetime.engine.holds import Holds
from duetime.engine.lead import Lead
from duetime.engine.members import Members
from duetime.engine.stride import FIRST, Stride
from duetime.engine.targets import Targets
from duetime.failures import Failures
from duetime.stores import Change, Store
from duetime.tenancy.target import name_of
from duetime.timer import Kind, Outcome, Status, Timer

# The wall clock may be set: never sleep longer than this on what it said.
LONGEST_SLEEP = 1.0

MOST = 500  # timers taken off the agenda in a pass, or as many as are claimed in one write
FEWEST = 100  # likewise, however many are claimed that waited already


class Dispatcher:
    """Starts timers that are due."""

    def __init__(
        self,
        node: str,
        store: Store,
        sender: Sender,
        clock: Clock,
        *,
        agenda: Agenda,
        members: Members,
        targets: Targets,
        committer: Committer,
        departures: Departures,
        claim_for: Millis,
        holds: Holds,
        failures: Failures,
        gates: Gates,
    ) -> None:
        self._node = node
        self._store = store
        self._sender = sender
        self._clock = clock
        self._agenda = agenda
        self._members = members
        self._targets = targets
        self._committer = committer
        self._departures = departures
        self._claim_for = claim_for
        self._holds = holds
        self._failures = failures
        self._gates = gates
        self._doubtful: dict[str, tuple[str, Claim]] = {}  # that may or may not have landed
        self._claiming: set[str] = set()
        self._stride = Stride()
        self._lead = Lead()

    async def step(self) -> float:
        """Claim a batch of what is due, and start sending what was won."""
        if self._doubtful:
            await self._look_again()
        self._departures.hand_back()
        if not self._members.lease.holds(self._clock.monotonic()):
            return LONGEST_SLEEP  # nothing could be sent; the next heartbeat wakes us
        now = self._clock.now()
        for name in self._gates.opened():
            self._targets.begin_anew(name)
        self._targets.recall_late(now)
        most = self._stride.most
        begun = self._targets.next_waiting(most)
        held: list[Change] = []
        # Also when the node is full: each then waits in its own receiver's queue, and not behind
        # all that is older.
        until = self._lead.until(now, self._agenda.next_in_time())
        limit = max(max(MOST, most) - len(begun), FEWEST)
        for timer in self._agenda.take(now, limit, until):
            if timer.status is Status.FAILED:
                self._failures.add(timer)
                continue
            if (hold_for := self._holds.hold_for(timer)) is not None:
                held.append(_holding(timer, now, hold_for))
                continue
            name = name_of(timer.tenant, self._sender.target(timer.spec.callback))
            if timer.status is Status.EXECUTING and self._gates.is_shut(name):
                held.append(_handing_back(timer, now))  # as it waits, it can be canceled again
                continue
            is_over = timer.spec.deadline is not None and _is_over(timer, now)
            may_start = len(begun) < most
            if self._targets.begin(name, timer, may_start=may_start, at_once=is_over):
                begun.append((name, timer))
        if begun or held:
            with self._holds.acting():
                await self._claim(begun, now, held)
        return self._pause()

    def _pause(self) -> float:
        if self._targets.free > 0 and self._targets.has_serveable():
            return 0  # on a node that is full, the next place that becomes free wakes us
        now, next_at = self._clock.now(), self._agenda.next_in_time()
        ahead = None if next_at is None else next_at - self._lead.millis
        times = (ahead, self._agenda.next_at(), self._targets.next_deadline())
        pauses = [max((at - now) / 1000, 0) for at in times if at is not None]
        waits = (self._targets.next_token(), self._gates.next_look())
        return min([LONGEST_SLEEP, *pauses, *(wait for wait in waits if wait is not None)])

    async def _claim(
        self, begun: list[tuple[str, Timer]], now: Millis, held: Sequence[Change] = ()
    ) -> None:
        began_at, lease = self._clock.monotonic(), self._members.lease
        holds_until = began_at + self._claim_for / 1000
        changes = [self._starting(timer, now) for _, timer in begun]
        claims = [
            Claim(timer=change.new, holds_until=holds_until, lease=lease) for change in changes
        ]
        self._claiming = {timer.id for _, timer in begun}
        try:
            # What is held needs no further look: if that fails, it is still due, and found again.
            won = await self._store.apply([*changes, *held])
            took = self._clock.monotonic() - began_at
            self._stride.learn(len(changes), took)
            self._lead.learn(took)
        except Exception:  # whatever it was, the write may have landed
            for (name, _), claim in zip(begun, claims, strict=True):
                self._doubt(name, claim)
            raise
        finally:
            self._claiming = set()
        for (name, timer), claim, is_ours in zip(begun, claims, won, strict=False):
            if is_ours and claim.timer.status is Status.EXECUTING:
                self._departures.depart(name, claim)
            else:
                self._targets.leave(name, timer)
                if is_ours and claim.timer.status is Status.FAILED:
                    self._agenda.put(claim.timer, now)  # if somebody is to be told of it

    def _starting(self, timer: Timer, now: Millis) -> Change:
        if (hold_for := self._holds.hold_for(timer)) is not None:
            return _holding(timer, now, hold_for)  # paused while it waited for its receiver
        if timer.status is Status.EXECUTING:  # whoever claimed it is gone, or let the claim run out
            return _lost(timer, model.take_up(timer, self._node, now, self._claim_for), now)
        if model.is_too_late(timer, now):
            return Change(timer, model.expire(timer, now))
        due_at = now if timer.wake_at is None else max(timer.wake_at, now)
        return Change(timer, model.claim(timer, self._node, due_at, self._claim_for))

    def _doubt(self, name: str, claim: Claim) -> None:
        """Keep a claim that may have landed; of two of one timer, that of the newer version.

        The other cannot have won: it was made of a timer that has changed since.
        """
        other = self._doubtful.get(claim.timer.id)
        if other is not None and other[1].timer.version > claim.timer.version:
            self._targets.leave(name, claim.timer)
            return
        if other is not None:
            self._targets.leave(other[0], other[1].timer)
        self._doubtful[claim.timer.id] = (name, claim)

    @property
    def is_behind(self) -> bool:
        """Tell whether timers are due that could be claimed at once, or many that just are."""
        if self._targets.has_serveable() or len(self._claiming) >= FIRST:
            return True
        next_at = self._agenda.next_at()
        return next_at is not None and next_at <= self._clock.now()

    def is_in_hand(self, id_: str, version: int) -> bool:
        """Tell whether a timer is past the agenda here, so that it need not be read again.

        Its claim is held, or being written, or may have landed unheard; or it waits for a place, or
        to be told of.
        """
        return (
            self._committer.holds(id_)
            or id_ in self._claiming
            or id_ in self._doubtful
            or self._targets.is_waiting(id_, version)
            or self._failures.has(id_, version)
        )

    async def stop(self) -> None:
        """Hand back what was claimed and has not been started."""
        self._departures.hand_back(0)
        if self._doubtful:
            await self._look_again()
            self._departures.hand_back(0)

    async def _look_again(self) -> None:
        """Find out which of the claims whose write failed have landed."""
        stored = await self._store.get(list(self._doubtful))
        doubtful, self._doubtful = self._doubtful, {}
        for (name, claim), timer in zip(doubtful.values(), stored, strict=True):
            # What looks like this claim may be an earlier one that is being delivered already: a
            # copy of the timer that was read before it can have come this far, and lost.
            is_held = self._committer.holds(claim.timer.id)
            if timer is not None and claim.is_as_stored(timer) and not is_held:
                self._departures.depart(name, claim)
            else:  # the reader will come across it again
                self._targets.leave(name, claim.timer)


def _is_over(timer: Timer, now: Millis) -> bool:
    """Tell whether a timer is only to be ended: its deadline has passed."""
    return timer.status is Status.PENDING and model.is_too_late(timer, now)


def _handing_back(timer: Timer, now: Millis) -> Change:
    """Make a timer pending whose attempt is lost, and whose receiver nothing may be sent to."""
    return _lost(timer, model.release(timer, now, was_sent=True), now)


def _holding(timer: Timer, now: Millis, hold_for: Millis) -> Change:
    """Put a timer to sleep; the attempt of one that was executing is lost."""
    new = model.hold(timer, now, hold_for)
    return _lost(timer, new, now) if timer.status is Status.EXECUTING else Change(timer, new)


def _lost(timer: Timer, new: Timer, now: Millis) -> Change:
    """A change that begins with the end of an attempt of which nobody knows more."""
    # Which node that was stands in the attempt; a tenant may not be told its name.
    lost = Outcome(kind=Kind.LOST, error="its node was gone before the outcome was known")
    return Change(timer, new, attempt=model.attempt_record(timer, new, lost, now))
