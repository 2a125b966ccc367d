"""The tables in MySQL: made by whoever comes first, and never by a program that is too old."""

import pytest

from duetime import ids, model
from duetime.errors import ConfigurationError, StoreUnavailable
from duetime.stores import Change
from duetime.stores.mysql import store as store_module
from duetime.stores.mysql.dialect import MARIADB, MYSQL, TIDB, dialect_of
from duetime.stores.opening import Options, open_store
from duetime.stores.schema import Migration, migrations
from tests.factories import (
    NOW,
    completed,
    insert,
    make_attempt,
    make_line,
    make_spec,
    make_timer,
)

KNOWN = migrations("mysql")
LAST = KNOWN[-1].number


@pytest.mark.parametrize(
    ("version", "dialect"),
    [
        ("8.0.28-0ubuntu4", MYSQL),
        ("9.4.0", MYSQL),
        ("5.5.5-10.11.14-MariaDB-0+deb12u2", MARIADB),
        ("8.0.11-TiDB-v7.5.1", TIDB),
    ],
)
def test_who_a_server_is_its_version_says(version, dialect):
    """Whatever it calls itself beside."""
    assert dialect_of(version) is dialect


def test_who_skips_what_is_locked():
    """TiDB cannot: there, purging waits."""
    assert [each.skips_locked for each in (MYSQL, MARIADB, TIDB)] == [True, True, False]


async def with_steps(url, monkeypatch, *steps):
    """A store of a program that knows more steps."""
    monkeypatch.setattr(store_module, "migrations", lambda engine: [*KNOWN, *steps])
    store = open_store(url)
    try:
        await store.migrate()
    finally:
        await store.close()


async def test_an_old_database_goes_on_without_loss(mysql_url, monkeypatch):
    """What the first version wrote is there, is dropped as ever, and may get its own retention."""
    waiting, old = make_timer(), make_timer()
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "migrations", lambda engine: KNOWN[:1])
        store = open_store(mysql_url)
        await store.migrate()
        await insert(store, waiting, old)
        assert await store.apply([Change(old, completed(old), make_attempt(old))]) == [True]
        await store.close()
    store = open_store(mysql_url)
    await store.migrate()
    assert await store.get([waiting.id, old.id]) == [waiting, completed(old)]
    assert await store.attempts(old.id, None, 10) == [make_attempt(old)]
    own = model.replace(
        completed(old), NOW, spec=make_spec(retention=9), execute_at=NOW, fingerprint=None
    )
    kept = model.cancel(own, NOW + 1)
    assert await store.apply([Change(completed(old), own)]) == [True]
    assert await store.apply([Change(own, kept)]) == [True]
    assert await store.purge(ids.ALL_SHARDS, NOW * 2, 10) == 0
    assert await store.drop_outlived(ids.ALL_SHARDS, NOW + 10, 10) == 1
    assert await store.scan(None, 10) == [waiting]
    line = make_line()
    await store.write_lines([line], None)
    assert await store.lines("default", None, 10, descending=True) == [line]
    await store.close()


async def test_a_newer_schema_is_refused_unless_it_says_that_we_can_live_with_it(
    mysql, mysql_url, monkeypatch
):
    """Nodes of two versions share the tables during a rolling upgrade."""
    lax = Migration(LAST + 1, "more", "CREATE TABLE more (n INT)", LAST)
    await with_steps(mysql_url, monkeypatch, lax)
    await with_steps(mysql_url, monkeypatch)
    await mysql.ping()
    strict = Migration(LAST + 2, "other", "CREATE TABLE other (n INT)", LAST + 2)
    await with_steps(mysql_url, monkeypatch, lax, strict)
    with pytest.raises(ConfigurationError, match="upgrade Duetime"):
        await with_steps(mysql_url, monkeypatch)


async def test_a_step_that_failed_is_made_again(mysql_url, monkeypatch):
    """The driver's error does not get out, the store stays shut, and the next start goes on."""
    broken = Migration(LAST + 1, "broken", "CREATE TABLE IF NOT EXISTS a (b INT); SELECT nonsense")
    with pytest.raises(StoreUnavailable, match="nonsense"):
        await with_steps(mysql_url, monkeypatch, broken)
    mended = Migration(LAST + 1, "mended", "CREATE TABLE IF NOT EXISTS a (b INT)")
    await with_steps(mysql_url, monkeypatch, mended)


async def test_two_installations_share_a_server_by_their_databases(mysql, fresh_database, request):
    """They do not see each other."""
    other = open_store(await fresh_database(request.node.callspec.params["mysql_url"]))
    await other.migrate()
    timer = make_timer(timer_id="same")
    await insert(mysql, timer)
    await insert(other, make_timer(timer_id="same"))
    assert await other.get([timer.id]) == [None]
    await other.close()


async def test_tables_that_must_exist_are_not_made(mysql_url, monkeypatch):
    """The message names the database; once they are made it is opened, and never migrated."""
    existing = Options(must_exist=True)
    store = open_store(mysql_url, existing)
    with pytest.raises(ConfigurationError, match=r"no timers in the database test_"):
        await store.migrate()
    await with_steps(mysql_url, monkeypatch)
    await store.migrate()
    assert await store.scan(None, 10) == []
    await store.close()
    more = Migration(LAST + 1, "more", "CREATE TABLE more (n INT)", LAST)
    monkeypatch.setattr(store_module, "migrations", lambda engine: [*KNOWN, more])
    older = open_store(mysql_url, existing)
    with pytest.raises(ConfigurationError, match="run duetime migrate on it first"):
        await older.migrate()
    await older.close()
