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
from bench.backlog import far_timers
from bench.databases import Database, Extent, Way
from bench.sizes import Sizes
from duetime.benching.machine import disk_of
from duetime.stores.codec import COLUMNS, to_columns
from duetime.stores.sqlite.file import open_writer
from duetime.stores.sqlite.traits import TRAITS
from duetime.timer import Status

AT_ONCE = 5_000

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
        where = f"WHERE status IN ({marks})" if statuses else ""
        values = [status.value for status in statuses]
        with closing(sqlite3.connect(self._path)) as connection:
            rows = connection.execute(f"SELECT count(*) FROM timers {where}", values)
            return int(rows.fetchone()[0])

    async def fill(self, count: int, on_progress: Callable[[int], None]) -> None:
        # It is not measured, so it does not wait for the disk before the end.
        connection = open_writer(self._path, "off")
        connection.execute("PRAGMA cache_size = -1048576")  # all of it: a gigabyte
        timers = far_timers(count)
        for done in range(0, count, AT_ONCE):
            rows = [to_columns(timer) for timer in islice(timers, AT_ONCE)]
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(INSERTING, rows)
            connection.execute("COMMIT")
            on_progress(done + len(rows))
            await asyncio.sleep(0)  # a place to be interrupted at
        connection.close()
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
    aims = Aims(creates=0.55, batches=0.45, burst=0.45)
    sizes = Sizes()
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
