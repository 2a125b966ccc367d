"""The relay publishes what is in the outbox, and forgets it when the stream has it.

It starts from the oldest event that is there, every time: so whatever crashed or was lost in
between, nothing is passed over. An event that is published twice has the same message id.

Those of one timer stay in order, whatever becomes of servers and acknowledgements, because the next
one is published when the one before is acknowledged, and not earlier. So a batch is published in
waves, each with one event at most of a timer. What the stream refuses holds up its timer alone.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from duetime import ids
from duetime.clock import Clock, Millis, time_limit
from duetime.errors import JetStreamError, NatsError, NatsUnavailable, NoResponders, StoreError
from duetime.events.round import Round
from duetime.stores import Store
from duetime.timer import Event

log = logging.getLogger("duetime.events")

BATCH = 1_000
GATHER_FOR = 0.01  # seconds, after something was written: more may follow
MANY = 64  # events of one pass: then more gather, for a pass costs as much as many events ...
REST = 0.05  # ... in so many seconds
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
PATIENCE = 4  # times as long as a round took, in which something was refused, until the next
DEEP_EVERY = 30.0  # seconds: so seldom a stream that refuses a whole batch is asked for the next
# Ids begin with a time. What was published leaves traces in a store, which cost whoever reads past
# them; so reading begins so much before the oldest that was there last, and from the very beginning
# only now and then: for what a node has written whose clock is behind by more than that.
SLACK: Millis = 120_000
WHOLE_EVERY = 300.0  # seconds
LATE: Millis = 100  # an engine that is later than this goes first ...
BREATH = 0.2  # ... but no batch waits longer for it, in seconds


class Stream(Protocol):
    """Where events are published to."""

    async def make(self) -> None:
        """Create it, unless it is there."""

    async def publish(self, events: Sequence[Event]) -> list[NatsError | None]:
        """Publish all at once; of each, why it was not stored, or None if it was."""


class Tenure(Protocol):
    """What a node has to itself."""

    def holds(self) -> bool:
        """Tell whether what this node has is still its own."""

    def shards(self) -> Collection[int]:
        """The shards that this node has to itself now."""


def _nothing() -> None:
    pass


class Relay:
    """Publishes the events of a node's shards.

    ``before_publishing`` and ``before_forgetting`` are called where a crash would matter most.
    """

    def __init__(
        self,
        store: Store,
        stream: Stream,
        clock: Clock,
        *,
        tenure: Tenure,
        poll_every: float = 1.0,
        lag: Callable[[], Millis] = lambda: 0,
    ) -> None:
        self._store = store
        self._stream = stream
        self._clock = clock
        self._tenure = tenure
        self._poll_every = poll_every
        self._lag = lag
        self.wake: Callable[[], None] = _nothing
        self.before_publishing: Callable[[], None] = _nothing
        self.before_forgetting: Callable[[], None] = _nothing
        self._is_made = False
        self._is_gathering = False
        self._written: set[int] = set()  # shards in which this node has written events since
        self._own: Collection[int] = ()  # the shards at the last look at all of them
        self._look_at = 0.0  # when to look at all of them again
        self._whole_at = 0.0  # when to do so from the very beginning
        self._floor: str | None = None
        self._rests_until = 0.0
        self._round: Round | None = None  # that goes on behind what was refused
        self._round_at = 0.0  # when the last one began
        self._deep_at = 0.0  # when one goes on although all was refused
        self._failures = 0
        self._since: float | None = None  # when it began to fail
        self._complaints: set[str] = set()  # what was logged of it
        self._has_told_of_the_rest = False
        self.published = 0

    @property
    def is_failing(self) -> bool:
        """Tell whether events cannot be published now."""
        return self._since is not None

    def heed(self, shards: Collection[int]) -> None:
        """Take note that events were written here, in these shards."""
        self._written.update(shards)
        if not self._is_gathering:
            self._is_gathering = True
            self._clock.alarm(GATHER_FOR, self._gathered)

    def _gathered(self) -> None:
        self._is_gathering = False
        self.wake()

    async def step(self) -> float:
        """Publish a batch of what is in the outbox."""
        now = self._clock.monotonic()
        if now < self._rests_until:
            return self._rests_until - now
        if self._round is None:
            self._round_at = now
        try:
            await self._make()  # also without an event: whoever wants to read finds the stream
            count = await self._relay()
        except Exception as error:
            self._look_at = 0.0  # whatever was written meanwhile
            if isinstance(error, NatsError):
                return self._failed(error)
            raise
        if count >= BATCH:
            self._look_at = 0.0
            if self._lag() > LATE:
                return self._rest(BREATH)
            # While this node goes on writing, both have half of the time.
            took = self._clock.monotonic() - now
            return self._rest(min(took, BREATH)) if self._written else 0
        if count >= MANY:
            self._rest(REST)
        return max(self._look_at - self._clock.monotonic(), 0)

    def _rest(self, seconds: float) -> float:
        """Do nothing for so long, whoever asks."""
        self._rests_until = self._clock.monotonic() + seconds
        return seconds

    async def finish(self, within: float) -> None:
        """Publish what there is, as far as that can be done in so many seconds."""
        self._round = None
        try:
            async with time_limit(self._clock, within):
                while await self._relay(whole=True):
                    pass
        except (NatsError, StoreError, TimeoutError) as error:
            why = str(error) or "there was no time left"
            if self._has_told_of_the_rest:  # a node that is alone tries twice
                return
            self._has_told_of_the_rest = True
            log.warning("not all events were published before the end: %s; they wait", why)

    async def _relay(self, *, whole: bool = False) -> int:
        """Publish the oldest events, or the next ones of a round; how many there were."""
        round_, self._round = self._round, None
        if round_ is None:
            began_at = self._clock.now()
            shards, events = await self._oldest(whole=whole)
            round_ = Round(shards, began_at)
        else:
            shards = set(self._tenure.shards()).intersection(round_.shards)
            events = await self._store.events(shards, round_.cursor, BATCH) if shards else []
            events = round_.old_enough(events)
        if events:
            await self._publish(round_, round_.open(events))
        if round_.error is None:
            if events:
                self._recovered(events[0])
            elif self._own and self._is_made:
                # Nothing waits there, for after a failure all of them are looked at.
                self._recovered(None)
            return len(events)
        if len(events) < BATCH or round_.is_full or not self._goes_on(round_):
            if round_.stored:
                self._failures = 0  # the others need not wait so long
            raise round_.error
        round_.cursor = events[-1].id
        self._round = round_
        return len(events)

    async def _publish(self, round_: Round, events: Sequence[Event]) -> None:
        await self._make()
        self.before_publishing()
        stored, refused, lost = await self._in_waves(events)
        if stored:
            self.before_forgetting()
            await self._store.published(stored)
            self.published += len(stored)
            round_.stored += len(stored)
            self._deep_at = 0.0
        if any(isinstance(error, NoResponders | JetStreamError) for error in refused.values()):
            self._is_made = False  # somebody may have deleted it
        round_.refuse(refused)
        if lost is not None:
            raise lost

    async def _make(self) -> None:
        if not self._is_made:
            await self._stream.make()
            self._is_made = True

    def _goes_on(self, round_: Round) -> bool:
        """Tell whether to look behind a batch of which something was refused.

        If that is all of it, the next will hardly fare better: the stream may be full, or gone. But
        it may, so it is tried now and then.
        """
        now = self._clock.monotonic()
        if round_.stored or round_.cursor is not None:
            return True
        if now < self._deep_at:
            return False
        self._deep_at = now + DEEP_EVERY
        return True

    async def _oldest(self, *, whole: bool) -> tuple[Collection[int], list[Event]]:
        """The oldest events: of the shards in which some were just written, or of all."""
        own, now = self._tenure.shards(), self._clock.monotonic()
        written, self._written = self._written, set()
        if own is not self._own and not set(own) <= set(self._own):
            whole = True
        if not whole and now < self._look_at:
            shards = written.intersection(own)
            written_here = await self._store.events(shards, self._floor, BATCH) if shards else []
            return shards, written_here
        if whole or now >= self._whole_at:
            self._floor = None
        events = await self._store.events(own, self._floor, BATCH) if own else []
        if self._floor is None:
            self._whole_at = now + WHOLE_EVERY
        self._own = own
        at = self._clock.now()
        oldest = min(ids.time_of(events[0].id), at) if events else at
        self._floor = ids.first_at(oldest - SLACK)
        self._look_at = now + self._poll_every
        return own, events

    async def _in_waves(
        self, events: Sequence[Event]
    ) -> tuple[list[str], dict[str, NatsError], NatsUnavailable | None]:
        """Publish events: those that are stored, why timers are held up, and what broke it off."""
        stored: list[str] = []
        refused: dict[str, NatsError] = {}
        waiting: dict[str, list[Event]] = {}  # of each timer, the next one at the end
        for event in reversed(events):
            waiting.setdefault(event.timer, []).append(event)
        lost: NatsUnavailable | None = None
        while waiting and lost is None and self._tenure.holds():
            wave = [queue.pop() for queue in waiting.values()]
            for event, error in zip(wave, await self._stream.publish(wave), strict=True):
                if error is None:
                    stored.append(event.id)
                    if waiting[event.timer]:
                        continue
                elif isinstance(error, NatsUnavailable):
                    lost = lost or error
                else:
                    refused[event.timer] = error
                del waiting[event.timer]
        return stored, refused, lost

    def _failed(self, error: NatsError) -> float:
        if self._since is None:
            self._since = self._clock.monotonic()
        complaint = str(error) if isinstance(error, JetStreamError) else type(error).__name__
        if complaint not in self._complaints:  # a server that is away is so in many words
            self._complaints.add(complaint)
            log.warning("events cannot be published: %s; they wait, and nothing is lost", error)
        pause: float = FIRST_PAUSE * 2**self._failures
        if not isinstance(error, NatsUnavailable):
            pause = max(pause, PATIENCE * (self._clock.monotonic() - self._round_at))
        self._failures = min(self._failures + 1, 10)
        return self._rest(min(pause, LONGEST_PAUSE))

    def _recovered(self, oldest: Event | None) -> None:
        if self._since is not None:
            seconds = self._clock.monotonic() - self._since
            if oldest is None:
                log.info("events can be published again after %.1f s; none has waited", seconds)
            else:
                age = (self._clock.now() - ids.time_of(oldest.id)) / 1000
                log.info(
                    "events are published again after %.1f s; the oldest is of %.1f s ago",
                    seconds,
                    age,
                )
            self._complaints.clear()
        self._since, self._failures = None, 0
