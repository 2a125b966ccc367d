"""Opening and closing a store."""

import asyncio

import pytest

from duetime import ids
from duetime.errors import StoreUnavailable
from duetime.stores import Insert, Query
from tests.factories import claim_of, insert, key_of, make_line, make_timer

pytestmark = pytest.mark.promise("one-contract")


async def test_migrating_again_changes_nothing(store):
    """Migrating is idempotent, also when it is done twice at once."""
    timer = make_timer()
    await insert(store, timer)
    await asyncio.gather(store.migrate(), store.migrate())
    assert await store.get([timer.id]) == [timer]


async def test_an_open_store_answers(store):
    """A ping comes back."""
    await store.ping()


async def test_closing_again_is_fine(store):
    """Closing is idempotent, also when it is done twice at once."""
    await asyncio.gather(store.close(), store.close())
    await store.close()


CALLS = {
    "migrate": lambda store: store.migrate(),
    "ping": lambda store: store.ping(),
    "insert": lambda store: store.insert([Insert(make_timer())]),
    "get": lambda store: store.get([]),
    "get_by_key": lambda store: store.get_by_key([key_of(make_timer())]),
    "apply": lambda store: store.apply([claim_of(make_timer())]),
    "remove": lambda store: store.remove([make_timer()]),
    "due": lambda store: store.due(ids.ALL_SHARDS, None, 1, 1),
    "search": lambda store: store.search(Query(tenant="default")),
    "count": lambda store: store.count("default"),
    "attempts": lambda store: store.attempts("id", None, 1),
    "events": lambda store: store.events(ids.ALL_SHARDS, None, 1),
    "published": lambda store: store.published([]),
    "records": lambda store: store.records("node"),
    "put_record": lambda store: store.put_record(None, None),
    "purge": lambda store: store.purge(ids.ALL_SHARDS, 1, 1),
    "drop_outlived": lambda store: store.drop_outlived(ids.ALL_SHARDS, 1, 1),
    "write_lines": lambda store: store.write_lines([make_line()], None),
    "lines": lambda store: store.lines("default", None, 1, descending=True),
    "drop_lines": lambda store: store.drop_lines(1, 1),
}


async def test_a_closed_store_is_unavailable(store, subtests):
    """Every call after close raises StoreUnavailable."""
    await store.close()
    for name, call in CALLS.items():
        with subtests.test(name), pytest.raises(StoreUnavailable, match="closed"):
            await call(store)


async def test_a_cancelled_call_leaves_the_store_usable(store):
    """Whoever stops waiting for an answer harms nobody else."""
    timer = make_timer()
    call = asyncio.ensure_future(store.insert([Insert(timer)]))
    await asyncio.sleep(0)
    call.cancel()
    other = make_timer()
    await insert(store, other)
    assert await store.get([other.id]) == [other]
