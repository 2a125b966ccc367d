"""The reference store: the contract at its plainest, in dictionaries that die with the process.

It is what a test or a trial runs on, and what every other store must agree with. No method awaits
anything, so that each runs as a whole: that is all its atomicity.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from duetime import ids
from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.stores import Change, Count, Due, Insert, Key, News, Page, Query, Record, Waking
from duetime.stores.base import BaseStore
from duetime.stores.matching import matches
from duetime.stores.traits import Traits
from duetime.timer import Attempt, Event, Timer

TRAITS = Traits(engine="memory", nodes="one process", passes_news=True)


class MemoryStore(BaseStore):
    """Keeps everything in memory: nothing survives the end of the process."""

    traits = TRAITS

    def __init__(self) -> None:
        super().__init__()
        self._timers: dict[str, Timer] = {}
        self._ids: dict[tuple[str, str, str], str] = {}  # by (tenant, group, timer_id)
        self._attempts: dict[str, dict[tuple[int, int], Attempt]] = {}
        self._events: dict[str, Event] = {}
        self._records: dict[tuple[str, str], Record] = {}
        self._lines: dict[str, AuditLine] = {}
        self._listeners: list[Callable[[News], None]] = []
        self._is_open = True  # there is nothing to open

    async def _open(self) -> None:
        pass

    async def _shut(self) -> None:
        pass

    async def ping(self) -> None:
        self._check_open()

    async def insert(self, inserts: Sequence[Insert]) -> list[Timer | None]:
        self._check_open()
        return [self._insert(insert) for insert in inserts]

    def _insert(self, insert: Insert) -> Timer | None:
        timer = insert.timer
        key = (timer.tenant, timer.group, timer.timer_id)
        if key in self._ids:
            return self._timers[self._ids[key]]
        if timer.id in self._timers:
            return self._timers[timer.id]
        self._timers[timer.id] = timer
        self._ids[key] = timer.id
        self._log(insert.attempts)
        self._tell(insert.events)
        return None

    async def get(self, ids: Sequence[str], tenant: str | None = None) -> list[Timer | None]:
        self._check_open()
        found = (self._timers.get(id_) for id_ in ids)
        return [each if each and tenant in {None, each.tenant} else None for each in found]

    async def get_by_key(self, keys: Sequence[Key]) -> list[Timer | None]:
        self._check_open()
        found = (self._ids.get((key.tenant, key.group, key.timer_id)) for key in keys)
        return [None if id_ is None else self._timers[id_] for id_ in found]

    async def apply(self, changes: Sequence[Change]) -> list[bool]:
        self._check_open()
        return [self._apply(change) for change in changes]

    def _apply(self, change: Change) -> bool:
        stored = self._timers.get(change.old.id)
        if stored is None or stored.version != change.old.version:
            return False
        self._timers[stored.id] = change.new
        if change.attempt is not None:
            self._log([change.attempt])
        self._tell(change.events)
        return True

    def _log(self, attempts: Iterable[Attempt]) -> None:
        for attempt in attempts:
            log = self._attempts.setdefault(attempt.timer, {})
            log[attempt.occurrence, attempt.attempt] = attempt

    def _tell(self, events: Iterable[Event]) -> None:
        self._events.update((event.id, event) for event in events)

    async def due(
        self, shards: Collection[int], after: Due | None, before: Millis, limit: int
    ) -> list[Waking]:
        self._check_open()
        wanted = None if shards is ids.ALL_SHARDS else shards
        waking = sorted(
            Waking.of(timer)
            for timer in self._timers.values()
            if timer.wake_at is not None
            and timer.wake_at <= before
            and (after is None or timer.wake_at >= after.wake_at)
            and (wanted is None or timer.shard in wanted)
        )
        return [line for line in waking if after is None or line.place > after][:limit]

    async def remove(self, timers: Sequence[Timer]) -> list[bool]:
        self._check_open()
        return [self._remove(timer) for timer in timers]

    def _remove(self, timer: Timer) -> bool:
        stored = self._timers.get(timer.id)
        if stored is None or stored.version != timer.version:
            return False
        self._drop(stored)
        return True

    def _drop(self, timer: Timer) -> None:
        del self._timers[timer.id]
        del self._ids[timer.tenant, timer.group, timer.timer_id]
        self._attempts.pop(timer.id, None)

    async def search(self, query: Query) -> Page:
        self._check_open()

        def place(timer: Timer) -> tuple[Millis, str]:
            by_time = timer.created_at if query.sort == "created_at" else timer.execute_at
            return by_time, timer.id

        found = [timer for timer in self._timers.values() if matches(timer, query)]
        total = len(found) if query.with_total else None
        if query.after is not None:
            last = query.after
            found = [
                timer
                for timer in found
                if (place(timer) < last if query.descending else place(timer) > last)
            ]
        found.sort(key=place, reverse=query.descending)
        return Page(found[query.offset : query.offset + query.limit], total)

    async def count(self, tenant: str) -> list[Count]:
        self._check_open()
        mine = (timer for timer in self._timers.values() if timer.tenant == tenant)
        counts = Counter((timer.group, timer.status) for timer in mine)
        return [Count(group, status, timers) for (group, status), timers in counts.items()]

    async def scan(self, after: str | None, limit: int) -> list[Timer]:
        self._check_open()
        behind = [id_ for id_ in self._timers if after is None or id_ > after]
        return [self._timers[id_] for id_ in sorted(behind)[:limit]]

    async def attempts(
        self, timer: str, after: tuple[int, int] | None, limit: int
    ) -> list[Attempt]:
        self._check_open()
        log = sorted(self._attempts.get(timer, {}).items())
        return [attempt for place, attempt in log if after is None or place > after][:limit]

    async def events(self, shards: Collection[int], after: str | None, limit: int) -> list[Event]:
        self._check_open()
        wanted = None if shards is ids.ALL_SHARDS else shards
        found = sorted(
            id_
            for id_ in self._events
            if (after is None or id_ > after) and (wanted is None or ids.shard_of(id_) in wanted)
        )
        return [self._events[id_] for id_ in found[:limit]]

    async def published(self, ids: Sequence[str]) -> None:
        self._check_open()
        for id_ in ids:
            self._events.pop(id_, None)

    async def records(self, kind: str) -> list[Record]:
        self._check_open()
        return [record for place, record in sorted(self._records.items()) if place[0] == kind]

    async def put_record(self, old: Record | None, new: Record | None) -> bool:
        self._check_open()
        record = new or old
        if record is None:
            return False
        place = (record.kind, record.name)
        stored = self._records.get(place)
        if (stored and stored.version) != (old and old.version):
            return False
        if new is None:
            del self._records[place]
        else:
            self._records[place] = new
        return True

    async def purge(self, shards: Collection[int], before: Millis, limit: int) -> int:
        self._check_open()
        done = [
            timer
            for timer in self._timers.values()
            if timer.is_over
            and timer.spec.retention is None
            and timer.updated_at < before
            and timer.shard in shards
        ][:limit]
        for timer in done:
            self._drop(timer)
        return len(done)

    async def drop_outlived(self, shards: Collection[int], now: Millis, limit: int) -> int:
        self._check_open()
        done = [
            timer
            for timer in self._timers.values()
            if timer.drop_at is not None and timer.drop_at <= now and timer.shard in shards
        ][:limit]
        for timer in done:
            self._drop(timer)
        return len(done)

    async def write_lines(self, lines: Sequence[AuditLine], keep_for: Millis | None) -> None:  # noqa: ARG002 - it keeps them
        self._check_open()
        for line in lines:
            self._lines.setdefault(line.id, line)

    async def lines(
        self, tenant: str, after: str | None, limit: int, *, descending: bool
    ) -> list[AuditLine]:
        self._check_open()
        mine = sorted(id_ for id_, line in self._lines.items() if line.tenant == tenant)
        if descending:
            mine.reverse()
        behind = (
            id_ for id_ in mine if after is None or (id_ < after if descending else id_ > after)
        )
        return [self._lines[id_] for id_ in behind][:limit]

    async def drop_lines(self, before: Millis, limit: int) -> int:
        self._check_open()
        first = ids.first_at(before)
        old = [id_ for id_ in sorted(self._lines) if id_ < first][:limit]
        for id_ in old:
            del self._lines[id_]
        return len(old)

    async def announce(self, news: News) -> None:
        self._check_open()
        for hear in self._listeners:
            asyncio.get_running_loop().call_soon(hear, news)

    def listen(self, hear: Callable[[News], None]) -> None:
        self._listeners.append(hear)
