"""How many may ask at once, and how long each may take; heartbeats wait for nobody."""

import asyncio

import pytest
from bson.binary import Binary

from duetime.errors import StoreUnavailable
from duetime.stores import Insert, News, Record
from duetime.stores.mongodb import lane
from duetime.stores.mongodb.address import Address
from duetime.stores.mongodb.lane import Lane
from duetime.stores.mongodb.store import MongodbStore
from tests.factories import insert, make_timer
from tests.open_connections import open_connections


async def test_who_finds_no_place_hears_why(monkeypatch):
    """After a bounded wait."""
    monkeypatch.setattr(lane, "FREE_WITHIN", 0.01)
    narrow = Lane(1, 5)
    go_on = asyncio.Event()
    first = asyncio.create_task(narrow.run(go_on.wait))
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable, match="all 1 connections to MongoDB were in use"):
        await narrow.run(go_on.wait)
    go_on.set()
    await first
    assert await narrow.run(go_on.wait)


async def test_closing_waits_for_those_who_are_in():
    """And lets in nobody else, not even those who wait already."""
    narrow = Lane(1, 5)
    go_on = asyncio.Event()
    inside = asyncio.create_task(narrow.run(go_on.wait))
    waiting = asyncio.create_task(narrow.run(go_on.wait))
    await asyncio.sleep(0)
    closing = asyncio.create_task(narrow.close())
    await asyncio.sleep(0)
    assert not closing.done()
    go_on.set()
    await closing
    assert inside.done()
    with pytest.raises(StoreUnavailable, match="closed"):
        await waiting


async def test_who_goes_away_leaves_a_free_place():
    """Whether inside or in line."""
    narrow = Lane(1, 5)
    never = asyncio.Event()
    tasks = [asyncio.create_task(narrow.run(never.wait)) for _ in range(3)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    never.set()
    assert await narrow.run(never.wait)


async def test_heartbeats_pass_a_busy_lane(mongodb, database):
    """All places for timers are taken, and records and news get through."""
    go_on = asyncio.Event()
    busy = [asyncio.create_task(mongodb._lane.run(go_on.wait)) for _ in range(10)]
    await asyncio.sleep(0)
    record = Record(kind="node", name="one")
    assert await mongodb.put_record(None, record)
    assert await mongodb.records("node") == [record]
    await mongodb.announce(News(is_about_nodes=True))
    go_on.set()
    await asyncio.gather(*busy)


async def test_a_cancelled_call_harms_no_other(mongodb):
    """The next one on its connection gets its own answer."""
    timers = [make_timer() for _ in range(50)]
    await insert(mongodb, *timers)
    for turns in range(12):
        call = asyncio.create_task(mongodb.get([timer.id for timer in timers]))
        for _ in range(turns * 3):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        assert await mongodb.get([timers[turns].id]) == [timers[turns]]


async def test_who_goes_away_leaves_no_connection_behind(url):
    """However far the driver has come with one that it makes for him."""
    for turns in range(9, 21):
        store = MongodbStore(Address.parse(url))
        await store.migrate()
        calls = [asyncio.create_task(store.insert([Insert(make_timer())])) for _ in range(6)]
        calls += [asyncio.create_task(store.get([make_timer().id])) for _ in range(4)]
        for _ in range(turns):
            await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        await store.close()
        assert open_connections() == []


async def test_closing_waits_for_a_write(mongodb, database):
    """What is under way is answered before the connections go."""
    timer = make_timer()
    write = asyncio.create_task(mongodb.insert([Insert(timer)]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await mongodb.close()
    assert await write == [None]
    stored = await database["timers"].find_one(
        {"_id": Binary(bytes.fromhex(timer.id.replace("-", "")), 4)}
    )
    assert stored is not None
