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
        """Drop one batch."""
        shards = self._members.shards
        if self._retention is None or not shards:
            return SWEEP_EVERY
        before = self._clock.now() - self._retention
        dropped = await self._store.purge(shards, before, BATCH)
        # A breath between full batches leaves the store to those who wait for it.
        return 0.1 if dropped == BATCH else SWEEP_EVERY
