"""Timers that are removed: in few batches, wherever their lines lie, and with lost answers."""

import asyncio

import pytest

from duetime import ids
from duetime.errors import StoreUnavailable, Unanswered
from duetime.stores import Due
from tests.cluster.proxy import running_proxy
from tests.cluster.wires.cassandra import TimerWrites
from tests.factories import NOW, insert, make_timer
from tests.stores.cassandra.made import SHARD, at
from tests.stores.cassandra.test_fence import port_of, through


async def test_many_of_one_shard_share_a_batch(cassandra, monkeypatch):
    """Five hundred are two batches, and those that lost do not keep the others."""
    timers = [make_timer(shard=SHARD) for _ in range(500)]
    await insert(cassandra, *timers[1:])
    session = cassandra._rooms.lanes._session
    run_batch, sizes = session.run_batch, []

    async def watched(steps):
        sizes.append(len(steps))
        return await run_batch(steps)

    monkeypatch.setattr(session, "run_batch", watched)
    assert await cassandra.remove(timers) == [False, *[True] * 499]
    assert len(sizes) == 3  # the first one is tried again without who lost
    assert await cassandra.scan(None, 9) == []


async def test_a_line_below_the_floor_goes_too(cassandra, somebody):
    """It lies among what is due, or among the late ones: whoever removes it need not know."""
    due, late = at(NOW), at(NOW + 1)
    await insert(cassandra, due)
    lane = cassandra._rooms.lanes.known(SHARD)
    lane.raise_floor(Due(NOW + 1000, ""))
    await lane.idle()
    await insert(cassandra, late)
    assert await cassandra.due(ids.ALL_SHARDS, None, NOW * 2, 9) != []
    assert await cassandra.remove([due, late]) == [True, True]
    await lane.idle()
    rows = somebody.execute("SELECT kind FROM timers WHERE shard = %s", [SHARD])
    assert {kind for (kind,) in rows} == {7}  # only the fence


async def test_an_answer_is_lost(cassandra_url, open_store):
    """It is over when the store raises: the timer is gone, and asked again it was not removed."""
    async with running_proxy(port_of(cassandra_url), TimerWrites) as proxy:
        store = await open_store(through(cassandra_url, proxy.port))
        direct = await open_store(cassandra_url)
        timer = make_timer()
        await insert(direct, timer)
        proxy.drop_answers()
        with pytest.raises(StoreUnavailable) as raised:
            await store.remove([timer])
        assert not isinstance(raised.value, Unanswered)
        assert await direct.get([timer.id]) == [None]
        proxy.pass_answers()
        assert await store.remove([timer]) == [False]


async def test_two_stores_remove_the_same(cassandra, open_store, cassandra_url):
    """Each timer is removed by one of them."""
    other = await open_store(cassandra_url)
    timers = [make_timer(shard=SHARD) for _ in range(40)]
    await insert(cassandra, *timers)
    ours, theirs = await asyncio.gather(cassandra.remove(timers), other.remove(timers[::-1]))
    assert [one + two for one, two in zip(ours, theirs[::-1], strict=True)] == [1] * 40
