"""From a URL to a store."""

import sqlite3
from pathlib import Path

import pytest

from duetime.errors import ConfigurationError, StoreUnavailable
from duetime.stores import Insert
from duetime.stores.memory import MemoryStore
from duetime.stores.opening import Options, open_store
from duetime.stores.sqlite.store import SqliteStore
from tests.factories import insert, make_timer
from tests.servers.kinds import DATABASES


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///data/duetime.db", "data/duetime.db"),
        ("sqlite:////var/lib/duetime.db", "/var/lib/duetime.db"),
        ("sqlite:///with space?.db", "with space?.db"),
    ],
)
def test_a_sqlite_url_names_a_file(url, path):
    """Three slashes are relative, four are absolute."""
    store = open_store(url)
    assert isinstance(store, SqliteStore)
    assert store._path == Path(path)
    assert store._synchronous == "full"


def test_the_durability_of_sqlite_is_passed_on():
    """The setting reaches the store, and a wrong one is told."""
    assert open_store("sqlite:///a.db", Options("normal"))._synchronous == "normal"
    with pytest.raises(ConfigurationError, match="synchronous"):
        open_store("sqlite:///a.db", Options("maybe"))


@pytest.mark.parametrize("url", ["memory://", "memory:///"])
def test_memory_is_for_trials(url):
    """A store that forgets everything can be had by name."""
    assert isinstance(open_store(url), MemoryStore)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "duetime.db",
        "sqlite://",
        "sqlite:///",
        "sqlite://duetime.db",
        "sqlite:///:memory:",
        "sqlite3:///a.db",
        "memory://x",
        "oracle://user:secret@host/db",
    ],
)
def test_anything_else_says_what_is_supported(url):
    """A wrong URL is answered with the right ones, and never repeated: it may hold a password."""
    with pytest.raises(ConfigurationError, match="sqlite:////absolute/path") as refused:
        open_store(url)
    assert "secret" not in str(refused.value)


EXISTING = Options(must_exist=True)


async def test_a_file_that_must_exist_is_not_made(tmp_path):
    """Neither it nor its folder; the message says which file is missing."""
    store = open_store(f"sqlite:///{tmp_path}/data/duetime.db", EXISTING)
    with pytest.raises(ConfigurationError, match=r"there is no database .*/data/duetime\.db"):
        await store.migrate()
    await store.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("CREATE TABLE songs (name TEXT)", "is not one of Duetime's"),
        ("CREATE TABLE schema_history (number INTEGER)", "run duetime migrate on it first"),
    ],
)
async def test_a_file_that_must_exist_is_not_migrated(tmp_path, script, message):
    """One of somebody else's, or of an older version, is refused and stays as it is."""
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute(script)
    connection.close()
    before = path.read_bytes()
    store = open_store(f"sqlite:///{path}", EXISTING)
    with pytest.raises(ConfigurationError, match=message):
        await store.migrate()
    await store.close()
    assert path.read_bytes() == before


async def test_a_file_that_must_exist_is_only_read(tmp_path):
    """What is in it can be read, and SQLite itself refuses to write."""
    url = f"sqlite:///{tmp_path}/duetime.db"
    made = open_store(url)
    await made.migrate()
    timer = make_timer()
    await insert(made, timer)
    await made.close()
    store = open_store(url, EXISTING)
    await store.migrate()
    assert await store.scan(None, 10) == [timer]
    with pytest.raises(StoreUnavailable, match="readonly"):
        await store.insert([Insert(make_timer())])
    await store.close()


# But for those whose databases are emptied for the next test, and which have tests of their own.
@pytest.mark.parametrize("engine", sorted(DATABASES.keys() - {"mongodb", "cassandra"}))
async def test_what_must_exist_is_not_made(engine, fresh_database):
    """The message says that there is none; once it is made, it is opened."""
    url = await fresh_database(engine)
    store = open_store(url, EXISTING)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"no timers in|there is no table test_"):
            await store.migrate()
    made = open_store(url)
    await made.migrate()
    await store.migrate()
    assert await store.scan(None, 10) == []
    await made.close()
    await store.close()
