"""Uses: when each key was last used, written down now and then.

That a key is used must not cost its request a write. So a node remembers, and writes what is new
once a minute, one record for each tenant; who looks at the keys of a tenant reads it. What a node
knew that died is lost: the time may be a minute behind.
"""

import msgspec

from duetime.clock import Clock, Millis
from duetime.errors import StoreError
from duetime.stores import Record, Store
from duetime.tenancy.api_key import ApiKey

KIND = "key uses"
WRITE_EVERY = 60.0
MOST_TRIES = 5  # against other nodes that write of the same tenant

_decode = msgspec.json.Decoder(dict[str, Millis]).decode


class Uses:
    """When keys were used last."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._new: dict[str, dict[str, Millis]] = {}  # by tenant and key

    def note(self, key: ApiKey, now: Millis) -> None:
        """Remember that a key is used."""
        mine = self._new.get(key.tenant)
        if mine is None:
            mine = self._new[key.tenant] = {}
        mine[key.id] = now

    async def of(self, tenant: str) -> dict[str, Millis]:
        """When each key of a tenant was used last, as far as is known."""
        records = await self._store.records(KIND)
        stored = next((_decode(each.data) for each in records if each.name == tenant), {})
        return _latest(stored, self._new.get(tenant, {}))

    async def step(self) -> float:
        """Write down what is new."""
        new, self._new = self._new, {}
        if new:
            try:
                stored = {record.name: record for record in await self._store.records(KIND)}
                for tenant, uses in new.items():
                    await self._write(tenant, uses, stored.get(tenant))
            except StoreError:
                for tenant, uses in new.items():  # for the next time
                    self._new[tenant] = _latest(uses, self._new.get(tenant, {}))
                raise
        return WRITE_EVERY

    async def forget(self, tenant: str, *keys: str) -> None:
        """Drop what is known of keys that are gone."""
        for key in keys:
            self._new.get(tenant, {}).pop(key, None)
        for record in await self._store.records(KIND):
            if record.name == tenant:
                before = _decode(record.data)
                uses = {key: at for key, at in before.items() if key not in keys}
                if uses != before:
                    await self._store.put_record(record, _record(tenant, uses, record))

    async def _write(self, tenant: str, uses: dict[str, Millis], old: Record | None) -> None:
        for _ in range(MOST_TRIES):
            known = {} if old is None else _decode(old.data)
            if await self._store.put_record(old, _record(tenant, _latest(known, uses), old)):
                return
            records = await self._store.records(KIND)
            old = next((record for record in records if record.name == tenant), None)


def _record(tenant: str, uses: dict[str, Millis], old: Record | None) -> Record:
    version = 1 if old is None else old.version + 1
    return Record(kind=KIND, name=tenant, version=version, data=msgspec.json.encode(uses))


def _latest(one: dict[str, Millis], other: dict[str, Millis]) -> dict[str, Millis]:
    """The later time of each."""
    return one | {key: max(at, one.get(key, 0)) for key, at in other.items()}
