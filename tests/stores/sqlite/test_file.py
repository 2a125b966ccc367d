"""The database file: its settings, its migrations, and what is wrong with a broken one."""

import asyncio
import os
import sqlite3
import subprocess
import sys

import pytest

from duetime import ids, model
from duetime.errors import ConfigurationError, StoreUnavailable
from duetime.stores import Change
from duetime.stores.codec import COLUMNS, to_columns
from duetime.stores.schema import Migration, migrations
from duetime.stores.sqlite import file
from duetime.stores.sqlite.store import SqliteStore
from duetime.timer import Status
from tests.factories import NOW, claim_of, insert, make_timer, with_spec

KNOWN = migrations("sqlite")


def query(database, statement):
    """Ask the file directly."""
    connection = sqlite3.connect(database)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


async def test_the_folder_is_made(tmp_path):
    """A database may lie in folders that do not exist yet."""
    store = SqliteStore(tmp_path / "a" / "b c?#%41" / "duetime.db")
    await store.migrate()
    await insert(store, make_timer())
    await store.close()
    assert (tmp_path / "a" / "b c?#%41" / "duetime.db").exists()


@pytest.mark.parametrize(("synchronous", "level"), [("full", 2), ("normal", 1), ("off", 0)])
async def test_the_writer_is_as_durable_as_asked(database, synchronous, level):
    """The pragmas of the writing connection are WAL and the level that was asked for."""
    store = SqliteStore(database, synchronous=synchronous)
    await store.migrate()

    def pragmas(connection):
        names = ("journal_mode", "synchronous", "busy_timeout")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert await store._write(pragmas) == ["wal", level, 10_000]
    await store.close()


def test_full_is_the_default(database):
    """Nobody loses an acknowledged timer to a setting that was not made."""
    assert SqliteStore(database)._synchronous == "full"


def test_an_unknown_level_is_refused(database):
    """A wrong level of durability is told at once, with the right ones."""
    with pytest.raises(ConfigurationError, match="full, normal, off"):
        SqliteStore(database, synchronous="FULL; DROP TABLE timers")


async def test_readers_cannot_write(sqlite):
    """The connections of the pool only read."""
    with pytest.raises(StoreUnavailable, match="readonly"):
        await sqlite._read(lambda connection: connection.execute("DELETE FROM timers"))


async def test_a_new_file_has_larger_pages(sqlite, database):
    """They are cheaper to write in batches."""
    assert query(database, "PRAGMA page_size") == [(file.PAGE_BYTES,)]


async def test_an_older_file_keeps_its_pages(database):
    """It is opened and written as it is."""
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA page_size = 4096")
    connection.execute("CREATE TABLE older (text TEXT)")
    connection.close()
    store = SqliteStore(database)
    await store.migrate()
    await insert(store, make_timer())
    await store.close()
    assert query(database, "PRAGMA page_size") == [(4096,)]


