"""``--store``: a name, or the URL of a server, and nothing else."""

import pytest

from bench.databases import opening
from duetime.errors import ConfigurationError


@pytest.mark.parametrize(
    "store",
    [
        *("sqlite", "postgres", "mariadb", "mysql", "mongodb", "cassandra", "dynamodb"),
        "postgresql://u:p@host/db?sslmode=require",
        "mysql://u:p@host/db?pool_size=9",
        "mongodb://u:p@host/db?replicaSet=rs",
        "cassandra://u:p@host/keyspace?datacenter=dc1",
        "dynamodb://eu-central-1/table",
    ],
)
def test_names_and_urls_are_taken(store):
    """Every name and URL that the help promises is taken."""
    opening.check(store)


@pytest.mark.parametrize("store", ["", "oracle", "oracle://u:hunter2@host/db", "sqlite:///a.db"])
def test_anything_else_is_refused_with_the_choice(store):
    """The message says what may be written, and keeps a password to itself."""
    with pytest.raises(opening.UnknownStore, match=r"sqlite, postgres, .*or the URL") as refused:
        opening.check(store)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "mongodb"])
def test_a_wrong_option_of_a_url_is_refused_by_its_name(scheme):
    """A wrong option of a URL is refused by its name before anything is measured."""
    with pytest.raises(ConfigurationError, match="colour") as refused:
        opening.check(f"{scheme}://u:hunter2@host/db?colour=red")
    assert "hunter2" not in str(refused.value)
