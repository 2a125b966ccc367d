"""A reader is one of those who listen: it says what comes next for it.

Who goes on from a position that the ring of its tenant no longer has reads the feed by itself,
until it has told all that there was; then it joins the ring, at what came since it began, without
what it has told. So there is no gap, and nothing is told twice.
"""

import asyncio
from typing import TYPE_CHECKING

from duetime.clock import sleep
from duetime.errors import NatsError, StoreError, Unavailable
from duetime.events.feed import FIRST, Tail, Told, family_of, place_of
from duetime.events.ring import Ring
from duetime.events.wish import Wish

if TYPE_CHECKING:
    from duetime.events.hub import Hub

AT_ONCE = 200  # events, and ...
BYTES_AT_ONCE = 64 << 10  # ... so many bytes of them: each reader may hold so much for a while
PAUSE = 1.0  # seconds, when the feed cannot be read
LONGEST_WAIT = 5.0  # seconds that the others wait for one who is slow, until it has heard all


class Reader:
    """Somebody who listens."""

    def __init__(self, hub: "Hub", wish: Wish, *, follow: bool) -> None:
        self.position = ""  # whoever goes on from here misses nothing of what was wished for
        self._hub = hub
        self._wish = wish
        self._follow = follow
        self._ring: Ring | None = None
        self._number = 0  # of what comes next in the ring
        self._tail: Tail | None = None  # of its own, as long as it has to catch up
        self._before: Tail | None = None  # the same afterwards: it knows what was told already
        self._reached = ""  # the same with what is coming
        self._coming: asyncio.Task[list[Told] | None] | None = None
        self._woken = asyncio.Event()
        self._is_stuck = False
        self._waited = 0.0

    @property
    def tenant(self) -> str:
        return self._wish.tenant

    async def open(self, after: str | None) -> None:
        """Find the place to begin at."""
        feed, tenant = self._hub.feed, self._wish.tenant
        if not self._follow:
            self._tail = await feed.tail(after or FIRST, tenant)
            self.position = self._reach(self._tail.position)
            return
        ring = self._ring = await self._hub.ring_of(tenant)
        number = ring.end if after is None else ring.number_behind(after)
        if number is not None:
            self._number = number
            self.position = self._reach(after or self._hub.position)
            return
        self._number = ring.end
        self._tail = await feed.tail(after, tenant)
        self.position = self._reach(self._tail.position)

    async def next(self, within: float) -> list[Told] | None:
        """What comes next; nothing, if nothing does within so many seconds. None: that was all.

        Raises Unavailable if it cannot go on here: it fell behind, or the node stops.
        """
        if self._coming is None:
            self._coming = asyncio.ensure_future(self._wanted())
            self._coming.add_done_callback(lambda _: self.wake())
        self._woken.clear()
        if not self._coming.done() and not self._hub.is_closed:
            await self._hub.clock.wait(self._woken, within)
        if self._hub.is_closed:
            raise stopping()
        if not self._coming.done():
            self._get_on()
            return []
        coming, self._coming = self._coming, None
        events = coming.result()
        self.position = self._reached  # not before: they would be missed by who goes on from it
        return events

    def _get_on(self) -> None:
        """Who has heard all that there is in the ring is as far as the hub."""
        there = self._hub.position
        if self._tail is None and self._ring is not None and self._number == self._ring.end:
            is_further = place_of(there) > place_of(self.position)
            if is_further or family_of(there) != family_of(self.position):
                self.position = there

    @property
    def is_pressed(self) -> bool:
        """Tell whether it needs a moment, or may be left behind; not one that was given it."""
        ring = self._ring
        if self._is_stuck or self._tail is not None or ring is None:
            return False
        return ring.is_pressing(self._number)

    def give_up(self) -> None:
        """Do not wait for it any more, until it has heard all that there is."""
        self._is_stuck = True

    def was_waited_for(self, seconds: float) -> None:
        """Take note that the others had to wait; who gets on too slowly is given up, too."""
        self._waited += seconds
        self._is_stuck = self._is_stuck or self._waited >= LONGEST_WAIT

    def wake(self) -> None:
        """Look whether something has changed."""
        self._woken.set()

    async def close(self) -> None:
        """Listen no more. Idempotent."""
        self._hub.forget(self)
        if self._ring is not None:
            self._hub.leave(self._ring)
            self._ring = None
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.gather(self._coming, return_exceptions=True)
            self._coming = None
        if self._tail is not None:
            await self._tail.close()
            self._tail = None

    async def _wanted(self) -> list[Told] | None:
        while True:
            if self._tail is not None:
                events = await self._catch_up(self._tail)
            elif self._ring is not None:
                events = await self._from_ring(self._ring)
            else:
                return None
            if wanted := [told for told in events if self._wish.wants(told)]:
                return wanted
            self.position = self._reached

    async def _from_ring(self, ring: Ring) -> list[Told]:
        if self._number < ring.first:
            raise Unavailable("you read too slowly, and were left behind; go on from the last id")
        events = ring.since(self._number, AT_ONCE, BYTES_AT_ONCE)
        if not events:
            await ring.news.wait()
            return []
        self._number += len(events)
        if self._number == ring.end:
            self._is_stuck, self._waited = False, 0.0
        self._hub.got_on.set()
        self._reach(events[-1].position)
        return self._not_told(events)

    async def _catch_up(self, tail: Tail) -> list[Told]:
        """Read on by oneself; when all has been told, go over to the ring."""
        try:
            async with self._hub.turns:
                events = await tail.read()
        except (StoreError, NatsError) as error:
            if self._ring is None:
                raise self._hub.unreadable(error) from None
            await sleep(self._hub.clock, PAUSE)
            return []
        self._reach(tail.position)
        if not tail.is_level:
            return events
        if self._ring is not None and self._number < self._ring.first:
            self._number = self._ring.end  # it took so long that the ring has gone round: once more
            return events
        self._before, self._tail = tail, None
        await tail.close()
        return events

    def _not_told(self, events: list[Told]) -> list[Told]:
        """Those that were not told while catching up."""
        before = self._before
        if before is None:
            return events
        if place_of(events[-1].position) > place_of(before.position):
            self._before = None
        return [told for told in events if not before.has_told(told)]

    def _reach(self, position: str) -> str:
        self._reached = position
        return position


def stopping() -> Unavailable:
    """What to say when a node ends."""
    return Unavailable("this node is stopping; go on from the last id on another one")