FILLING = """
import os, sys
from pathlib import Path
from duetime.benching.usage import memory_mb
from duetime.stores.sqlite.file import open_writer

connection = open_writer(Path(sys.argv[1]), "off")
connection.execute("CREATE TABLE filling (content BLOB)")
before = memory_mb(os.getpid())
for _ in range(24):
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO filling VALUES (zeroblob(?))", [(4_000,)] * 1_000)
    connection.execute("COMMIT")
print(memory_mb(os.getpid()) - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read as Linux tells it")
@pytest.mark.parametrize("page_bytes", [file.PAGE_BYTES, 4096])
def test_pages_in_memory_are_bounded(database, page_bytes):
    """However much is written, a connection keeps some 32 MB of it: in a new file, and an older."""
    if page_bytes != file.PAGE_BYTES:
        connection = sqlite3.connect(database)
        connection.execute(f"PRAGMA page_size = {page_bytes}")
        connection.execute("CREATE TABLE older (text TEXT)")
        connection.close()
    filling = subprocess.run(
        [sys.executable, "-c", FILLING, str(database)], capture_output=True, text=True, check=True
    )
    assert float(filling.stdout) < 48


async def test_timers_of_the_first_schema_go_on(database):
    """A file from before timers had a weight is brought up to date, with all that is in it."""
    timer = make_timer()
    write_old(database, KNOWN[:1], [timer], without={"weight", "drop_at"})
    store = SqliteStore(database)
    await store.migrate()
    assert await store.get([timer.id]) == [timer]
    [line] = await store.due(ids.ALL_SHARDS, None, timer.wake_at, 10)
    assert line.place == (timer.wake_at, timer.id)
    assert line.weight >= timer.weight
    assert await store.apply([claim_of(timer)]) == [True]
    await store.close()


async def test_timers_from_before_they_had_a_retention_go_on(database):
    """Finished ones are dropped as usual, and whoever is given one by then is kept by it."""
    finished = make_timer(status=Status.COMPLETED, wake_at=None)
    pending = make_timer()
    write_old(database, KNOWN[:3], [finished, pending], without={"drop_at"})
    store = SqliteStore(database)
    await store.migrate()
    assert await store.get([finished.id, pending.id]) == [finished, pending]
    kept = with_spec(pending, retention=5_000)
    assert await store.apply([Change(pending, kept)]) == [True]
    assert await store.apply([Change(kept, model.cancel(kept, NOW))]) == [True]
    assert await store.purge(ids.ALL_SHARDS, NOW + 1, 10) == 1
    assert await store.drop_outlived(ids.ALL_SHARDS, NOW + 5_000, 10) == 1
    await store.close()


def write_old(database, steps, timers, *, without):
    """A file with these steps of the schema only, and timers in it."""
    connection = sqlite3.connect(database, isolation_level=None)
    file.migrate(connection, database, steps)
    for timer in timers:
        row = dict(zip(COLUMNS, to_columns(timer), strict=True))
        names = [name for name in row if name not in without]
        columns = ", ".join(f'"{name}"' for name in names)
        connection.execute(
            f"INSERT INTO timers ({columns}) VALUES ({', '.join('?' * len(names))})",
            [row[name] for name in names],
        )
    connection.close()


async def test_all_tables_are_strict(sqlite, database):
    """SQLite checks the type of every value."""
    rows = query(database, "SELECT name, strict FROM pragma_table_list WHERE schema = 'main'")
    tables = {name: strict for name, strict in rows if not name.startswith("sqlite_")}
    assert set(tables) == {
        *("timers", "tags", "attempts", "events", "records", "audit_lines", "schema_history")
    }
    assert all(tables.values())


async def test_the_history_names_what_was_run(sqlite, database):
    """Each migration is on record once."""
    history = query(database, "SELECT number, name FROM schema_history ORDER BY number")
    assert history == [(migration.number, migration.name) for migration in KNOWN]


def test_migrations_are_numbered_without_gaps():
    """The files count from one."""
    assert [migration.number for migration in KNOWN] == list(range(1, len(KNOWN) + 1))


async def test_opening_again_keeps_everything(database):
    """A second start migrates nothing and finds what the first one wrote."""
    timer = make_timer()
    for attempt in range(2):
        store = SqliteStore(database)
        await store.migrate()
        if attempt == 0:
            await insert(store, timer)
        assert await store.get([timer.id]) == [timer]
        await store.close()


async def test_an_older_schema_is_brought_up_to_date(sqlite, database):
    """Only the migrations that the file has not seen are run, and its rows stay."""
    timer = make_timer()
    await insert(sqlite, timer)
    newer = Migration(
        len(KNOWN) + 1, "colours", "CREATE TABLE a (b); -- first\nCREATE TABLE c (d);"
    )
    connection = sqlite3.connect(database, isolation_level=None)
    file.migrate(connection, database, [*KNOWN, newer])
    file.migrate(connection, database, [*KNOWN, newer])
    connection.close()
    assert query(database, "SELECT name FROM schema_history")[-1] == ("colours",)
    assert query(database, "SELECT count(*) FROM c") == [(0,)]
    assert await sqlite.get([timer.id]) == [timer]


def test_a_failing_migration_changes_nothing(database):
    """A migration is run whole or not at all."""
    broken = Migration(len(KNOWN) + 1, "broken", "CREATE TABLE a (b);\nCREATE TABLE a (b);")
    connection = sqlite3.connect(database, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        file.migrate(connection, database, [*KNOWN, broken])
    connection.close()
    assert query(database, "SELECT name FROM sqlite_schema") == []


async def test_a_newer_database_is_refused(sqlite, database):
    """An older Duetime does not touch the file of a newer one, and says so."""
    await sqlite.close()
    connection = sqlite3.connect(database)
    connection.execute("INSERT INTO schema_history VALUES (99, 'from the future')")
    connection.commit()
    connection.close()
    store = SqliteStore(database)
    with pytest.raises(ConfigurationError, match=r"newer Duetime .*99.*upgrade Duetime"):
        await store.migrate()
    await store.close()


async def test_many_migrate_one_new_file_at_once(database):
    """Instances that start together on a new file all come up, on one schema."""
    stores = [SqliteStore(database, readers=1) for _ in range(6)]
    await asyncio.gather(*(store.migrate() for store in stores))
    timer = make_timer()
    await insert(stores[0], timer)
    assert [await store.get([timer.id]) for store in stores] == [[timer]] * 6
    await asyncio.gather(*(store.close() for store in stores))
    assert query(database, "SELECT count(*) FROM schema_history") == [(len(KNOWN),)]


@pytest.mark.slow
def test_many_processes_migrate_one_new_file_at_once(database):
    """The same holds for processes."""
    script = (
        "import asyncio, sys\n"
        "from duetime.stores.sqlite.store import SqliteStore\n"
        "async def main():\n"
        "    store = SqliteStore(sys.argv[1])\n"
        "    sys.stdin.read()\n"
        "    await store.migrate()\n"
        "    await store.ping()\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", script, str(database)], stdin=subprocess.PIPE)
        for _ in range(4)
    ]
    for child in children:
        child.stdin.close()
    assert [child.wait(60) for child in children] == [0] * 4
    assert query(database, "SELECT count(*) FROM schema_history") == [(len(KNOWN),)]


async def test_an_old_sqlite_is_refused(database, monkeypatch):
    """An engine without STRICT tables is named, with what to do."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 9))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.36.9")
    store = SqliteStore(database)
    with pytest.raises(ConfigurationError, match=r"needs SQLite 3\.37 or newer.*3\.36\.9"):
        await store.migrate()
    await store.close()
    assert not database.exists()


