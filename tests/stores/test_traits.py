"""What stores say of themselves: refusals and docs are made from it."""

from pathlib import Path

import pytest

from duetime.errors import UnsupportedQuery
from duetime.stores import Query
from duetime.stores.reference import in_docs, traits_table
from duetime.stores.traits import Traits

DOCS = Path(__file__).parents[2] / "docs" / "stores.md"
ABLE = Traits(engine="Able", nodes="many", passes_news=True)
UNABLE = Traits(
    engine="Unable",
    nodes="many",
    passes_news=False,
    filtering="reading",
    sorts_by_time=False,
    counts=False,
    skips=100,
)


def test_the_docs_say_what_the_stores_say():
    """docs/stores.md cannot disagree; python -m duetime.stores.reference writes it."""
    assert in_docs(DOCS.read_text("utf-8")) == traits_table()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"sort": "execute_at"}, "sort: Unable lists timers in the order of created_at only"),
        ({"with_total": True}, "total: Unable does not count timers"),
        ({"offset": 101}, "offset: with Unable it ends at 100; go on with cursor instead"),
    ],
)
def test_what_an_engine_cannot_do_is_named(query, words):
    """By the name that the user wrote, and the engine's; another engine may well do it."""
    with pytest.raises(UnsupportedQuery, match=f"^{words}$"):
        UNABLE.check(Query(tenant="default", **query))
    ABLE.check(Query(tenant="default", **query))


def test_all_else_is_answered():
    """Filters are no reason to refuse, nor is the largest offset."""
    UNABLE.check(Query(tenant="default", tag="x", name_prefix="y", offset=100))


async def test_every_store_says_so(store):
    """A store carries its traits, and has shards for its timers."""
    assert isinstance(store.traits, Traits)
    assert 1 <= store.traits.num_shards <= 4096
