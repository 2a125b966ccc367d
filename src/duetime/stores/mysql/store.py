"""The MySQL store, for MariaDB and TiDB too: timers that several nodes look after.

Each call is one round trip, or two, on a session of a pool, and carries a whole batch.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.stores import Change, Count, Due, Insert, Key, Page, Query, Record, Waking
from duetime.stores.mysql import audit, counts, drops, reads, writes
from duetime.stores.mysql.address import Address
from duetime.stores.mysql.pool import Pool
from duetime.stores.mysql.schema import MIGRATE_WITHIN, check_up_to_date, migrate
from duetime.stores.mysql.searches import search
from duetime.stores.mysql.session import Session
from duetime.stores.mysql.traits import TRAITS
from duetime.stores.pooled import QUICK_WITHIN, PooledStore
from duetime.stores.schema import migrations
from duetime.timer import Attempt, Event, Status, Timer


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

    async def get(self, ids: Sequence[str], tenant: str | None = None) -> list[Timer | None]:
        return await self._run(reads.get, ids, tenant)

    async def get_by_key(self, keys: Sequence[Key]) -> list[Timer | None]:
        return await self._run(reads.get_by_key, keys)

    async def apply(self, changes: Sequence[Change]) -> list[bool]:
        return await self._write(writes.apply, changes)

    async def remove(self, timers: Sequence[Timer]) -> list[bool]:
        return await self._write(drops.remove, timers)

    async def due(
        self, shards: Collection[int], after: Due | None, before: Millis, limit: int
    ) -> list[Waking]:
        return await self._run(reads.due, shards, after, before, limit)

    async def search(self, query: Query) -> Page:
        return await self._search(search, query)

    async def count(self, tenant: str) -> list[Count]:
        """In pieces, between which others get their turn."""
        found: Counter[tuple[str, Status]] = Counter()
        end: counts.Place | None = None
        while True:
            piece, end = await self._search(counts.count, tenant, end)
            for group, status, timers in piece:
                found[group, status] += timers
            if end is None:
                return [Count(group, status, timers) for (group, status), timers in found.items()]

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
        return await self._run(drops.purge, shards, before, limit)

    async def drop_outlived(self, shards: Collection[int], now: Millis, limit: int) -> int:
        return await self._run(drops.drop_outlived, shards, now, limit)

    async def write_lines(self, lines: Sequence[AuditLine], keep_for: Millis | None) -> None:  # noqa: ARG002 - it keeps them
        await self._run(audit.write, lines)

    async def lines(
        self, tenant: str, after: str | None, limit: int, *, descending: bool
    ) -> list[AuditLine]:
        return await self._run(audit.read, tenant, after, limit, descending=descending)

    async def drop_lines(self, before: Millis, limit: int) -> int:
        return await self._run(audit.drop, before, limit)
