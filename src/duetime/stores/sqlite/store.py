"""The embedded store: timers in one SQLite file, on the machine's own disk.

Writes go through one thread, many to a commit (``writer``); reads run beside it on a few
connections of their own, and in WAL mode neither waits for the other. A read begun after a write
was acknowledged sees it. Several processes of one machine may share a file.

These threads need Python's lock only briefly, but a busy event loop can keep it from them for
a while each time they ask; so they ask as seldom as can be (``writes``).
"""

import asyncio
import queue
import sqlite3
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar, cast

from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.errors import ConfigurationError
from duetime.stores import Change, Count, Due, Insert, Key, Page, Query, Record, Waking
from duetime.stores.base import BaseStore
from duetime.stores.sqlite import reads, writes
from duetime.stores.sqlite.file import (
    SYNCHRONOUS,
    open_existing,
    open_reader,
    open_writer,
    translated,
)
from duetime.stores.sqlite.traits import TRAITS
from duetime.stores.sqlite.writer import Writer
from duetime.timer import Attempt, Event, Timer

P = ParamSpec("P")
T = TypeVar("T")


class SqliteStore(BaseStore):
    """Timers in an SQLite file. Nothing is opened before ``migrate``.

    ``synchronous`` says what an acknowledged write survives, whatever happens to this process:

    - ``full``: the loss of power too. Every commit waits for the disk.
    - ``normal``: a crash of the process; the newest commits may be lost with the machine's power.
    - ``off``: the same, and a loss of power may damage the file. For trials.

    ``readers`` is the number of threads that read. With ``must_exist`` the file is read only, and
    taken as it is.
    """

    traits = TRAITS

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: str = "full",
        readers: int = 3,
        must_exist: bool = False,
    ) -> None:
        if synchronous not in SYNCHRONOUS:
            raise ConfigurationError(
                f"SQLite's synchronous must be one of {', '.join(SYNCHRONOUS)}, not {synchronous}"
            )
        super().__init__()
        self._path = Path(path)
        self._synchronous = synchronous
        self._must_exist = must_exist
        self._writer: Writer | None = None
        self._threads = ThreadPoolExecutor(readers, "duetime-sqlite-reader")
        self._reader_count = readers
        # A search may take long. One reader is always left to those who cannot wait.
        self._searching = asyncio.Semaphore(max(readers - 1, 1))
        self._readers: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()

    async def _open(self) -> None:
        self._writer = Writer(await asyncio.to_thread(self._open_file))

    def _open_file(self) -> sqlite3.Connection:
        with translated(f"cannot open the database {self._path}"):
            if self._must_exist:
                writer = open_existing(self._path)
            else:
                writer = open_writer(self._path, self._synchronous)
            try:
                while self._readers.qsize() < self._reader_count:
                    self._readers.put(open_reader(self._path))
            except BaseException:
                writer.close()
                raise
            return writer

    async def ping(self) -> None:
        await self._read(reads.ping)

    async def _shut(self) -> None:
        if self._writer is not None:
            await self._writer.close()
        await asyncio.to_thread(self._threads.shutdown)
        while not self._readers.empty():
            self._readers.get().close()

    async def insert(self, inserts: Sequence[Insert]) -> list[Timer | None]:
        return await self._open_writer.write_batch(writes.insert, inserts)

    async def get(self, ids: Sequence[str], tenant: str | None = None) -> list[Timer | None]:
        return await self._read(reads.get, ids, tenant)

    async def get_by_key(self, keys: Sequence[Key]) -> list[Timer | None]:
        return await self._read(reads.get_by_key, keys)

    async def apply(self, changes: Sequence[Change]) -> list[bool]:
        return await self._open_writer.write_batch(writes.apply, changes)

    async def remove(self, timers: Sequence[Timer]) -> list[bool]:
        return await self._open_writer.write_batch(writes.remove, timers)

    async def due(
        self, shards: Collection[int], after: Due | None, before: Millis, limit: int
    ) -> list[Waking]:
        return await self._read(reads.due, reads.shard_list(shards), after, before, limit)

    async def search(self, query: Query) -> Page:
        async with self._searching:
            return await self._read(reads.search, query)

    async def count(self, tenant: str) -> list[Count]:
        async with self._searching:
            return await self._read(reads.count, tenant)

    async def scan(self, after: str | None, limit: int) -> list[Timer]:
        return await self._read(reads.scan, after, limit)

    async def attempts(
        self, timer: str, after: tuple[int, int] | None, limit: int
    ) -> list[Attempt]:
        return await self._read(reads.attempts, timer, after, limit)

    async def events(self, shards: Collection[int], after: str | None, limit: int) -> list[Event]:
        return await self._read(reads.events, reads.shard_list(shards), after, limit)

    async def published(self, ids: Sequence[str]) -> None:
        await self._write(writes.published, ids)

    async def records(self, kind: str) -> list[Record]:
        return await self._read(reads.records, kind)

    async def put_record(self, old: Record | None, new: Record | None) -> bool:
        return await self._write(writes.put_record, old, new)

    async def purge(self, shards: Collection[int], before: Millis, limit: int) -> int:
        return await self._write(writes.purge, reads.shard_list(shards), before, limit)

    async def drop_outlived(self, shards: Collection[int], now: Millis, limit: int) -> int:
        return await self._write(writes.drop_outlived, reads.shard_list(shards), now, limit)

    async def write_lines(self, lines: Sequence[AuditLine], keep_for: Millis | None) -> None:  # noqa: ARG002 - see drop_lines
        await self._open_writer.write_batch(writes.write_lines, lines)

    async def lines(
        self, tenant: str, after: str | None, limit: int, *, descending: bool
    ) -> list[AuditLine]:
        return await self._read(reads.lines, tenant, after, limit, descending=descending)

    async def drop_lines(self, before: Millis, limit: int) -> int:
        return await self._write(writes.drop_lines, before, limit)

    async def _write(
        self,
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        answer: T = await self._open_writer.write(
            lambda connection: work(connection, *args, **kwargs)
        )
        return answer

    async def _read(
        self,
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        self._check_open()

        def on_reader() -> T:
            connection = self._readers.get()  # there are as many as threads: it never waits
            try:
                with translated():
                    return work(connection, *args, **kwargs)
            finally:
                self._readers.put(connection)

        return await asyncio.get_running_loop().run_in_executor(self._threads, on_reader)

    @property
    def _open_writer(self) -> Writer:
        self._check_open()
        return cast("Writer", self._writer)
