"""The PostgreSQL store: timers that several nodes look after.

Each call is one statement, or a few, on a connection of a pool; each statement is a transaction of
its own, and carries a whole batch.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence

import asyncpg

from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.stores import Change, Count, Due, Insert, Key, News, Page, Query, Record, Waking
from duetime.stores.codec import shard_set
from duetime.stores.pooled import QUICK_WITHIN, PooledStore
from duetime.stores.postgres.address import Address
from duetime.stores.postgres.news import ANNOUNCING, Listener, channel_of, payloads
from duetime.stores.postgres.pool import Pool
from duetime.stores.postgres.reads import Reads
from duetime.stores.postgres.schema import MIGRATE_WITHIN, check_up_to_date, migrate
from duetime.stores.postgres.traits import TRAITS
from duetime.stores.postgres.writes import Writes
from duetime.stores.schema import migrations
from duetime.timer import Attempt, Event, Status, Timer


class PostgresStore(PooledStore[asyncpg.Connection]):
    """Timers in a schema of a PostgreSQL database. Nothing is opened before ``migrate``.

    With ``must_exist`` the schema is taken as it is, and neither made nor migrated.
    """

    traits = TRAITS

    def __init__(self, address: Address, *, must_exist: bool = False) -> None:
        size = address.pool_size
        super().__init__(
            Pool(address, size), Pool(address, 1, within=QUICK_WITHIN), searches=max(size // 3, 1)
        )
        self._schema = address.schema
        self._prepare = check_up_to_date if must_exist else migrate
        self._listener = Listener(address)
        self._can_hear = not address.is_pooled
        self._reads = Reads(address.schema)
        self._writes = Writes(address.schema, self._reads)

    async def _open(self) -> None:
        known = migrations("postgres")
        await self._pool.run(
            lambda connection: self._prepare(connection, self._schema, known), MIGRATE_WITHIN
        )

    async def ping(self) -> None:
        await self._run(self._reads.ping)

    async def _shut(self) -> None:
        await self._listener.close()
        await super()._shut()

    async def insert(self, inserts: Sequence[Insert]) -> list[Timer | None]:
        return await self._write(self._writes.insert, inserts)

    async def get(self, ids: Sequence[str], tenant: str | None = None) -> list[Timer | None]:
        return await self._run(self._reads.get, ids, tenant)

    async def get_by_key(self, keys: Sequence[Key]) -> list[Timer | None]:
        return await self._run(self._reads.get_by_key, keys)

    async def apply(self, changes: Sequence[Change]) -> list[bool]:
        return await self._write(self._writes.apply, changes)

    async def remove(self, timers: Sequence[Timer]) -> list[bool]:
        return await self._write(self._writes.remove, timers)

    async def due(
        self, shards: Collection[int], after: Due | None, before: Millis, limit: int
    ) -> list[Waking]:
        return await self._run(self._reads.due, shard_set(shards), after, before, limit)

    async def search(self, query: Query) -> Page:
        return await self._search(self._reads.search, query)

    async def count(self, tenant: str) -> list[Count]:
        counts: Counter[tuple[str, Status]] = Counter()
        after: str | None = ""
        while after is not None:
            some, after = await self._search(self._reads.count, tenant, after)
            for group, status, timers in some:
                counts[group, status] += timers
        return [Count(*place, timers) for place, timers in counts.items()]

    async def scan(self, after: str | None, limit: int) -> list[Timer]:
        return await self._run(self._reads.scan, after, limit)

    async def attempts(
        self, timer: str, after: tuple[int, int] | None, limit: int
    ) -> list[Attempt]:
        return await self._run(self._reads.attempts, timer, after, limit)

    async def events(self, shards: Collection[int], after: str | None, limit: int) -> list[Event]:
        return await self._run(self._reads.events, shard_set(shards), after, limit)

    async def published(self, ids: Sequence[str]) -> None:
        await self._run(self._writes.published, ids)

    async def records(self, kind: str) -> list[Record]:
        return await self._run_quickly(self._reads.records, kind)

    async def put_record(self, old: Record | None, new: Record | None) -> bool:
        return await self._run_quickly(self._writes.put_record, old, new)

    async def purge(self, shards: Collection[int], before: Millis, limit: int) -> int:
        return await self._run(self._writes.purge, shard_set(shards), before, limit)

    async def drop_outlived(self, shards: Collection[int], now: Millis, limit: int) -> int:
        return await self._run(self._writes.drop_outlived, shard_set(shards), now, limit)

    async def write_lines(self, lines: Sequence[AuditLine], keep_for: Millis | None) -> None:  # noqa: ARG002 - see drop_lines
        await self._run(self._writes.write_lines, lines)

    async def lines(
        self, tenant: str, after: str | None, limit: int, *, descending: bool
    ) -> list[AuditLine]:
        return await self._run(self._reads.lines, tenant, after, limit, descending=descending)

    async def drop_lines(self, before: Millis, limit: int) -> int:
        return await self._run(self._writes.drop_lines, before, limit)

    async def announce(self, news: News) -> None:
        pieces = list(payloads(news))
        if pieces:
            channel = channel_of(self._schema)
            await self._run_quickly(
                lambda connection: connection.execute(ANNOUNCING, channel, pieces)
            )

    def listen(self, hear: Callable[[News], None]) -> None:
        if self._can_hear:
            self._listener.add(hear)
