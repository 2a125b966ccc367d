"""Departures carry what is claimed to its sender, as soon as its receiver has a place free.

A claim costs a commit, so while a receiver takes callbacks quickly they are claimed in batches,
somewhat ahead. What has not left after a moment is handed back, and can be cancelled again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from itertools import groupby

from duetime.clock import Clock, Millis
from duetime.delivery import Courier, Post, Sender
from duetime.engine.armed import Armed
from duetime.engine.claim import Claim
from duetime.engine.committer import Committer
from duetime.engine.errands import Errands
from duetime.engine.gates import Gates
from duetime.engine.holds import Holds
from duetime.engine.parcels import Parcels
from duetime.engine.targets import Targets
from duetime.timer import Kind, Outcome

log = logging.getLogger("duetime.engine")

LONGEST_WAIT = 1.0  # seconds that a claim waits for a place; nobody can cancel it meanwhile

# How long, in seconds, a callback that was told to end may take to do so. It has nothing to wait
# for then, so one that takes longer hangs, and must not keep the process from ending.
LAST_CHANCE = 1.0

_NOT_STARTED = Outcome(kind=Kind.UNSENT)
_STOPPED = Outcome(kind=Kind.LOST, error="the node stopped before the answer came")


class Departures:
    """Delivers claims, to each receiver as many at once as it has places.

    Each place of a receiver is a task that delivers one claim after the other, as long as there
    are some: a task for each would cost more than all that the engine does for a timer. What the
    sender can begin without waiting needs no task, and what is posted needs no place either.
    """

    def __init__(
        self,
        clock: Clock,
        sender: Sender,
        *,
        targets: Targets,
        committer: Committer,
        holds: Holds,
        gates: Gates | None = None,
    ) -> None:
        self._clock = clock
        self._sender = sender
        self._targets = targets
        self._committer = committer
        self._holds = holds
        self._gates = gates or Gates(clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._places: dict[str, int] = {}
        self._ready: dict[str, deque[tuple[float, Claim]]] = {}
        self._armed = Armed(clock, self.depart)
        self._errands: Errands | None = None
        if isinstance(sender, Courier):
            self._errands = Errands(
                sender, may_be_sent=self._may_go, on_end=self._end_errands, lost=_STOPPED
            )
        self._parcels: Parcels | None = None
        if isinstance(sender, Post):
            self._parcels = Parcels(
                sender, sendable=self._sendable, on_end=self._end, lost=_STOPPED
            )

    def depart(self, name: str, claim: Claim) -> None:
        """Deliver a claim as soon as it is due and its receiver has a place free."""
        self._committer.hold(claim)
        due_at = claim.timer.progress.claimed_at
        if due_at is not None and due_at > self._clock.now():
            self._armed.add(due_at, name, claim)
            return
        if self._parcels is not None and self._parcels.takes(claim.timer):
            self._parcels.send(name, claim)
            return
        ready = self._ready.get(name)
        if ready is None:
            ready = self._ready[name] = deque()
        ready.append((self._clock.monotonic(), claim))
        if self._places.get(name, 0) < self._targets.places(name):
            self._start(name)

    def hand_back(self, waited: float = LONGEST_WAIT) -> None:
        """Make what has waited for so long pending again, as if it had not been claimed."""
        for name, claim in self.take_back(waited):
            self._committer.end([claim], _NOT_STARTED)
            self._targets.leave(name, claim.timer)

    def take_back(self, waited: float = LONGEST_WAIT) -> list[tuple[str, Claim]]:
        """Take out what has waited for so long, and what waits for a receiver that is shut."""
        since = self._clock.monotonic() - waited
        taken = self._armed.take_back(since)
        for name, ready in list(self._ready.items()):
            is_shut = self._gates.is_shut(name)
            while ready and (is_shut or ready[0][0] <= since):
                taken.append((name, ready.popleft()[1]))
            if not ready:
                del self._ready[name]
        return taken

    async def finish(self, seconds: float) -> None:
        """Wait for the callbacks under way; what has not ended after so long is given up."""
        others = [each for each in (self._errands, self._parcels) if each is not None]
        count = len(self._tasks) + sum(map(len, others))
        if not count:
            return
        log.info("stopping: waiting up to %.0f s for %d callbacks under way", seconds, count)
        all_ended = asyncio.Event()
        waiting = asyncio.ensure_future(self._all_end(others))
        waiting.add_done_callback(lambda _: all_ended.set())
        if not await self._clock.wait(all_ended, seconds):
            self.hand_back(0)  # or those that are given up would make way for it
            await asyncio.sleep(0)  # a task that has not begun could not say that it was given up
            given_up = len([task for task in self._tasks if task.cancel()])
            given_up += sum(each.give_up() for each in others)
            log.info("stopping: handing back %d callbacks", given_up)
            await self._clock.wait(all_ended, LAST_CHANCE)
        waiting.cancel()

    async def _all_end(self, others: Sequence[Errands | Parcels]) -> None:
        while self._tasks or any(map(len, others)):  # the next one in a place may be of any kind
            if self._tasks:
                await asyncio.wait(list(self._tasks))
            for each in others:
                await each.all_ended()

    def _start(self, name: str) -> None:
        # It is given its first claim at once: what a place was found for is not taken back.
        self._places[name] = self._places.get(name, 0) + 1
        _, claim = self._ready[name].popleft()
        self._send(name, claim)

    def _send(self, name: str, claim: Claim) -> None:
        """Deliver a claim, in a place that was taken for it."""
        if self._errands is None or not self._errands.begin(name, claim):
            task = asyncio.create_task(self._work(name, claim))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self, name: str, claim: Claim) -> None:
        is_an_errands = False  # the place: no task is needed for it any more
        try:
            await self._deliver(name, claim)
            while (following := self._next(name)) is not None:
                if self._errands is not None and self._errands.begin(name, following):
                    is_an_errands = True
                    return
                await self._deliver(name, following)
        finally:
            if not is_an_errands:
                self._vacate(name)

    def _next(self, name: str) -> Claim | None:
        """The next one for a place that is free again, and what a place that was earned is for."""
        ready = self._ready.get(name)
        if not ready:
            return None
        places = self._targets.places(name)
        if self._places[name] > places:
            return None  # it has lost some; there are others to go on
        if self._places[name] < places and len(ready) > 1:
            self._start(name)
        return ready.popleft()[1]

    def _vacate(self, name: str) -> None:
        self._places[name] -= 1
        if self._places[name] == 0:
            del self._places[name]
            if not self._ready.get(name):
                self._ready.pop(name, None)

    async def _deliver(self, name: str, claim: Claim) -> None:
        outcome = _STOPPED
        try:
            # What is on the way to a receiver that was shut is not even to look up its address.
            if not self._gates.may_send(name, claim.timer.id):
                outcome = _NOT_STARTED
            else:
                outcome = await self._sender.send(claim.timer, lambda: self._may_go(name, claim))
        finally:
            self._end(name, [claim], outcome)

    def _end(self, name: str, claims: Sequence[Claim], outcome: Outcome) -> None:
        """Take note of what came of some that went to one receiver."""
        self._committer.end(claims, outcome)
        self._learn(name, claims, outcome)

    def _end_errands(self, name: str, claims: Sequence[Claim]) -> None:
        """Take note of what came of errands to one receiver, and send the next ones."""
        for are_good, those in groupby(claims, _is_good):
            alike = list(those)
            self._committer.note(alike, are_good=are_good)
            # What went well is learned once for all, and of what did not, each counts.
            for some in [alike] if are_good else [[claim] for claim in alike]:
                self._learn(name, some, some[0].outcome or _STOPPED)
        for _ in claims:
            if (claim := self._next(name)) is None:
                self._vacate(name)
            else:
                self._send(name, claim)

    def _learn(self, name: str, claims: Sequence[Claim], outcome: Outcome) -> None:
        timers = [claim.timer for claim in claims]
        if self._gates.ended(name, timers, outcome):
            self._targets.begin_anew(name)
        self._targets.end(name, timers, outcome.kind)

    def _sendable(self, name: str, claims: Sequence[Claim]) -> list[Claim]:
        """Those that may be sent to a receiver now."""
        now, monotonic = self._clock.now(), self._clock.monotonic()
        return [claim for claim in claims if self._may_be_sent(name, claim, now, monotonic)]

    def _may_go(self, name: str, claim: Claim) -> bool:
        return self._may_be_sent(name, claim, self._clock.now(), self._clock.monotonic())

    def _may_be_sent(self, name: str, claim: Claim, now: Millis, monotonic: float) -> bool:
        if self._holds.is_held(claim.timer) or not self._gates.may_send(name, claim.timer.id):
            return False
        return claim.may_be_sent(now, monotonic)


def _is_good(claim: Claim) -> bool:
    return claim.outcome is not None and claim.outcome.ok
