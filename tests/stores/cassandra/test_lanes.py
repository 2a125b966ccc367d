"""Writing to shards: batches within bounds, several stores at once, and a close in between."""

import asyncio

import pytest
from msgspec import Raw

from duetime import model
from duetime.errors import StoreUnavailable
from duetime.stores import Change, Insert, Query
from duetime.stores.cassandra import lane as lanes
from duetime.stores.cassandra.crowd import Crowd
from duetime.timer import HttpCallback
from tests.factories import claim_of, claimed, insert, make_attempt, make_spec, make_timer
from tests.waiting import eventually


def heavy(size):
    payload = Raw(b'"' + b"x" * size + b'"')
    return make_timer(
        spec=make_spec(callback=HttpCallback(url="http://a.example/", payload=payload))
    )


async def test_two_stores_share_out_the_timers_of_one_shard(cassandra, open_store, cassandra_url):
    """Stores that claim the same timers at once never both win one, and each is won by one."""
    other = await open_store(cassandra_url)
    timers = [make_timer(shard=9) for _ in range(60)]
    await insert(cassandra, *timers)
    ours, theirs = await asyncio.gather(
        *(
            asyncio.gather(*(store.apply([claim_of(timer, name)]) for timer in timers))
            for store, name in ((cassandra, "one"), (other, "two"))
        )
    )
    assert [bool(one) + bool(two) for (one,), (two,) in zip(ours, theirs, strict=True)] == [1] * 60
    stored = await cassandra.get([timer.id for timer in timers])
    assert stored == [
        claimed(timer, "one" if won else "two") for timer, (won,) in zip(timers, ours, strict=True)
    ]


async def test_two_stores_open_one_shard(open_store, cassandra_url):
    """Both believe that nobody was there before, and both write."""
    stores = [await open_store(cassandra_url) for _ in range(3)]
    timers = [make_timer(shard=9) for _ in range(3)]
    await asyncio.gather(
        *(insert(store, timer) for store, timer in zip(stores, timers, strict=True))
    )
    for store in stores:
        assert await store.get([timer.id for timer in timers]) == timers


async def test_what_comes_meanwhile_shares_a_batch(cassandra, monkeypatch):
    """All that waits for a shard when a batch of it has ended goes with the next one."""
    lane = cassandra._rooms.lanes._lane(9)
    sizes: list[int] = []
    may_end = asyncio.Event()
    original = lane._try

    async def held_back(pieces):
        sizes.append(len(pieces))
        await may_end.wait()
        return await original(pieces)

    async def all_wait():
        return sum(sizes) + len(lane._waiting) == 100

    monkeypatch.setattr(lane, "_try", held_back)
    writes = [asyncio.create_task(insert(cassandra, make_timer(shard=9))) for _ in range(100)]
    await eventually(all_wait, "all hundred to wait", every=0.01)
    may_end.set()
    await asyncio.gather(*writes)
    assert sizes == [sizes[0], 100 - sizes[0]]


async def test_a_timer_of_eight_megabytes(cassandra):
    """The largest that the API takes is stored, claimed and read."""
    timer = heavy(8 * 1024 * 1024)
    await insert(cassandra, timer)
    change = claim_of(timer)
    assert await cassandra.apply([change]) == [True]
    assert await cassandra.get([timer.id]) == [change.new]


async def test_a_timer_that_no_message_can_hold(cassandra):
    """It is refused with the limit, before anything of it is written."""
    timer = heavy(lanes.LARGEST)
    with pytest.raises(StoreUnavailable, match="more than the 15,728,640"):
        await cassandra.insert([Insert(timer)])
    assert await cassandra.get([timer.id]) == [None]


async def test_heavy_becomes_light_and_back(cassandra):
    """A spec moves between its two columns, and only the newest counts."""
    light, big = make_timer(shard=3), heavy(100_000).spec
    await insert(cassandra, light)
    stored = light
    for spec in (big, light.spec, big):
        new = model.update(stored, 1, spec=spec, execute_at=5)
        assert await cassandra.apply([Change(stored, new)]) == [True]
        stored = new
        assert await cassandra.get([light.id]) == [stored]
        assert (await cassandra.search(Query(tenant="default"))).timers == [stored]


async def test_many_heavy_ones_are_listed(cassandra):
    """A list of heavy timers comes a few at a time, and whole."""
    timers = [heavy(200_000) for _ in range(12)]
    await insert(cassandra, *timers)
    page = await cassandra.search(Query(tenant="default", descending=False))
    assert page.timers == sorted(timers, key=lambda timer: timer.id)
    scanned: list = []
    while part := await cassandra.scan(scanned[-1].id if scanned else None, 5):
        scanned += part
    assert sorted(timer.id for timer in scanned) == sorted(timer.id for timer in timers)


async def test_attempts_that_come_along(cassandra):
    """A timer from elsewhere brings its execution log."""
    timer = make_timer()
    log = tuple(make_attempt(timer, attempt=number) for number in range(1, 251))
    assert await cassandra.insert([Insert(timer, attempts=log)]) == [None]
    assert await cassandra.attempts(timer.id, None, 999) == list(log)


async def test_a_close_waits_for_what_is_under_way(cassandra, open_store, cassandra_url):
    """Whoever is writing is told how it ended, and what was written is there."""
    store = await open_store(cassandra_url)
    timers = [make_timer() for _ in range(100)]
    writing = asyncio.ensure_future(store.insert([Insert(timer) for timer in timers]))
    while not store._rooms.lanes._lanes:  # noqa: ASYNC110 - until the lanes have it
        await asyncio.sleep(0)
    await store.close()
    assert await writing == [None] * 100
    assert await cassandra.get([timer.id for timer in timers]) == timers


async def test_questions_that_differ_in_the_shard_are_one():
    """Those who ask in the same moment share a request, and each gets its own rows."""
    asked = []

    class Session:
        async def run(self, statement, values):
            asked.append(values[0])
            return [(shard, shard * 10) for shard in values[0] if shard != 2]

    crowd = Crowd(Session(), asyncio.Semaphore(1))
    answers = await asyncio.gather(*(crowd.ask("q", shard, (1,)) for shard in (1, 2, 3, 1)))
    assert answers == [[(10,)], [], [(30,)], [(10,)]]
    assert asked == [[1, 2, 3]]
