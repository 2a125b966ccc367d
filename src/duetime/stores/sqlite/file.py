"""The database file: opening it, bringing its schema up to date, and what its errors mean."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from duetime.errors import ConfigurationError, StoreUnavailable
from duetime.stores.schema import Migration, check_not_newer, check_not_older, migrations
from duetime.stores.translation import translating

OLDEST_SQLITE = (3, 37)  # the first with STRICT tables
SYNCHRONOUS = ("full", "normal", "off")

# Of a new file; an older one keeps its own. A batch of changes touches neighbours: with pages of
# twice SQLite's usual size, it writes half as many, and they are cheaper than twice as large.
PAGE_BYTES = 8192

# How long a connection waits for another process that is writing.
BUSY_SECONDS = 10.0

_ENGINE_ERRORS = (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError)

_PRAGMAS = (
    # First: when the size of pages changes, SQLite goes on with as many, and not with as much.
    f"PRAGMA page_size = {PAGE_BYTES}",
    "PRAGMA cache_size = -32768",  # 32 MB
    "PRAGMA temp_store = MEMORY",
    "PRAGMA journal_size_limit = 67108864",  # a burst does not leave its huge log behind for ever
)


def translate(error: Exception) -> Exception:
    """What the engine threw, as the contract wants it; other errors are bugs and stay as they are.

    A value that SQLite cannot hold (an integer over 64 bits, half a surrogate pair) is refused by
    its driver with an error of Python's own.
    """
    if not isinstance(error, _ENGINE_ERRORS):
        return error
    unavailable = StoreUnavailable(f"SQLite: {error}")
    unavailable.__cause__ = error
    return unavailable


translated = translating("SQLite", _ENGINE_ERRORS, str)


def check_engine() -> None:
    """Refuse an SQLite that is too old, before anything is written."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise ConfigurationError(
            f"Duetime needs SQLite {needed} or newer, and this Python brings "
            f"{sqlite3.sqlite_version}: use a newer Python, or another database"
        )


def open_writer(path: Path, synchronous: str) -> sqlite3.Connection:
    """Open the file for writing, created and migrated as needed."""
    check_engine()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot make the folder of the database {path}: {error}"
        ) from error
    connection = _connect(path, "rwc")
    try:
        _use_wal(connection, path)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        migrate(connection, path, migrations("sqlite"))
    except BaseException:
        connection.close()
        raise
    return connection


def open_existing(path: Path) -> sqlite3.Connection:
    """Open a file that is there and up to date. SQLite itself refuses to write to it then."""
    check_engine()
    if not path.is_file():
        raise ConfigurationError(f"there is no database {path}")
    connection = open_reader(path)
    try:
        _check_up_to_date(connection, path, migrations("sqlite")[-1].number)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_up_to_date(connection: sqlite3.Connection, path: Path, known: int) -> None:
    """Refuse a file with another schema than this version's."""
    try:
        (newest,) = connection.execute(
            "SELECT coalesce(max(number), 0) FROM schema_history"
        ).fetchone()
    except sqlite3.OperationalError as error:
        raise ConfigurationError(f"the database {path} is not one of Duetime's: {error}") from error
    check_not_newer(f"the database {path}", newest, newest, known)
    check_not_older(f"the database {path}", newest, known)


def open_reader(path: Path) -> sqlite3.Connection:
    """Open the file for reading only. In WAL mode, a reader never waits for a writer."""
    return _connect(path, "ro")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,  # transactions are begun by hand
        check_same_thread=False,  # the pool sees to it that one thread uses it at a time
    )
    try:
        for pragma in _PRAGMAS:
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection, path: Path) -> None:
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    except sqlite3.OperationalError:
        # Two that switch a new file at once get in each other's way, and SQLite does not wait
        # then. It does for this lock; whoever had it, has switched the file.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise ConfigurationError(
            f"the database {path} cannot be switched to WAL mode: it must lie on a local disk"
        )


def migrate(connection: sqlite3.Connection, path: Path, known: list[Migration]) -> None:
    """Run the migrations that the file has not seen yet, all or none.

    The write lock is taken before the history is read: of two that migrate at once, the second
    waits, and then finds nothing left to do.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_history "
            "(number INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT"
        )
        (newest,) = connection.execute(
            "SELECT coalesce(max(number), 0) FROM schema_history"
        ).fetchone()
        check_not_newer(f"the database {path}", newest, newest, known[-1].number)
        for migration in known:
            if migration.number > newest:
                for statement in _statements(migration.script):
                    connection.execute(statement)
                connection.execute(
                    "INSERT INTO schema_history VALUES (?, ?)", (migration.number, migration.name)
                )
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _statements(script: str) -> Iterator[str]:
    """Split a script, because ``executescript`` would commit before it runs."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
