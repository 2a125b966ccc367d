"""The MongoDB store: timers that several nodes look after.

Each call is one command, or a few, and carries a whole batch. Heartbeats and other small documents
have connections to themselves, so that a node that is busy does not pass for dead.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple, TypeVar, cast

import pymongo
from bson.binary import Binary
from bson.timestamp import Timestamp

from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.errors import Unanswered, not_known
from duetime.stores import Change, Count, Due, Insert, Key, News, Page, Query, Record, Waking
from duetime.stores.base import BaseStore
from duetime.stores.mongodb.address import Address
from duetime.stores.mongodb.barrier import Barrier
from duetime.stores.mongodb.connection import (
    ANSWER_WITHIN,
    QUICK_WITHIN,
    Client,
    Database,
    Session,
    connect,
    database_of,
    searches_at_once,
)
from duetime.stores.mongodb.counting import Counting
from duetime.stores.mongodb.errors import ENGINE_ERRORS, meaning, translated, was_never_sent
from duetime.stores.mongodb.fate import settle
from duetime.stores.mongodb.graves import Graves
from duetime.stores.mongodb.lane import MARGIN, Lane
from duetime.stores.mongodb.lines import Lines
from duetime.stores.mongodb.lists import Lists
from duetime.stores.mongodb.news import Listener, documents, news_of
from duetime.stores.mongodb.numbering import noting_unnumbered
from duetime.stores.mongodb.purging import Purging
from duetime.stores.mongodb.reads import Reads
from duetime.stores.mongodb.records import Records
from duetime.stores.mongodb.removing import Removing
from duetime.stores.mongodb.schema import STEPS, migrate
from duetime.stores.mongodb.traits import TRAITS
from duetime.stores.mongodb.writes import Writes
from duetime.timer import Attempt, Event, Status, Timer

T = TypeVar("T")


class _Opened(NamedTuple):
    """What there is once the database was reached."""

    database: Database
    reads: Reads
    lists: Lists
    writes: Writes
    records: Records
    purging: Purging
    removing: Removing
    counting: Counting
    lines: Lines


class MongodbStore(BaseStore):
    """Timers in a MongoDB database. Nothing is opened before ``migrate``.

    ``must_exist``: it is taken as it is, and ``migrate`` makes nothing.
    """

    traits = TRAITS

    def __init__(self, address: Address, *, must_exist: bool = False) -> None:
        super().__init__()
        self._address = address
        self._must_exist = must_exist
        self._client: Client | None = None
        self._opened: _Opened | None = None
        self._lane = Lane(address.pool_size, ANSWER_WITHIN)
        # A search may take long. Some connections are always left to those who cannot wait.
        self._searching = Lane(searches_at_once(address), ANSWER_WITHIN)
        self._quick = Lane(1, QUICK_WITHIN)
        self._barriers = Lane(1, ANSWER_WITHIN)
        self._barrier = Barrier(self._barriers)
        self._listener = Listener()

    async def _open(self) -> None:
        with translated():
            if self._client is None:
                self._client = connect(self._address)
            database = database_of(self._client, self._address)
            await migrate(database, STEPS, must_exist=self._must_exist)
        reads, graves = Reads(database), Graves(database)
        self._opened = _Opened(
            database,
            reads,
            Lists(database),
            Writes(database, reads, graves),
            Records(database),
            Purging(database, graves),
            Removing(database, graves),
            Counting(database),
            Lines(database),
        )
        self._listener.open(news_of(database))

    async def ping(self) -> None:
        opened = self._inside
        await self._lane.run(opened.database["schema_history"].find_one)

    async def _shut(self) -> None:
        await self._listener.close()
        for lane in (self._lane, self._searching, self._quick, self._barriers):
            await lane.close()
        client, self._client = self._client, None
        if client is not None:
            await client.close()
            await asyncio.sleep(0)  # the event loop closes sockets at its next turn

    async def insert(self, inserts: Sequence[Insert]) -> list[Timer | None]:
        writes = self._inside.writes
        return await self._write(lambda session: writes.insert(session, inserts))

    async def get(self, ids: Sequence[str], tenant: str | None = None) -> list[Timer | None]:
        reads = self._inside.reads
        return await self._read(self._lane, lambda session: reads.get(ids, tenant, session))

    async def get_by_key(self, keys: Sequence[Key]) -> list[Timer | None]:
        reads = self._inside.reads
        return await self._read(self._lane, lambda session: reads.get_by_key(keys, session))

    async def apply(self, changes: Sequence[Change]) -> list[bool]:
        writes = self._inside.writes
        return await self._write(lambda session: writes.apply(session, changes))

    async def remove(self, timers: Sequence[Timer]) -> list[bool]:
        removing = self._inside.removing
        return await self._write(lambda session: removing.remove(session, timers))

    async def due(
        self, shards: Collection[int], after: Due | None, before: Millis, limit: int
    ) -> list[Waking]:
        reads = self._inside.reads
        return await self._lane.run(lambda: reads.due(shards, after, before, limit))

    async def search(self, query: Query) -> Page:
        lists = self._inside.lists
        return await self._searching.run(lambda: lists.search(query))

    async def count(self, tenant: str) -> list[Count]:
        """In pieces, between which others get their turn."""
        counting = self._inside.counting
        found: Counter[tuple[str, Status]] = Counter()
        end: Binary | None = None
        while True:
            piece, end = await self._searching.run(partial(counting.count, tenant, end))
            for group, status, timers in piece:
                found[group, status] += timers
            if end is None:
                return [Count(group, status, timers) for (group, status), timers in found.items()]

    async def scan(self, after: str | None, limit: int) -> list[Timer]:
        reads = self._inside.reads
        return await self._lane.run(lambda: reads.scan(after, limit))

    async def attempts(
        self, timer: str, after: tuple[int, int] | None, limit: int
    ) -> list[Attempt]:
        reads = self._inside.reads
        return await self._lane.run(lambda: reads.attempts(timer, after, limit))

    async def events(self, shards: Collection[int], after: str | None, limit: int) -> list[Event]:
        reads = self._inside.reads
        return await self._lane.run(lambda: reads.events(shards, after, limit))

    async def published(self, ids: Sequence[str]) -> None:
        writes = self._inside.writes
        await self._lane.run(lambda: writes.published(ids))

    async def records(self, kind: str) -> list[Record]:
        records = self._inside.records
        return await self._read(
            self._quick, lambda session: records.of_kind(kind, session), QUICK_WITHIN
        )

    async def put_record(self, old: Record | None, new: Record | None) -> bool:
        records = self._inside.records
        return await self._quick.run(lambda: records.put(old, new))

    async def purge(self, shards: Collection[int], before: Millis, limit: int) -> int:
        purging = self._inside.purging
        return await self._lane.run(lambda: purging.purge(sorted(shards), before, limit))

    async def drop_outlived(self, shards: Collection[int], now: Millis, limit: int) -> int:
        purging = self._inside.purging
        return await self._lane.run(lambda: purging.drop_outlived(sorted(shards), now, limit))

    async def write_lines(self, lines: Sequence[AuditLine], keep_for: Millis | None) -> None:  # noqa: ARG002 - it keeps them
        kept = self._inside.lines
        await self._lane.run(lambda: kept.write(lines))

    async def lines(
        self, tenant: str, after: str | None, limit: int, *, descending: bool
    ) -> list[AuditLine]:
        kept = self._inside.lines
        return await self._lane.run(lambda: kept.read(tenant, after, limit, descending=descending))

    async def drop_lines(self, before: Millis, limit: int) -> int:
        kept = self._inside.lines
        return await self._lane.run(lambda: kept.drop(before, limit))

    async def announce(self, news: News) -> None:
        collection = news_of(self._inside.database)
        if pieces := list(documents(news)):
            await self._quick.run(lambda: collection.insert_many(pieces))

    def listen(self, hear: Callable[[News], None]) -> None:
        self._listener.add(hear)

    async def _read(
        self, lane: Lane, work: Callable[[Session], Awaitable[T]], within: float | None = None
    ) -> T:
        """Read what is no older than anything that was acknowledged before."""
        database = self._inside.database

        async def from_there_on(newest: Timestamp | None) -> T:
            async with database.client.start_session(causal_consistency=True) as session:
                if newest is not None:
                    session.advance_operation_time(newest)
                return await work(session)

        loop = asyncio.get_running_loop()
        # All of it together: the barrier may have to wait for the one before.
        give_up_at = loop.time() + (within or ANSWER_WITHIN + MARGIN)
        with translated():
            async with asyncio.timeout_at(give_up_at):
                # It is a write, which has no place in a database that is taken as it is.
                newest = None if self._must_exist else await self._barrier.passed(database)
                # It goes on though we give up, but not for long; and zero would be for ever.
                with pymongo.timeout(max(give_up_at - loop.time(), 0.001)):
                    return await lane.run(lambda: from_there_on(newest))

    async def _write(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Write. When this raises, the write has ended one way or the other.

        Unless it raises Unanswered: then that could not be seen to.
        """
        database = self._inside.database

        async def to_its_end() -> T:
            async with database.client.start_session(causal_consistency=False) as session:
                try:
                    return await self._lane.in_time(lambda: work(session))
                except ENGINE_ERRORS as error:
                    if was_never_sent(error):
                        raise
                    if await settle(database, session) and not unnumbered:
                        raise
                    raise Unanswered(not_known(f"MongoDB: {meaning(error)}")) from error

        with translated(), noting_unnumbered() as unnumbered:
            return await self._lane.in_turn(to_its_end)

    @property
    def _inside(self) -> _Opened:
        self._check_open()
        return cast("_Opened", self._opened)
