"""The sweeper drops old events where there is nothing to publish them to."""

from collections.abc import Callable, Collection

from duetime import ids
from duetime.clock import Clock, Millis
from duetime.stores import Store

BATCH = 1_000
SWEEP_EVERY = 10.0  # seconds
# A breath between full batches, as long as the last one took, leaves the store to those who wait
# for it; but a sweeper that rests longer is slower than a node that is busy all the time.
SHORTEST_BREATH = 0.01
LONGEST_BREATH = 0.1


class Sweeper:
    """Drops what is past its retention, a bounded batch at a time."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        shards: Callable[[], Collection[int]],
        retention: Millis,
    ) -> None:
        self._store = store
        self._clock = clock
        self._shards = shards
        self._retention = retention

    async def step(self) -> float:
        """Drop one batch."""
        shards, since = self._shards(), self._clock.monotonic()
        events = await self._store.events(shards, None, BATCH) if shards else []
        before = self._clock.now() - self._retention
        old = [event.id for event in events if ids.time_of(event.id) < before]
        if old:
            await self._store.published(old)
        if len(old) < BATCH:
            return SWEEP_EVERY
        return min(max(self._clock.monotonic() - since, SHORTEST_BREATH), LONGEST_BREATH)
