"""The reader fills the agenda from the store.

It reads ahead: a short horizon of what comes up, each stretch of time once. Timers that this
node writes meanwhile are noticed without a read, if they fall into the stretch already read.
And it looks behind: whatever is due by now and in nobody's hands, be it late since a crash,
written by another node, left executing by a dead one, or crowded out of the agenda.
"""

from collections.abc import Callable, Collection

from duetime.clock import Clock, Millis
from duetime.engine.agenda import Agenda
from duetime.model import Timer
from duetime.stores import Due, Store

# Behind every timer that wakes at its time: no id sorts after this.
LAST_ID = "~"


class Reader:
    """Finds what is due soon, and what is late."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        agenda: Agenda,
        *,
        shards: Callable[[], Collection[int]],
        is_in_hand: Callable[[Timer], bool],
        turned_away: Callable[[], int],
        poll_every: float,
        horizon: Millis = 5_000,
        page: int = 1_000,
    ) -> None:
        self._store = store
        self._clock = clock
        self._agenda = agenda
        self._shards = shards
        self._is_in_hand = is_in_hand
        self._turned_away = turned_away
        self._turned_away_before = 0
        self._poll_every = poll_every
        self._horizon = horizon
        self._page = page
        self._read_shards: Collection[int] = ()
        self._ahead = Due(clock.now(), "")  # everything up to here has been read
        self._until = self._ahead.wake_at + horizon  # what is written below this is noticed
        self._behind: Due | None = None

    def notice(self, timer: Timer) -> bool:
        """Take note of a timer that was just written; tells whether it is on the agenda now."""
        now = self._clock.now()
        if timer.wake_at is None or timer.wake_at > self._until:
            self._agenda.forget(timer.id)
            return False
        if not self._agenda.has_room_for(timer, now):
            return False  # memory stays bounded: it will be found when it is late
        return self._agenda.put(timer, now)

    async def step(self) -> float:
        """Read a page of what is late and a page of what comes up."""
        now = self._clock.now()
        shards = self._shards()
        if shards != self._read_shards:
            self._read_shards, self._ahead, self._behind = shards, Due(now, ""), None
        if self._ahead.wake_at > now + 2 * self._horizon:  # the wall clock was set back
            self._ahead = Due(now, "")
        more_behind = await self._look_behind(now, shards)
        more_ahead = await self._read_ahead(now, shards)
        if self._turned_away() != self._turned_away_before:
            # A receiver is choking on its backlog: reading that again and again helps nobody.
            self._turned_away_before = self._turned_away()
            return self._poll_every / 10
        if more_behind or more_ahead:
            return 0
        is_half_way = self._behind is not None  # through a backlog that is in hand already
        return self._poll_every / 10 if is_half_way else self._poll_every

    async def _look_behind(self, now: Millis, shards: Collection[int]) -> bool:
        """Read a page of late timers; tells whether going on at once would find more."""
        if self._agenda.backlog_room < self._page:
            return False  # an hour's outage is read as it is worked off
        late, self._behind = await self._store.due(shards, self._behind, now, self._page)
        has_news = False
        for timer in late:
            if self._agenda.has_room_for(timer, now) and self._put(timer, now):
                has_news = True
        return has_news and self._behind is not None

    async def _read_ahead(self, now: Millis, shards: Collection[int]) -> bool:
        """Read a page of what comes up; tells whether there is more."""
        limit = min(self._agenda.room, self._page)
        if limit == 0:
            return False
        # Set before reading: what is written after this read began is noticed instead.
        until = now + self._horizon
        self._until = max(until, self._ahead.wake_at)
        if self._ahead.wake_at < now:
            self._ahead = Due(now, "")  # what lies between is found by looking behind
        if until <= self._ahead.wake_at:
            return False
        coming, more = await self._store.due(shards, self._ahead, until, limit)
        for timer in coming:
            self._put(timer, now)
        self._ahead = more or Due(until, LAST_ID)
        return more is not None and self._agenda.room > 0

    def _put(self, timer: Timer, now: Millis) -> bool:
        return not self._is_in_hand(timer) and self._agenda.put(timer, now)
