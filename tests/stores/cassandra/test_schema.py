"""Tables are made by several at once, and are the same ones."""

import pytest

from duetime.stores.cassandra.schema import with_id

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


@pytest.mark.parametrize("name", ["timers", "shards", "records", "schema_history"])
async def test_every_table_of_ours_has_such_an_id(cassandra, somebody, cassandra_url, name):
    """None was left to the server, which makes up another one each time."""
    keyspace = cassandra_url.rpartition("/")[2]
    [(id_,)] = somebody.execute(
        "SELECT id FROM system_schema.tables WHERE keyspace_name = %s AND table_name = %s",
        (keyspace, name),
    )
    assert id_.version == 5  # by a name; a server's own are by time
