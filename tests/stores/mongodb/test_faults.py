"""A MongoDB that dies, hangs and comes back: every wait is bounded, and nothing is lost."""

import asyncio
import time

import pytest

from duetime.errors import StoreUnavailable
from duetime.stores import Insert, Record
from duetime.stores.opening import open_store
from tests.factories import claim_of, insert, make_timer

pytestmark = pytest.mark.slow


@pytest.fixture
async def own(own_server):
    """A server of the test's own, and a store on it."""
    server = own_server("mongodb")
    store = open_store(server.url())
    await store.migrate()
    yield server, store
    await store.close()


async def writing(store, acknowledged, stop):
    """Insert and claim timers one after the other; note down what was acknowledged."""
    while not stop.is_set():
        timer = make_timer()
        try:
            assert await store.insert([Insert(timer)]) == [None]
            acknowledged[timer.id] = timer
            change = claim_of(timer)
            assert await store.apply([change]) == [True]
            acknowledged[timer.id] = change.new
        except StoreUnavailable:
            acknowledged.pop(timer.id, None)


async def test_killed_and_restarted(own):
    """Writers wait for its return, and all that was acknowledged is there."""
    server, store = own
    acknowledged, stop = {}, asyncio.Event()
    writers = [asyncio.create_task(writing(store, acknowledged, stop)) for _ in range(8)]
    for _ in range(2):
        before = len(acknowledged)
        while len(acknowledged) < before + 50:  # noqa: ASYNC110 - it is the writers that count
            await asyncio.sleep(0.01)
        await asyncio.to_thread(server.crash)
        await asyncio.to_thread(server.start)
    before = len(acknowledged)
    while len(acknowledged) < before + 50:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    stop.set()
    await asyncio.gather(*writers)
    assert await store.get(list(acknowledged)) == list(acknowledged.values())


async def test_paused_for_ten_seconds(own):
    """Heartbeats give up after three, others within their time; then all goes on."""
    server, store = own
    timer, late = make_timer(), make_timer()
    await insert(store, timer)
    server.pause()
    begun = time.monotonic()
    write = asyncio.create_task(store.apply([claim_of(timer)]))
    read = asyncio.create_task(store.get([timer.id]))
    with pytest.raises(StoreUnavailable):
        await store.put_record(None, Record(kind="node", name="one"))
    assert time.monotonic() - begun < 6
    await asyncio.sleep(10 - (time.monotonic() - begun))
    server.resume()
    assert await write == [True]
    [found] = await read
    assert found in (timer, claim_of(timer).new)
    await insert(store, late)
    assert await store.get([timer.id, late.id]) == [claim_of(timer).new, late]
    assert time.monotonic() - begun < 30


async def test_away_for_good(own, monkeypatch):
    """A server that does not come back is said to be away, in bounded time."""
    server, store = own
    monkeypatch.setattr(store._lane, "_within", 1.0)
    server.stop()
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await store.insert([Insert(make_timer())])
    assert time.monotonic() - begun < 10  # one to write in, five to settle it, and some
    server.start()
    monkeypatch.undo()
    await insert(store, make_timer())
