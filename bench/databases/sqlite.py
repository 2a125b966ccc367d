"""SQLite: a database is a file in a folder of its own."""

import asyncio
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from itertools import islice
from pathlib import Path

from bench.aims import Aims
from bench.backlog import far_rows, far_timers
from bench.databases import Database, Extent, Way
from bench.sizes import Sizes
from duetime.benching.machine import disk_of
from duetime.stores.codec import COLUMNS, to_columns
from duetime.stores.sqlite.file import open_writer
from duetime.stores.sqlite.traits import TRAITS
from duetime.timer import Status

AT_ONCE = 20_000
CACHE_KB = 1_048_576  # for filling: a gigabyte

_SCHEME = "sqlite:///"

_NAMES = ", ".join(f'"{column}"' for column in COLUMNS)
INSERTING = f"INSERT INTO timers ({_NAMES}) VALUES ({', '.join('?' * len(COLUMNS))})"


class SqliteFile:
    """One file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = f"{_SCHEME}{path}"

    async def count(self, *statuses: Status) -> int:
        marks = ", ".join("?" * len(statuses))
        # With the tenant, for which there is an index: nobody waits while millions are counted.
        where = f"WHERE tenant = 'default' AND status IN ({marks})" if statuses else ""
        values = [status.value for status in statuses]
        with closing(sqlite3.connect(self._path)) as connection:
            rows = connection.execute(f"SELECT count(*) FROM timers {where}", values)
            return int(rows.fetchone()[0])

    async def fill(self, count: int, on_progress: Callable[[int], None]) -> None:
        # It is not measured, so it does not wait for the disk before the end, and writes no log of
        # what would be undone: a file that is left half filled is removed.
        with closing(open_writer(self._path, "off")) as connection:
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute(f"PRAGMA cache_size = -{CACHE_KB}")
            indexes = _drop_indexes(connection)
            rows = far_rows(count)
            for done in range(0, count, AT_ONCE):
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(INSERTING, islice(rows, AT_ONCE))
                connection.execute("COMMIT")
                on_progress(min(done + AT_ONCE, count))
                await asyncio.sleep(0)  # a place to be interrupted at
            for statement in indexes:
                connection.execute(statement)
                on_progress(count)
                await asyncio.sleep(0)
            connection.execute("PRAGMA journal_mode = WAL")
        self._flush()

    async def extent(self) -> Extent:
        with closing(sqlite3.connect(self._path)) as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            (size,) = connection.execute("PRAGMA page_size").fetchone()
        return Extent(table_mb=pages * size / 1e6)

    def _flush(self) -> None:
        """Let the disk catch up, or else the first commits that are measured would wait for it."""
        with self._path.open("rb") as file:
            os.fsync(file.fileno())


def _drop_indexes(connection: sqlite3.Connection) -> list[str]:
    """Drop those that can be dropped, and tell the statements that make them again, word for word.

    Ten million rows in no order, entered into an index one by one, would rewrite most of its pages
    again and again; sorted at the end, each page is written once.
    """
    found = connection.execute(
        "SELECT name, sql FROM sqlite_schema "
        "WHERE type = 'index' AND tbl_name = 'timers' AND sql IS NOT NULL ORDER BY rowid"
    ).fetchall()
    for name, _ in found:
        connection.execute(f"DROP INDEX {name}")
    return [statement for _, statement in found]


def _bare(url: str, count: int, size: int) -> float:
    """The bare driver: ``executemany``, as one would write it by hand."""
    rows = [to_columns(timer) for timer in far_timers(count)]
    connection = open_writer(Path(url.removeprefix(_SCHEME)), "full")
    started = time.perf_counter()
    for at in range(0, count, size):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERTING, rows[at : at + size])
        connection.execute("COMMIT")
    seconds = time.perf_counter() - started
    connection.close()
    return count / seconds


WAYS: dict[str, Way] = {"bare sqlite3": _bare}


class SqliteFiles:
    """Files below the folder that is measured."""

    kind = "sqlite"
    aims = Aims(creates=0.7, batches=0.6, burst=0.6)
    sizes = Sizes(start_pending=10_000_000)
    num_shards = TRAITS.num_shards
    bare_ways = tuple(WAYS)
    is_metered = True

    def __init__(self, data: Path) -> None:
        self._data = data

    async def describe(self) -> dict[str, str]:
        disk = disk_of(self._data)
        return {
            "sqlite": f"{sqlite3.sqlite_version}, synchronous=full",
            "disk": f"{disk.device} ({disk.kind})",
        }

    def cpu_seconds(self) -> float | None:
        return None  # it runs in Duetime's process

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Database]:
        folder = Path(tempfile.mkdtemp(dir=self._data))
        try:
            yield SqliteFile(folder / "timers.db")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def settle(self, url: str) -> None:
        """It leaves nothing for later."""
