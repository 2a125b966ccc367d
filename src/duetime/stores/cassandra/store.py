"""The Cassandra store: timers that many nodes look after, on servers of which some may be down.

Everything of a shard lies in one partition, and is written by conditional batches; see ``rows.py``
for what lies in it, ``lane.py`` for how it is written, and ``floors.py`` for what keeps the reading
of what is due cheap.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.stores import Change, Count, Due, Insert, Key, Page, Query, Record, Waking
from duetime.stores.base import BaseStore
from duetime.stores.cassandra.address import Address
from duetime.stores.cassandra.errors import translated
from duetime.stores.cassandra.lanes import Lanes
from duetime.stores.cassandra.lines import Lines
from duetime.stores.cassandra.reads import Reads
from duetime.stores.cassandra.records import QUICK_WITHIN, Records
from duetime.stores.cassandra.schema import migrate
from duetime.stores.cassandra.session import Session, open_session
from duetime.stores.cassandra.shards import Shards
from duetime.stores.cassandra.traits import TRAITS
from duetime.stores.cassandra.writes import Writes
from duetime.stores.schema import migrations
from duetime.timer import Attempt, Event, Timer

T = TypeVar("T")

MIGRATE_WITHIN = 120.0  # seconds


class CassandraStore(BaseStore):
    """Timers in a keyspace. Nothing is opened before ``migrate``.

    With ``must_exist`` the keyspace is taken as it is, and neither made nor migrated.
    """

    traits = TRAITS

    def __init__(
        self, address: Address, *, retention: Millis | None = None, must_exist: bool = False
    ) -> None:
        super().__init__()
        self._address = address
        self._retention = retention
        self._must_exist = must_exist
        self._rooms: _Rooms | None = None

    async def _open(self) -> None:
        with translated():
            async with asyncio.timeout(MIGRATE_WITHIN):
                self._rooms = await _Rooms.opened(
                    self._address, self._retention, must_exist=self._must_exist
                )

    async def ping(self) -> None:
        await self._do(lambda rooms: rooms.reads.ping())

    async def _shut(self) -> None:
        rooms, self._rooms = self._rooms, None
        if rooms is not None:
            await rooms.close()

    async def insert(self, inserts: Sequence[Insert]) -> list[Timer | None]:
        return await self._do(lambda rooms: rooms.writes.insert(inserts))

    async def get(self, ids: Sequence[str], tenant: str | None = None) -> list[Timer | None]:
        return await self._do(lambda rooms: rooms.reads.get(ids, tenant))

    async def get_by_key(self, keys: Sequence[Key]) -> list[Timer | None]:
        return await self._do(lambda rooms: rooms.reads.get_by_key(keys))

    async def apply(self, changes: Sequence[Change]) -> list[bool]:
        return await self._do(lambda rooms: rooms.writes.apply(changes))

    async def due(
        self, shards: Collection[int], after: Due | None, before: Millis, limit: int
    ) -> list[Waking]:
        return await self._do(lambda rooms: rooms.reads.due(shards, after, before, limit))

    async def remove(self, timers: Sequence[Timer]) -> list[bool]:
        return await self._do(lambda rooms: rooms.writes.remove(timers))

    async def search(self, query: Query) -> Page:
        self.traits.check(query)
        return await self._do(lambda rooms: rooms.reads.search(query))

    async def count(self, tenant: str) -> list[Count]:
        return await self._do(lambda rooms: rooms.reads.count(tenant))

    async def scan(self, after: str | None, limit: int) -> list[Timer]:
        return await self._do(lambda rooms: rooms.reads.scan(after, limit))

    async def attempts(
        self, timer: str, after: tuple[int, int] | None, limit: int
    ) -> list[Attempt]:
        return await self._do(lambda rooms: rooms.reads.attempts(timer, after, limit))

    async def events(self, shards: Collection[int], after: str | None, limit: int) -> list[Event]:
        return await self._do(lambda rooms: rooms.reads.events(shards, after, limit))

    async def published(self, ids: Sequence[str]) -> None:
        await self._do(lambda rooms: rooms.writes.published(ids))

    async def records(self, kind: str) -> list[Record]:
        return await self._do(lambda rooms: rooms.records.read(kind))

    async def put_record(self, old: Record | None, new: Record | None) -> bool:
        return await self._do(lambda rooms: rooms.records.put(old, new))

    async def purge(self, shards: Collection[int], before: Millis, limit: int) -> int:
        return await self._do(lambda rooms: rooms.writes.purge(shards, before, limit))

    async def drop_outlived(self, shards: Collection[int], now: Millis, limit: int) -> int:  # noqa: ARG002 - Cassandra does it
        self._check_open()
        return 0

    async def write_lines(self, lines: Sequence[AuditLine], keep_for: Millis | None) -> None:
        await self._do(lambda rooms: rooms.lines.write(lines, keep_for))

    async def lines(
        self, tenant: str, after: str | None, limit: int, *, descending: bool
    ) -> list[AuditLine]:
        return await self._do(
            lambda rooms: rooms.lines.read(tenant, after, limit, descending=descending)
        )

    async def drop_lines(self, before: Millis, limit: int) -> int:  # noqa: ARG002 - Cassandra does it
        self._check_open()
        return 0

    async def _do(self, work: Callable[["_Rooms"], Awaitable[T]]) -> T:
        self._check_open()
        with translated():
            return await work(cast("_Rooms", self._rooms))


class _Rooms(NamedTuple):
    """All that an open store works with."""

    drivers: tuple[Any, Any]
    lanes: Lanes
    reads: Reads
    writes: Writes
    records: Records
    lines: Lines

    @classmethod
    async def opened(
        cls, address: Address, retention: Millis | None, *, must_exist: bool
    ) -> "_Rooms":
        """Connect, and bring the schema up to date."""
        drivers = main, quick = await asyncio.to_thread(_connect, address, must_exist=must_exist)
        session = Session(main, address.keyspace)
        shards = Shards(session)
        lanes = Lanes(session, shards)
        reads = Reads(session, shards, lanes)
        writes = Writes(session, shards, lanes, reads, retention)
        records = Records(Session(quick, address.keyspace, QUICK_WITHIN))
        return cls(drivers, lanes, reads, writes, records, Lines(session))

    async def close(self) -> None:
        """Let go of every connection, after the writes under way have ended."""
        await self.lanes.idle()
        await self.lines.idle()
        for driver in self.drivers:
            await asyncio.to_thread(driver.cluster.shutdown)


def _connect(address: Address, *, must_exist: bool) -> tuple[Any, Any]:
    """Two sessions: for timers, and for what must not wait behind them."""
    main = open_session(address)
    try:
        migrate(main, address, migrations("cassandra"), must_exist=must_exist)
        return main, open_session(address)
    except BaseException:
        main.cluster.shutdown()
        raise
