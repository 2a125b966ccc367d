"""The engine: finds what is due, claims it, delivers it, and writes down what came of it.

    store --reader--> agenda --dispatcher--> sender --> committer --> store
    members: who looks after what; herald: tells others of theirs; heir: takes up what the dead left

Each part is a ``step`` that does one pass; this module puts them together in one task group and
stops them in the right order.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

from duetime.clock import Clock, Millis, sleep
from duetime.delivery import Post, Sender
from duetime.engine.agenda import Agenda
from duetime.engine.breaker import Breakers
from duetime.engine.bulletin import Bulletin
from duetime.engine.committer import Committer
from duetime.engine.departures import Departures
from duetime.engine.dispatcher import Dispatcher
from duetime.engine.gates import Gates
from duetime.engine.heir import Heir
from duetime.engine.herald import Herald
from duetime.engine.holds import Holds
from duetime.engine.janitor import Janitor
from duetime.engine.loop import Loop, Step, Trouble
from duetime.engine.members import Members, always_admitted
from duetime.engine.notices import Notices
from duetime.engine.reader import Reader
from duetime.engine.targets import Targets
from duetime.engine.tenure import Tenure
from duetime.engine.throttles import Throttles
from duetime.errors import ConfigurationError, StoreError, StoreUnavailable
from duetime.failures import Failures
from duetime.nodes import EngineStatus, NodeRecord, NodeStatus, TargetReport
from duetime.stores import News, Store
from duetime.tenancy.meter import Meter
from duetime.tenancy.rules import Rules
from duetime.timer import Timer

log = logging.getLogger("duetime.engine")

Ending: TypeAlias = Callable[[float], Awaitable[None]]  # within so many seconds; it does not raise

# A part whose next pass is overdue for so long, in seconds, is not alive: it hangs in a call. One
# whose call fails is alive, for it tries again.
STALLED = 15.0

# Seconds for what is left of chores at the very end, if all that there was are used up.
LAST_CHORES = 0.5


class Engine:
    """One node's engine.

    ``readmit`` raises ConfigurationError if a node that was away may not go on with this store.
    ``has_ended`` tells whether the node of a record is known to have ended.
    """

    def __init__(
        self,
        node: str,
        store: Store,
        sender: Sender,
        clock: Clock,
        *,
        claim_for: Millis = 10_000,
        poll_every: float = 1.0,
        max_in_flight: int = 1_000,
        target_concurrency: int = 128,
        breaker_failures: int = 10,
        breaker_longest_pause: Millis = 300_000,
        retention: Millis | None = None,
        readmit: Callable[[], Awaitable[None]] = always_admitted,
        has_ended: Callable[[NodeRecord], bool] = lambda _: False,
        rules: Rules | None = None,
        meter: Meter | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        trouble = self._trouble = Trouble(clock)
        self._dispatching = Loop("dispatcher", clock, trouble)
        self._reading = Loop("reader", clock, trouble, then=self._dispatching.wake)
        self._committing = Loop("committer", clock, trouble)
        self._inheriting = Loop("heir", clock, trouble, then=self._dispatching.wake)
        self._telling = Loop("herald", clock, trouble)
        self._cleaning = Loop("janitor", clock, trouble)
        self.agenda = Agenda(
            lambda: rules is not None and rules.is_shared, on_room=self._reading.wake
        )
        self.failures = Failures()
        holds = Holds(rules)
        breakers = Breakers(
            clock, most_failures=breaker_failures, longest_pause=breaker_longest_pause
        )
        self.gates = gates = Gates(clock, rules, breakers)
        throttles = Throttles(node, clock, rules)
        self.targets = Targets(
            per_target=target_concurrency,
            total=max_in_flight,
            throttles=throttles,
            on_room=self._reading.wake,
            on_free_place=self._dispatching.wake,
            gates=gates,
            is_posted=lambda timer: isinstance(sender, Post) and sender.posts(timer.spec.callback),
        )
        self.bulletin = Bulletin(gates, self.targets)
        throttles.waiting = self.targets.waiting_by_limit
        self.members = Members(
            node,
            store,
            clock,
            ttl=claim_for,
            behind=lambda: self.status().behind_ms,
            on_death=self._on_death,
            readmit=readmit,
            has_ended=has_ended,
            holds=holds,
            meter=meter,
            bulletin=self.bulletin,
            throttles=throttles,
        )
        self.tenure = Tenure(self.members, clock)
        self._meter = meter
        self._lingering = Loop("leaving", clock, trouble)
        self._meeting = Loop("members", clock, trouble, longest_pause=self.members.beat_every)
        if rules is not None:
            rules.on_change = self._meeting.wake  # the others wait to see that this node obeys
        self.is_barred = asyncio.Event()  # it may not go on: all that is left is to stop
        self.committer = Committer(
            store,
            clock,
            claim_for=claim_for,
            members=self.members,
            on_written=self._on_written,
            wake=self._committing.wake,
            is_behind=lambda: self.dispatcher.is_behind,
        )
        self.departures = Departures(
            clock,
            sender,
            targets=self.targets,
            committer=self.committer,
            holds=holds,
            gates=gates,
        )
        self.dispatcher = Dispatcher(
            node,
            store,
            sender,
            clock,
            agenda=self.agenda,
            members=self.members,
            targets=self.targets,
            committer=self.committer,
            departures=self.departures,
            claim_for=claim_for,
            holds=holds,
            failures=self.failures,
            gates=gates,
        )
        self.herald = Herald(store, wake=self._telling.wake)
        self.reader = Reader(
            store,
            clock,
            self.agenda,
            members=self.members,
            targets=self.targets,
            herald=self.herald,
            is_in_hand=self.dispatcher.is_in_hand,
            failures=self.failures,
            poll_every=poll_every,
        )
        self.notices = Notices(
            clock,
            self.agenda,
            members=self.members,
            herald=self.herald,
            reader=self.reader,
            targets=self.targets,
            wake=self._dispatching.wake,
        )
        self.heir = Heir(
            store,
            clock,
            self.agenda,
            members=self.members,
            is_in_hand=self.dispatcher.is_in_hand,
            wake=self._inheriting.wake,
        )
        self.janitor = Janitor(store, clock, members=self.members, retention=retention)
        self._steps: dict[Loop, Step] = {
            self._reading: self.reader.step,
            self._dispatching: self.dispatcher.step,
            self._committing: self.committer.gather,
            self._meeting: self._meet,
            self._inheriting: self.heir.step,
            self._telling: self.herald.step,
            self._cleaning: self.janitor.step,
            self._lingering: self.members.linger,
        }
        self._chores: dict[Loop, Step] = {}
        self._endings: dict[Loop, Ending] = {}

    def add_chore(self, name: str, step: Step, finish: Ending | None = None) -> Callable[[], None]:
        """Do this beside the engine's own work, as long as it runs; the answer wakes it.

        ``finish`` is what remains to be done while this node has its shards to itself still.
        """
        chore = Loop(name, self._clock, self._trouble)
        self._chores[chore] = step
        if finish is not None:
            self._endings[chore] = finish
        return chore.wake

    def notice(self, timer: Timer) -> None:
        """Take note of a timer that was just written, so that it need not be found by a poll."""
        self.notices.notice(timer)

    def _on_written(self, timer: Timer) -> None:
        if self._meter is not None:
            self._meter.ended(timer)
        self.notice(timer)

    def status(self) -> EngineStatus:
        """How it is doing."""
        now = self._clock.now()
        due = (self.agenda.next_at(), self.targets.oldest_waiting())
        oldest = min((at for at in due if at is not None), default=now)
        return EngineStatus(
            alive=all(loop.is_late_by() < STALLED for loop in self._steps),
            writable=self.members.is_writing,
            behind_ms=max(now - oldest, 0),
        )

    def nodes(self) -> list[NodeStatus]:
        """Every node that is known."""
        return self.members.nodes()

    def targets_here(self) -> dict[str, TargetReport]:
        """What this node has to tell of its receivers, by their names among all tenants."""
        return self.bulletin.reports()

    def target_here(self, name: str) -> TargetReport:
        """What this node has to tell of one of them."""
        return self.bulletin.report(name)

    def shares(self) -> dict[str, list[int]]:
        """Which shards fall to whom, as this node sees it."""
        return self.members.shares()

    def hear(self, news: News) -> None:
        """Listen to what other nodes announce."""
        if news.is_about_nodes or news.is_about_rules:
            self._meeting.wake()
        if self.reader.hear(news.waking):
            self._reading.wake()

    def lag(self) -> Millis:
        """How late the most overdue timer is that came up in time, and was not taken up since."""
        now = self._clock.now()
        next_at = self.agenda.next_in_time()
        return 0 if next_at is None else max(now - next_at, 0)

    async def join(self) -> None:
        """Show that this node is there, before it does anything else; StoreError if that fails."""
        await self.members.step()
        self.tenure.look()
        if not self.members.is_writing:
            raise StoreUnavailable("this node's record could not be written")

    async def leave_no_trace(self) -> None:
        """Take away all that shows that this node is there: it has ended, or never came in."""
        with suppress(StoreError):
            await self.members.leave_no_trace()

    async def run(self) -> None:
        """Work until stopped."""
        self._store.listen(self.hear)
        async with asyncio.TaskGroup() as group:
            for loop, step in (self._steps | self._chores).items():
                group.create_task(loop.run(step), name=loop.part)

    async def stop(self, drain_for: float) -> None:
        """Hand over to the other nodes, then claim nothing more, finish what is under way within
        the time given, and hand back the rest.

        ``run`` returns once this is done. To ``leave_no_trace`` is what remains, when nothing else
        of this node works on the store any more.
        """
        drained_by = self._clock.monotonic() + drain_for
        for loop in (self._cleaning, self._inheriting, *self._chores):
            loop.stop()
        drain_for -= await self._finish_chores(drain_for)
        self._meeting.stop()
        was_alone = self.members.is_alone
        if not was_alone:
            drain_for -= await self._hand_over(drain_for)
        self.notices.is_starting = False
        for loop in (self._reading, self._dispatching):
            loop.stop()
        await self._clock.wait(self._dispatching.ended, drain_for)
        await self._leave(drain_for)
        with suppress(StoreError):
            await self.dispatcher.stop()
        await self.departures.finish(drain_for)
        await self._leave(drain_for)  # if the store has failed so far
        self._committing.stop()
        await self._clock.wait(self._committing.ended, drain_for)
        await self.committer.write_the_rest()
        for loop in (self._telling, self._lingering):
            loop.stop()
        await self.herald.tell_the_rest()
        with suppress(StoreError):
            if was_alone and self._endings and await self.members.is_nobody_there():
                left = max(drained_by - self._clock.monotonic(), LAST_CHORES)
                await self._finish_chores(min(drain_for, 4 * left))

    async def _finish_chores(self, drain_for: float) -> float:
        """Do what remains of chores that must not be left to others; answers how long that took."""
        began_at = self._clock.monotonic()
        for loop, finish in self._endings.items():
            limit = began_at + drain_for / 4 - self._clock.monotonic()
            if await self._clock.wait(loop.ended, max(limit, 0)):
                limit = began_at + drain_for / 4 - self._clock.monotonic()
                await finish(max(limit, 0))
        return min(self._clock.monotonic() - began_at, drain_for)

    async def _hand_over(self, drain_for: float) -> float:
        """Leave, and go on until the others have taken over; answers how long that took.

        Both look at the same shards for a while, so that no timer is late for it.
        """
        began_at = self._clock.monotonic()
        if await self._leave(drain_for):
            overlap = min(self.members.handover_time, drain_for / 2)
            await sleep(self._clock, overlap)
        return min(self._clock.monotonic() - began_at, drain_for)

    async def _leave(self, drain_for: float) -> bool:
        """Let others take over the shards at once; the claims do not depend on it."""
        await self._clock.wait(self._meeting.ended, drain_for)
        if not self.members.has_left:
            with suppress(StoreError):
                await self.members.leave(drain_for)
            self._lingering.wake()
        return self.members.has_left

    async def _meet(self) -> float:
        before = self.members.shards
        try:
            pause = await self.members.step()
        except ConfigurationError as error:
            log.error("this node was away, and may not go on: %s", error)  # noqa: TRY400 - no trace helps
            self.is_barred.set()
            return self.members.beat_every
        self.tenure.look()
        if self.members.shards is not before:
            self._reading.wake()
        self._dispatching.wake()  # it sleeps while there is no lease
        return pause

    def _on_death(self, dead: dict[str, Millis]) -> None:
        self.heir.inherit(dead)
