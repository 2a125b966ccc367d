"""A wrapper passes all that is asked of it on to another store.

Whoever wraps a store overrides what is to be done differently, and obeys the same contract.
"""

from collections.abc import Callable, Collection, Sequence

from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.stores import (
    Change,
    Count,
    Due,
    Insert,
    Key,
    News,
    Page,
    Query,
    Record,
    Store,
    Waking,
)
from duetime.stores.traits import Traits
from duetime.timer import Attempt, Event, Timer


class Wrapper:
    """A store around a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def traits(self) -> Traits:
        return self._store.traits

    async def migrate(self) -> None:
        await self._store.migrate()

    async def ping(self) -> None:
        await self._store.ping()

    async def close(self) -> None:
        await self._store.close()

    async def insert(self, inserts: Sequence[Insert]) -> list[Timer | None]:
        return await self._store.insert(inserts)

    async def get(self, ids: Sequence[str], tenant: str | None = None) -> list[Timer | None]:
        return await self._store.get(ids, tenant)

    async def get_by_key(self, keys: Sequence[Key]) -> list[Timer | None]:
        return await self._store.get_by_key(keys)

    async def apply(self, changes: Sequence[Change]) -> list[bool]:
        return await self._store.apply(changes)

    async def due(
        self, shards: Collection[int], after: Due | None, before: Millis, limit: int
    ) -> list[Waking]:
        return await self._store.due(shards, after, before, limit)

    async def remove(self, timers: Sequence[Timer]) -> list[bool]:
        return await self._store.remove(timers)

    async def search(self, query: Query) -> Page:
        return await self._store.search(query)

    async def count(self, tenant: str) -> list[Count]:
        return await self._store.count(tenant)

    async def scan(self, after: str | None, limit: int) -> list[Timer]:
        return await self._store.scan(after, limit)

    async def attempts(
        self, timer: str, after: tuple[int, int] | None, limit: int
    ) -> list[Attempt]:
        return await self._store.attempts(timer, after, limit)

    async def events(self, shards: Collection[int], after: str | None, limit: int) -> list[Event]:
        return await self._store.events(shards, after, limit)

    async def published(self, ids: Sequence[str]) -> None:
        await self._store.published(ids)

    async def records(self, kind: str) -> list[Record]:
        return await self._store.records(kind)

    async def put_record(self, old: Record | None, new: Record | None) -> bool:
        return await self._store.put_record(old, new)

    async def purge(self, shards: Collection[int], before: Millis, limit: int) -> int:
        return await self._store.purge(shards, before, limit)

    async def drop_outlived(self, shards: Collection[int], now: Millis, limit: int) -> int:
        return await self._store.drop_outlived(shards, now, limit)

    async def write_lines(self, lines: Sequence[AuditLine], keep_for: Millis | None) -> None:
        await self._store.write_lines(lines, keep_for)

    async def lines(
        self, tenant: str, after: str | None, limit: int, *, descending: bool
    ) -> list[AuditLine]:
        return await self._store.lines(tenant, after, limit, descending=descending)

    async def drop_lines(self, before: Millis, limit: int) -> int:
        return await self._store.drop_lines(before, limit)

    async def announce(self, news: News) -> None:
        await self._store.announce(news)

    def listen(self, hear: Callable[[News], None]) -> None:
        self._store.listen(hear)
