"""The MySQL store, for MariaDB and TiDB too: timers that several nodes look after.

Each call is one round trip, or two, on a session of a pool, and carries a whole batch.
"""

from collections.abc import Collection, Sequence

from duetime.clock import Millis
from duetime.model import Attempt, Event, Timer
from duetime.stores import Change, Due, Insert, Key, Page, Query, Record, Waking
from duetime.stores.mysql import reads, writes
from duetime.stores.mysql.address import Address
from duetime.stores.mysql.pool import Pool
from duetime.stores.mysql.schema import MIGRATE_WITHIN, check_up_to_date, migrate
from duetime.stores.mysql.searches import search
from duetime.stores.mysql.session import Session
from duetime.stores.mysql.traits import TRAITS
from duetime.stores.pooled import QUICK_WITHIN, PooledStore
from duetime.stores.schema import migrations


class MysqlStore(PooledStore[Session]):
    """Timers in a database of a MySQL server. Nothing is opened before ``migrate``.

    With ``must_exist`` the tables are taken as they are, and neither made nor migrated.
    """

    traits = TRAITS

    def __init__(self, address: Address, *, must_exist: bool = False) -> None:
        size = address.pool_size
        super().__init__(
            Pool(address, size), Pool(address, 1, within=QUICK_WITHIN), searches=max(size // 3, 1)
        )
        self._database = address.database
        self._prepare = check_up_to_date if must_exist else migrate

    async def _open(self) -> None:
        known = migrations("mysql")
        await self._pool.run(
            lambda session: self._prepare(session, self._database, known), MIGRATE_WITHIN
        )

    async def ping(self) -> None:
        await self._run(reads.ping)

    async def insert(self, inserts: Sequence[Insert]) -> list[Timer | None]:
        return await self._write(writes.insert, inserts)

    async def get(self, ids: Sequence[str]) -> list[Timer | None]:
        return await self._run(reads.get, ids)

    async def get_by_key(self, keys: Sequence[Key]) -> list[Timer | None]:
        return await self._run(reads.get_by_key, keys)

    async def apply(self, changes: Sequence[Change]) -> list[bool]:
        return await self._write(writes.apply, changes)

    async def due(
        self, shards: Collection[int], after: Due | None, before: Millis, limit: int
    ) -> list[Waking]:
        return await self._run(reads.due, shards, after, before, limit)

    async def search(self, query: Query) -> Page:
        return await self._search(search, query)

    async def scan(self, after: str | None, limit: int) -> list[Timer]:
        return await self._run(reads.scan, after, limit)

    async def attempts(
        self, timer: str, after: tuple[int, int] | None, limit: int
    ) -> list[Attempt]:
        return await self._run(reads.attempts, timer, after, limit)

    async def events(self, shards: Collection[int], after: str | None, limit: int) -> list[Event]:
        return await self._run(reads.events, shards, after, limit)

    async def published(self, ids: Sequence[str]) -> None:
        await self._run(writes.published, ids)

    async def records(self, kind: str) -> list[Record]:
        return await self._run_quickly(reads.records, kind)

    async def put_record(self, old: Record | None, new: Record | None) -> bool:
        return await self._run_quickly(writes.put_record, old, new)

    async def purge(self, shards: Collection[int], before: Millis, limit: int) -> int:
        return await self._run(writes.purge, shards, before, limit)
