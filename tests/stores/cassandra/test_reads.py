"""What is asked of Cassandra for a timer."""

import pytest
from msgspec import Raw

from duetime.stores import Query
from duetime.timer import HttpCallback
from tests.factories import insert, make_spec, make_timer


@pytest.mark.promise("tenants-apart")
@pytest.mark.parametrize("size", [10, 40_000], ids=["light", "heavy"])
async def test_anothers_timer_is_asked_for_like_none(cassandra, statements_of, size):
    """One statement, which does not read what is heavy; its own tenant gets all of it."""
    payload = Raw(b'"%s"' % (b"x" * size))
    callback = HttpCallback(url="https://example.com", payload=payload)
    timer = make_timer(tenant="acme", spec=make_spec(callback=callback))
    await insert(cassandra, timer)
    asked = statements_of(cassandra)
    for id_ in (timer.id, make_timer().id):
        assert await cassandra.get([id_], "rival") == [None]
    assert asked[0] == asked[1]
    assert "heavy" not in asked[0]
    assert len(asked) == 2
    assert await cassandra.get([timer.id], "acme") == [timer]


@pytest.mark.promise("tenants-apart")
async def test_a_list_reads_nothing_heavy_of_others(cassandra, statements_of):
    """Who looks past the timers of others does not read what these carry."""
    callback = HttpCallback(url="https://example.com", payload=Raw(b'"%s"' % (b"x" * 40_000)))
    spec = make_spec(callback=callback)
    acme = [make_timer(tenant="acme", spec=spec) for _ in range(6)]
    own = make_timer(tenant="rival", spec=spec)
    await insert(cassandra, *acme)
    asked = statements_of(cassandra)
    assert (await cassandra.search(Query(tenant="rival"))).timers == []
    assert [statement for statement in asked if "heavy" in statement] == []
    await insert(cassandra, own)
    assert (await cassandra.search(Query(tenant="rival"))).timers == [own]
    assert len((await cassandra.search(Query(tenant="acme"))).timers) == 6
