"""What is asked of Cassandra for a timer."""

import pytest
from msgspec import Raw

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
