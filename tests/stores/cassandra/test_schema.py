"""Tables are made by several at once, and are the same ones."""

import uuid

import pytest

from duetime.errors import StoreUnavailable
from duetime.stores.cassandra import store as opening
from duetime.stores.cassandra.schema import with_id
from duetime.stores.schema import migrations
from tests.factories import claim_of, insert, make_line, make_timer
from tests.servers.cassandra import administrator

PLAIN = "CREATE TABLE IF NOT EXISTS k.history (n int PRIMARY KEY)"
WITH_OPTIONS = f"{PLAIN} WITH gc_grace_seconds = 1"


@pytest.mark.parametrize(("statement", "word"), [(PLAIN, "WITH"), (WITH_OPTIONS, "AND")])
def test_a_new_table_has_an_id_that_everybody_gives_it(statement, word):
    """It is added to whatever options there are."""
    made, again = with_id(statement, 1), with_id(statement, 1)
    assert made == again
    assert made.startswith(f"{statement} {word} ID = ")


def test_another_table_has_another_id():
    """Also the table of that name in a keyspace that was dropped, whose rows must not come back."""
    ids = {
        with_id(statement, made_at).rpartition(" ")[2]
        for statement in (PLAIN, PLAIN.replace("k.", "j."), PLAIN.replace("history", "other"))
        for made_at in (1, 2)
    }
    assert len(ids) == 6


def test_other_statements_stay_as_they_are():
    """Only tables have ids."""
    statement = "ALTER TABLE k.history WITH gc_grace_seconds = 2"
    assert with_id(statement, 1) == statement


@pytest.mark.parametrize(
    "name", ["timers", "shards", "records", "lines", "hours", "schema_history"]
)
async def test_every_table_of_ours_has_such_an_id(cassandra, somebody, cassandra_url, name):
    """None was left to the server, which makes up another one each time."""
    keyspace = cassandra_url.rpartition("/")[2]
    [(id_,)] = somebody.execute(
        "SELECT id FROM system_schema.tables WHERE keyspace_name = %s AND table_name = %s",
        (keyspace, name),
    )
    assert id_.version == 5  # by a name; a server's own are by time


@pytest.fixture
def new_keyspace(cassandra_url):
    """The URL of a keyspace that nobody has made yet; those of other tests are used again."""
    server = cassandra_url.rpartition("/")[0] + "/"
    name = f"test_{uuid.uuid4().hex}"
    yield server + name
    administrator(server).execute(f"DROP KEYSPACE IF EXISTS {name}")


async def test_a_keyspace_of_the_version_before_lasts(new_keyspace, open_store, monkeypatch):
    """It gets the tables that it lacks, and its timers are what they were."""
    with monkeypatch.context() as before:
        before.setattr(opening, "migrations", lambda engine: migrations(engine)[:2])
        old = await open_store(new_keyspace)
    timers = [make_timer() for _ in range(3)]
    await insert(old, *timers)
    with pytest.raises(StoreUnavailable):  # there is no such table yet
        await old.write_lines([make_line()], None)
    store = await open_store(new_keyspace)
    assert await store.get([timer.id for timer in timers]) == timers
    assert await store.apply([claim_of(timers[0])]) == [True]
    assert await old.apply([claim_of(timers[1])]) == [True]  # which may still run for a while
    assert await store.remove(timers) == [False, False, True]
    line = make_line()
    await store.write_lines([line], None)
    assert await store.lines("default", None, 9, descending=True) == [line]
