"""Uses: when each key was last used, written down now and then.

That a key is used must not cost its request a write. So a node remembers, and writes what is new
once a minute, one record for each tenant; who looks at the keys of a tenant reads it. What a node
knew that died is lost: the time may be a minute behind. Keys that are gone are left out when their
tenant's record is written next, so that it grows no longer than the tenant has keys.
"""

import msgspec

from duetime.clock import Millis
from duetime.stores import Record, Store
from duetime.tenancy.api_key import ApiKey
from duetime.tenancy.rules import Rules

KIND = "key uses"
WRITE_EVERY = 60.0
MOST_TRIES = 5  # against other nodes that write of the same tenant
MOST_FAILURES = 3  # before the store is taken to be away, and no other tenant is tried

_decode = msgspec.json.Decoder(dict[str, Millis]).decode


class Uses:
    """When keys were used last."""

    def __init__(self, store: Store, rules: Rules) -> None:
        self._store = store
        self._rules = rules
        self._new: dict[str, dict[str, Millis]] = {}  # by tenant and key

    def note(self, key: ApiKey, now: Millis) -> None:
        """Remember that a key is used."""
        mine = self._new.get(key.tenant)
        if mine is None:
            mine = self._new[key.tenant] = {}
        mine[key.id] = now

    async def of(self, tenant: str) -> dict[str, Millis]:
        """When each key of a tenant was used last, as far as is known."""
        return _latest(_uses_in(await self._stored(tenant)), self._new.get(tenant, {}))

    async def step(self) -> float:
        """Write down what is new. What fails is tried again after all others."""
        if not self._new:
            return WRITE_EVERY
        stored = {record.name: record for record in await self._store.records(KIND)}
        await self._rules.look()  # after it: so every key is known that is in there
        failures: list[Exception] = []
        for tenant in list(self._new):
            uses = self._new.pop(tenant)
            try:
                await self._write(tenant, uses, stored.get(tenant))
            except Exception as error:  # noqa: BLE001 - one tenant's record must not stop the others'
                self._new[tenant] = _latest(uses, self._new.get(tenant, {}))
                failures.append(error)
                if len(failures) == MOST_FAILURES:
                    break
        if failures:
            raise failures[0]
        return WRITE_EVERY

    async def forget(self, tenant: str, *keys: str) -> None:
        """Drop what is known of keys that are gone."""
        for key in keys:
            self._new.get(tenant, {}).pop(key, None)
        record = await self._stored(tenant)
        before = _uses_in(record)
        uses = {key: at for key, at in before.items() if key not in keys}
        if uses != before:
            await self._put(tenant, record, uses)

    async def forget_tenant(self, tenant: str) -> None:
        """Drop what is known of a tenant whose keys are all gone."""
        self._new.pop(tenant, None)
        await self._write(tenant, {}, await self._stored(tenant))

    async def _stored(self, tenant: str) -> Record | None:
        records = await self._store.records(KIND)
        return next((record for record in records if record.name == tenant), None)

    async def _write(self, tenant: str, uses: dict[str, Millis], old: Record | None) -> None:
        for _ in range(MOST_TRIES):
            latest = _latest(_uses_in(old), uses)
            known = {key: at for key, at in latest.items() if self._rules.keys.find(key)}
            if await self._put(tenant, old, known):
                return
            old = await self._stored(tenant)
            await self._rules.look()

    async def _put(self, tenant: str, old: Record | None, uses: dict[str, Millis]) -> bool:
        """Write the record in the place of the old one; without uses there is none."""
        if not uses:
            return old is None or await self._store.put_record(old, None)
        version = 1 if old is None else old.version + 1
        data = msgspec.json.encode(uses)
        new = Record(kind=KIND, name=tenant, version=version, data=data)
        return await self._store.put_record(old, new)


def _uses_in(record: Record | None) -> dict[str, Millis]:
    return {} if record is None else _decode(record.data)


def _latest(one: dict[str, Millis], other: dict[str, Millis]) -> dict[str, Millis]:
    """The later time of each."""
    return one | {key: max(at, one.get(key, 0)) for key, at in other.items()}
