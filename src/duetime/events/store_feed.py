"""The feed of the store: the outbox, read again and again, where there is no NATS to relay it to.

Ids of events are in order of time, by the clock of the node that wrote each. But a write becomes
visible only when it is committed, and that may be after others with greater ids were read. So each
*round* reads again what lies behind the last one, and tells what it has not told yet:

- Nothing is told that is younger than ``HOLD_BACK`` when a round begins. A timer's next version is
  only begun when the one before it is committed, and is dated no earlier than that one. So if a
  round did not see the first of two, the second was begun after the round, and is too young for
  it, as long as the clocks of nodes differ by less than that. Thus they are told in order.
- While there are few events, a round reads the last ``LOOK_BACK``; otherwise that is done now and
  then, and rounds read the last ``SHORT_LOOK``. What is committed later than that comes out of
  its order, but it comes, if it is later by less than ``LOOK_BACK``.
- A round rests for twice as long as it took: a store that is slow makes the feed late, and not the
  feed the store slower.

A position is the greatest id that was told, and by whom: which of the ids before it were visible
then, nobody else knows. So whoever goes on elsewhere hears the last ``LOOK_BACK`` before it again.
"""

import secrets
from collections.abc import Iterator

from duetime import ids
from duetime.clock import Clock, Millis, sleep
from duetime.errors import StoreError
from duetime.events.feed import FIRST, Told, place_in, too_old
from duetime.events.view import encode
from duetime.stores import Store
from duetime.timer import Event

POLL = 0.25  # seconds between rounds, at least
HOLD_BACK: Millis = 400  # more than the clocks of nodes differ
LOOK_BACK: Millis = 30_000  # no write is under way for longer
SHORT_LOOK: Millis = 5_000
LONG_EVERY = 10.0  # seconds between rounds that look back all the way, where events are many
FEW = 2_000  # events in a round
PAGE = 1_000
MOST_REMEMBERED = 200_000  # ids; with more, rounds look back less far

OWN_PAGE = 250  # the same, for one of the many who may read by themselves

_PAGES = 5  # in one read, so that whoever is far behind is not told all of it at once


class StoreFeed:
    """Reads the events of all shards, for whoever wrote them."""

    def __init__(self, store: Store, clock: Clock, *, keep_for: Millis) -> None:
        self._store = store
        self._clock = clock
        self._keep_for = keep_for

    async def tail(self, after: str | None, tenant: str | None = None) -> "StoreTail":
        """Begin to read."""
        now = self._clock.now()
        if after is None:
            tail = self._from(ids.first_at(now), now - HOLD_BACK, tenant)
            await tail.skip()
            return tail
        if after == FIRST:
            return self._from(ids.first_at(0), 0, tenant)
        place = place_in(after, "outbox")
        at = ids.time_of(place)
        if at < now - self._keep_for:
            raise too_old()
        return self._from(place, at, tenant)

    def _from(self, reached: str, bound: Millis, tenant: str | None) -> "StoreTail":
        return StoreTail(self._store, self._clock, reached, bound, tenant)


class StoreTail:
    """Reads along the outbox, round by round."""

    def __init__(
        self, store: Store, clock: Clock, reached: str, bound: Millis, tenant: str | None
    ) -> None:
        self._store = store
        self._clock = clock
        self._tenant = tenant
        self._size = PAGE if tenant is None else OWN_PAGE
        self._family = f"outbox.{secrets.token_hex(4)}"
        self._told: set[str] = set()  # ids, of the last LOOK_BACK
        self._floor: Millis = 0  # what is older is not looked at again
        self._reached = reached
        self._bound = bound  # what is younger is not told in this round
        self._cursor: str | None = None  # how far this round has come
        self._seen = 0  # events in this round so far ...
        self._is_long = True  # ... which looks back all the way
        self._looked_back_at = float("-inf")
        self._rest = 0.0
        self.is_level = False
        self._begin(bound - LOOK_BACK)

    @property
    def position(self) -> str:
        return f"{self._family}-{self._reached}"

    def has_told(self, told: Told) -> bool:
        return told.id in self._told

    async def skip(self) -> None:
        """Take for told what is not new.

        What is held back is told, though it is a little older than whoever asks: another tail that
        begins in the same moment does not tell it before, and so leaves it to this one.
        """
        while not self.is_level:
            events = await self._page()
            due = [event.id for event in events if event.at <= self._bound]
            self._told.update(due)
            self.is_level = len(due) < self._size

    async def read(self) -> list[Told]:
        if self.is_level:
            await sleep(self._clock, max(POLL, self._rest))
            self._begin(self._bound - self._look())
        told: list[Told] = []
        for _ in range(_PAGES):
            since = self._clock.monotonic()
            try:
                events = await self._page()
            except StoreError:
                if told:
                    break  # the next read hears of it
                raise
            finally:
                self._rest += 2 * (self._clock.monotonic() - since)
            due = [event for event in events if event.at <= self._bound]
            told += self._tell(due)
            if len(due) < self._size:
                self._end()
                break
            if told and self._tenant is not None:
                break  # as much as is kept for who does not take it
        return told

    async def close(self) -> None:
        """Nothing is open."""

    async def _page(self) -> list[Event]:
        events = await self._store.events(ids.ALL_SHARDS, self._cursor, self._size)
        if events:
            self._cursor = events[-1].id
        self._seen += len(events)
        return events

    def _tell(self, events: list[Event]) -> Iterator[Told]:
        first = ids.first_at(max(self._bound - LOOK_BACK, 0))  # later rounds meet nothing older
        for event in events:
            if event.id in self._told:
                continue
            if event.id >= first and self._tenant in {None, event.tenant}:
                self._told.add(event.id)
            is_late = event.id <= self._reached
            if not is_late:
                self._reached = event.id
            if self._tenant in {None, event.tenant}:
                yield Told.of(event, self.position, encode(event), is_late=is_late)
        if len(self._told) > MOST_REMEMBERED:
            kept = sorted(self._told)[-MOST_REMEMBERED // 2 :]
            self._floor = ids.time_of(kept[0]) + 1
            self._told = set(kept)

    def _begin(self, since: Millis) -> None:
        self._cursor = ids.first_at(max(since, self._floor))
        self._bound = max(self._bound, self._clock.now() - HOLD_BACK)
        self._seen = 0
        self._rest = 0.0
        self.is_level = False

    def _look(self) -> Millis:
        """How far the next round looks back."""
        now = self._clock.monotonic()
        is_quiet = self._is_long and self._seen < FEW
        self._is_long = is_quiet or now >= self._looked_back_at + LONG_EVERY
        if self._is_long:
            self._looked_back_at = now
        return LOOK_BACK if self._is_long else SHORT_LOOK

    def _end(self) -> None:
        """All has been told up to the bound; remember no more than later rounds can meet."""
        self.is_level = True
        self._reached = max(self._reached, ids.first_at(self._bound + 1))
        if self._is_long:
            first = ids.first_at(self._bound - LOOK_BACK)
            self._told = {id_ for id_ in self._told if id_ >= first}
