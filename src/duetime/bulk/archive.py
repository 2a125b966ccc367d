"""The archive: actions that have ended, kept for a while and so many of each tenant."""

from msgspec import UNSET
from msgspec.structs import replace

from duetime.bulk.action import Action, readable, record_of
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
        kept = replace(action, update=UNSET, resumed=None, batch=(), candidates=())
        kind = _kind(action.tenant)
        if await self._store.put_record(None, record_of(kept, None, kind)):
            return
        for record, old in readable(await self._store.records(kind)):
            if record.name == action.name and old.id != action.id:  # its key was free again
                await self._store.put_record(record, record_of(kept, record, kind))

    async def of(self, tenant: str) -> list[Action]:
        """A tenant's actions, newest first."""
        return [action for _, action in await self._read(tenant) if not self._is_old(action)]

    async def get(self, tenant: str, id_: str) -> Action | None:
        """One of a tenant's actions."""
        records = await self._store.records(_kind(tenant))
        for _, action in readable(each for each in records if id_.encode() in each.data):
            if action.id == id_ and not self._is_old(action):
                return action
        return None

    async def named(self, tenant: str, name: str) -> Action | None:
        """One of a tenant's actions, by the name of its record."""
        records = await self._store.records(_kind(tenant))
        for _, action in readable(each for each in records if each.name == name):
            if not self._is_old(action):
                return action
        return None

    async def tidy(self, tenant: str) -> None:
        """Drop what is too old, and the oldest of too many."""
        for place, (record, action) in enumerate(await self._read(tenant)):
            if place >= MOST_KEPT or self._is_old(action):
                await self._store.put_record(record, None)

    def _is_old(self, action: Action) -> bool:
        return (action.finished_at or 0) <= self._clock.now() - KEEP_FOR

    async def _read(self, tenant: str) -> list[tuple[Record, Action]]:
        kept = readable(await self._store.records(_kind(tenant)))
        return sorted(kept, key=lambda each: each[1].id, reverse=True)


def _kind(tenant: str) -> str:
    return f"ended action/{tenant}"
