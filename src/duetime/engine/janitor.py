"""The janitor drops finished timers once they have been kept long enough."""

from duetime.clock import Clock, Millis
from duetime.engine.members import Members
from duetime.stores import Store

SWEEP_EVERY = 60.0
BATCH = 1_000


class Janitor:
    """Drops what is past its retention, a bounded batch at a time."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        members: Members,
        retention: Millis | None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._members = members
        self._retention = retention

    async def step(self) -> float:
        """Drop one batch, and one of those with a retention of their own."""
        shards = self._members.shards
        if not shards:
            return SWEEP_EVERY
        now = self._clock.now()
        dropped = await self._store.drop_outlived(shards, now, BATCH)
        if self._retention is not None:
            dropped = max(dropped, await self._store.purge(shards, now - self._retention, BATCH))
        # A breath between full batches leaves the store to those who wait for it.
        return 0.1 if dropped == BATCH else SWEEP_EVERY
