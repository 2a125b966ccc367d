"""The reader fills the agenda from the store.

It goes through the lines of the due index, and reads the timers that are in nobody's hands yet. It
reads ahead: a short horizon of what comes up, each stretch of time once. Timers that this
node writes meanwhile are noticed without a read, if they fall into the stretch already read.
What other nodes write, they announce: such a line is read at once, and nothing else with it.
And it looks behind: whatever is due by now and in nobody's hands, be it late since a crash,
written by another node whose news got lost, left executing by a dead one, or crowded out of the
agenda.
"""

import math
from collections.abc import Callable, Collection, Iterable

from duetime import ids
from duetime.clock import Clock, Millis
from duetime.engine.agenda import Agenda
from duetime.engine.herald import Herald
from duetime.engine.members import Members
from duetime.engine.targets import Targets
from duetime.errors import StoreError
from duetime.failures import Failures
from duetime.stores import Due, Store, Waking
from duetime.stores.portions import portions
from duetime.timer import Status, Timer

# Behind every timer that wakes at its time: no id sorts after this.
LAST_ID = "~"

HORIZON: Millis = 5_000  # how far it reads ahead
PAGE = 1_000  # lines of the due index that are read at once
PORTION = 8 * 1024 * 1024  # bytes of timers that are read at once
STRIDE = 10  # pages in one, where another tenant's timers may lie behind a long backlog of one
MOST_HEARD = 10_000  # lines of news that wait to be read