async def test_a_file_that_is_no_database_is_refused(database):
    """A broken file is named in the message, and not overwritten."""
    database.write_bytes(b"this is no database at all" * 100)
    store = SqliteStore(database)
    with pytest.raises(StoreUnavailable, match=r"duetime\.db: file is not a database"):
        await store.migrate()
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.ping()
    await store.close()
    assert database.read_bytes().startswith(b"this is no database")


async def test_a_folder_in_place_of_the_file_is_refused(database):
    """A path that is a folder is named in the message."""
    database.mkdir()
    store = SqliteStore(database)
    with pytest.raises(StoreUnavailable, match=r"cannot open the database .*duetime\.db"):
        await store.migrate()
    await store.close()


async def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    """A file where a folder should be is a wrong setting."""
    (tmp_path / "file").touch()
    store = SqliteStore(tmp_path / "file" / "duetime.db")
    with pytest.raises(ConfigurationError, match="cannot make the folder"):
        await store.migrate()
    await store.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
async def test_a_read_only_file_is_refused(sqlite, database):
    """A file that may not be written is told at the start."""
    await sqlite.close()
    database.chmod(0o444)
    store = SqliteStore(database)
    with pytest.raises(StoreUnavailable, match="readonly"):
        await store.migrate()
    await store.close()


async def test_a_broken_start_can_be_tried_again(database):
    """A store whose migrate failed opens once the reason is gone."""
    database.mkdir()
    store = SqliteStore(database)
    with pytest.raises(StoreUnavailable):
        await store.migrate()
    database.rmdir()
    await store.migrate()
    await store.ping()
    await store.close()


async def test_nothing_works_before_migrate(database):
    """A store that was not opened says so, and can be closed."""
    store = SqliteStore(database)
    with pytest.raises(StoreUnavailable, match="call migrate"):
        await store.get([])
    await store.close()
    assert not database.exists()
