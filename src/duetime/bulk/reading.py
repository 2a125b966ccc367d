"""Reading: how those who ask learn of actions, without taking the store from the timers.

Whoever looks for one action reads all of its kind, and these may be large. So all who ask at the
same time share a read: always the next one and never one under way, so that nobody is told what is
older than their question. There is one at a time, and after it a rest in proportion to what it
took, within bounds: nobody is refused because of what a read has taken long ago. And those who wait
for it are so many at most, like those who wait for timers.
"""

import asyncio

from duetime.admission import Admission, Marks
from duetime.bulk.catalogue import Catalogue
from duetime.clock import Clock, sleep
from duetime.reads import Reads, tried
from duetime.stores import Store

REST = 2.0  # times as long as a read took: others have two thirds of the time for themselves
LONGEST_REST = 3.0  # seconds; what took longer may have been a machine that slept
LONGEST_REST_AFTER_FAILURE = 0.5  # the store may be back by now

# As with timers: a look counts as many as the actions that it may answer with.
MARKS = Marks(2_000, 1, 10_000, 1)


class Reading:
    """Reads actions for those who ask."""

    def __init__(self, store: Store, clock: Clock, what: str) -> None:
        self._store = store
        self._clock = clock
        too_slow = f"the database is too slow for all that is to be {what}"
        self._reads = Reads(clock, Admission(too_slow, clock, MARKS))
        self._next: dict[str, asyncio.Task[Catalogue]] = {}  # that have not begun, by kind
        self._turn = asyncio.Lock()
        self._rests_until = clock.monotonic()

    async def catalogue(self, kind: str, count: int = 1) -> Catalogue:
        """All actions of a kind as they are now, for somebody who is shown so many of them."""
        return await tried(self._reads.read(count, self._shared, kind))

    async def _shared(self, kind: str) -> Catalogue:
        reading = self._next.get(kind)
        if reading is None:
            reading = self._next[kind] = asyncio.create_task(self._read(kind))
            # Nobody may be left to hear of it.
            reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(reading)

    async def _read(self, kind: str) -> Catalogue:
        async with self._turn:
            rest = self._rests_until - self._clock.monotonic()
            if rest > 0:
                await sleep(self._clock, rest)
            del self._next[kind]  # whoever asks from now on must not be told what is older
            began_at = self._clock.monotonic()
            longest = LONGEST_REST_AFTER_FAILURE
            try:
                records = await self._store.records(kind)
                longest = LONGEST_REST
            finally:
                now = self._clock.monotonic()
                self._rests_until = now + min(REST * (now - began_at), longest)
            return Catalogue(records)