class Reader:
    """Finds what is due soon, and what is late."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        agenda: Agenda,
        *,
        members: Members,
        targets: Targets,
        herald: Herald,
        is_in_hand: Callable[[str, int], bool],
        failures: Failures,
        poll_every: float,
    ) -> None:
        self._store = store
        self._clock = clock
        self._agenda = agenda
        self._members = members
        self._targets = targets
        self._herald = herald
        self._is_in_hand = is_in_hand
        self._failures = failures
        self._turned_away_before = 0
        self._has_refused = False  # in this pass, for want of room
        self._poll_every = poll_every
        self._page = PAGE
        self._read_shards: Collection[int] = ()
        self._ahead = Due(clock.now(), "")  # everything up to here has been read
        self._until = self._ahead.wake_at + HORIZON  # what is written below this is noticed
        self._behind: Due | None = None
        self._heard: list[Waking] = []
        self._poll_at = -math.inf  # on the monotonic clock

    def has_read(self, wake_at: Millis) -> bool:
        """Tell whether what wakes then must be noticed: that stretch of time is read no more."""
        return wake_at <= self._until

    def is_near(self, wake_at: Millis) -> bool:
        """Tell whether a timer wakes so soon that its reader may have read that stretch already."""
        return wake_at <= self._clock.now() + HORIZON

    def hear(self, lines: Iterable[Waking]) -> bool:
        """Take note of lines that were announced; tells whether they make a pass worth while."""
        shards = self._members.shards
        for line in lines:
            if (
                self.has_read(line.wake_at)
                and ids.shard_of(line.id) in shards
                and self._is_wanted(line)
            ):
                self._heard.append(line)
        del self._heard[MOST_HEARD:]
        return bool(self._heard)

    async def step(self) -> float:
        """Read what was announced, and if it is time for it, look at the store as well."""
        shards = self._members.shards
        heard, self._heard = self._heard, []
        has_recalled = self._targets.has_recalled or self._agenda.has_recalled
        has_time = self._clock.monotonic() < self._poll_at and not has_recalled
        if heard and has_time and shards is self._read_shards:
            await self._note_down(heard, self._clock.now())
        else:
            pause = await self._poll(shards, heard)
            self._poll_at = self._clock.monotonic() + pause
        return max(self._poll_at - self._clock.monotonic(), 0)

    async def _poll(self, shards: Collection[int], heard: list[Waking]) -> float:
        """Read a page of what is late and a page of what comes up."""
        now = self._clock.now()
        if shards != self._read_shards:
            self._change_shards(shards, now)
        if not shards:
            return self._poll_every  # a node that has just come; getting some wakes us
        if self._ahead.wake_at > now + 2 * HORIZON:  # the wall clock was set back
            self._ahead = Due(now, "")
        self._has_refused = False
        self._agenda.call_back()
        await self._note_down(heard + self._targets.recalled() + self._agenda.recalled(), now)
        try:
            more_behind = await self._look_behind(now, shards)
        except StoreError:
            # What is late may be hard to read, and what comes up not: it must not be late too.
            await self._read_ahead(now, shards)
            raise
        more_ahead = await self._read_ahead(now, shards)
        turned_away = self._targets.turned_away + self._agenda.turned_away
        if turned_away != self._turned_away_before:
            # A receiver is choking on its backlog: reading that again and again helps nobody.
            self._turned_away_before = turned_away
            return self._poll_every / 10
        if more_behind or more_ahead:
            return 0
        # Half way through a backlog that is in hand already, or it is too large to be so.
        is_unfinished = self._behind is not None or self._has_refused
        return self._poll_every / 10 if is_unfinished else self._poll_every

    def _change_shards(self, shards: Collection[int], now: Millis) -> None:
        """Begin anew with other shards, and leave to others what is theirs now.

        What never was of these shards was put on the agenda because it could not wait.
        """
        lost = set(self._read_shards).difference(shards)
        for timer in self._agenda.drop(lambda timer: timer.shard in lost) if lost else ():
            self._herald.tell(
                Waking.of(timer)
            )  # they may have read that stretch before it was written
        self._read_shards, self._ahead, self._behind = shards, Due(now, ""), None

    async def _look_behind(self, now: Millis, shards: Collection[int]) -> bool:
        """Read a page of late timers; tells whether going on at once would find more."""
        if self._agenda.backlog_room < self._page:
            return False
        page = self._stride(is_under_way=self._behind is not None)
        late = await self._store.due(shards, self._behind, now, page)
        is_full_page = len(late) == page
        self._behind = late[-1].place if is_full_page else None
        return await self._note_down(late, now, page) and is_full_page

    async def _read_ahead(self, now: Millis, shards: Collection[int]) -> bool:
        """Read a page of what comes up; tells whether there is more."""
        page = self._stride(is_under_way=self._ahead.id not in ("", LAST_ID))
        limit = min(self._agenda.room, page)
        if limit == 0:
            return False
        # Set before reading: what is written after this read began is noticed instead.
        until = now + HORIZON
        self._until = max(until, self._ahead.wake_at)
        if self._ahead.wake_at < now:
            self._ahead = Due(now, "")  # what lies between is found by looking behind
        if until <= self._ahead.wake_at:
            return False
        coming = await self._store.due(shards, self._ahead, until, limit)
        await self._note_down(coming, now, page)
        is_full_page = len(coming) == limit
        self._ahead = coming[-1].place if is_full_page else Due(until, LAST_ID)
        return is_full_page and self._agenda.room > 0

    def _stride(self, *, is_under_way: bool) -> int:
        """How many lines to read at once: many, if a page was full and others are to be found."""
        return self._page * STRIDE if is_under_way and self._agenda.is_shared else self._page

    async def _note_down(
        self, lines: list[Waking], now: Millis, longest: int | None = None
    ) -> bool:
        """Read those that are in nobody's hands and find room; tells whether there were any.

        What its tenant has no room for, because others must have some, counts: it is known now.
        """
        has_news = False
        wanted = [line for line in lines if self._is_wanted(line)]
        for part in portions(
            wanted, lambda line: line.weight, heaviest=PORTION, longest=longest or self._page
        ):
            fitting = [line.id for line in part if self._has_room(line.wake_at, line.weight, now)]
            for timer in await self._store.get(fitting) if fitting else ():
                if timer is not None and self._is_still_wanted(timer, now):
                    if self._agenda.leaves_room(timer, now):
                        has_news = self._agenda.put(timer, now) or has_news
                    else:
                        has_news = has_news or self._agenda.knows(timer.id, timer.version)
        return has_news

    def _is_wanted(self, line: Waking) -> bool:
        is_known = self._agenda.knows(line.id, line.version)
        return not is_known and not self._is_in_hand(line.id, line.version)

    def _is_still_wanted(self, timer: Timer, now: Millis) -> bool:
        # It may have changed since its line was read, and be read ahead in its time.
        if timer.wake_at is None or not (timer.wake_at <= now or self.has_read(timer.wake_at)):
            return False
        if self._is_in_hand(timer.id, timer.version):
            return False
        if timer.status is Status.FAILED and not self._failures.has_room:
            self._has_refused = True
            return False
        return self._has_room(timer.wake_at, timer.weight, now)

    def _has_room(self, wake_at: Millis, weight: int, now: Millis) -> bool:
        has_room = self._agenda.has_room_for(wake_at, weight, now)
        self._has_refused = self._has_refused or not has_room
        return has_room
