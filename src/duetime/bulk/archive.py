"""The archive: actions that have ended, kept for a while and so many of each tenant."""

from msgspec import UNSET
from msgspec.structs import replace

from duetime.bulk.action import Action, record_of
from duetime.bulk.catalogue import Catalogue, Entry
from duetime.clock import Clock, Millis
from duetime.stores import Store

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
        kind = kind_of(action.tenant)
        if await self._store.put_record(None, record_of(kept, None, kind)):
            return
        for entry in await self._read(action.tenant):
            record = entry.record
            if record.name == action.name and entry.label.id != action.id:  # its key was free again
                await self._store.put_record(record, record_of(kept, record, kind))

    def of(self, tenant: str, catalogue: Catalogue) -> list[Entry]:
        """A tenant's actions, of all that was found in the records of their kind."""
        return [entry for entry in catalogue.of(tenant) if not self._is_old(entry)]

    async def has(self, tenant: str, name: str) -> bool:
        """Tell whether one of a tenant's actions is kept in a record of this name."""
        kept = await self._read(tenant)
        return any(entry.record.name == name and not self._is_old(entry) for entry in kept)

    async def tidy(self, tenant: str) -> None:
        """Drop what is too old, and the oldest of too many."""
        kept = await self._read(tenant)
        newest_first = sorted(kept, key=lambda entry: entry.label.id, reverse=True)
        for place, entry in enumerate(newest_first):
            if place >= MOST_KEPT or self._is_old(entry):
                await self._store.put_record(entry.record, None)

    def _is_old(self, entry: Entry) -> bool:
        return (entry.label.finished_at or 0) <= self._clock.now() - KEEP_FOR

    async def _read(self, tenant: str) -> list[Entry]:
        return Catalogue(await self._store.records(kind_of(tenant))).of(tenant)


def kind_of(tenant: str) -> str:
    """The kind of the records of a tenant's actions that have ended."""
    return f"ended action/{tenant}"
