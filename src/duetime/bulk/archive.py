"""The archive: actions that have ended, kept for a while and so many of each tenant."""

from msgspec import UNSET
from msgspec.structs import replace

from duetime.bulk.action import Action, read, record_of
from duetime.clock import Clock, Millis
from duetime.stores import Record, Store

KEEP_FOR: Millis = 30 * 86_400_000
MOST_KEPT = 200  # of each tenant


class Archive:
    """Keeps actions that have ended."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def put(self, action: Action) -> None:
        """Keep an action; once, however often this is asked for."""
        kept = replace(action, update=UNSET, resumed=None, batch=(), latest=None)
        await self._store.put_record(None, record_of(kept, None, _kind(action.tenant)))

    async def of(self, tenant: str) -> list[Action]:
        """A tenant's actions, newest first."""
        return [action for _, action in await self._read(tenant) if not self._is_old(action)]

    async def tidy(self, tenant: str) -> None:
        """Drop what is too old, and the oldest of too many."""
        for place, (record, action) in enumerate(await self._read(tenant)):
            if place >= MOST_KEPT or self._is_old(action):
                await self._store.put_record(record, None)

    def _is_old(self, action: Action) -> bool:
        return (action.finished_at or 0) <= self._clock.now() - KEEP_FOR

    async def _read(self, tenant: str) -> list[tuple[Record, Action]]:
        records = await self._store.records(_kind(tenant))
        kept = [(record, read(record)) for record in records]
        return sorted(kept, key=lambda each: each[1].id, reverse=True)


def _kind(tenant: str) -> str:
    return f"ended action/{tenant}"
