"""From a URL to a store."""

from pathlib import Path

import pytest

from duetime.errors import ConfigurationError
from duetime.stores.memory import MemoryStore
from duetime.stores.opening import Options, open_store
from duetime.stores.sqlite.store import SqliteStore


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
        "mysql://user:secret@host/db",
    ],
)
def test_anything_else_says_what_is_supported(url):
    """A wrong URL is answered with the right ones, and never repeated: it may hold a password."""
    with pytest.raises(ConfigurationError, match="sqlite:////absolute/path") as refused:
        open_store(url)
    assert "secret" not in str(refused.value)
