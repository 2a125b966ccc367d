"""The feed of the store: nothing is missed or told twice, and each timer's events are in order."""

import asyncio
import random

import pytest

from duetime.errors import InvalidRequest, StoreUnavailable
from duetime.events import store_feed
from duetime.events.feed import FIRST, place_of
from duetime.events.store_feed import LOOK_BACK, StoreFeed
from duetime.ids import time_of
from duetime.stores.memory import MemoryStore
from duetime.testing import FakeClock, FlakyStore
from tests.events.outboxes import event_of, pass_time, some, write
from tests.factories import NOW, make_timer
from tests.waiting import settle

pytestmark = pytest.mark.promise("events-heard")

HOUR = 3_600_000


class Listener:
    """Reads along a feed, all the time."""

    def __init__(self, tail) -> None:
        self.tail = tail
        self.told = []
        self.failures = 0
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while True:
            try:
                self.told += await self.tail.read()
            except StoreUnavailable:
                self.failures += 1
                await asyncio.sleep(0)

    @property
    def ids(self) -> list[str]:
        return [each.id for each in self.told]

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})


class House:
    """A store, and those who listen to it."""

    def __init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.store = FlakyStore(MemoryStore())
        self.feed = StoreFeed(self.store, self.clock, keep_for=HOUR)
        self._listeners = []

    async def listen(self, after=None, tenant=None) -> Listener:
        listener = Listener(await self.feed.tail(after, tenant))
        self._listeners.append(listener)
        return listener

    async def write(self, *events) -> None:
        await write(self.store.store, *events)

    async def some(self, *args, **named):
        return [each.id for each in await some(self.store.store, *args, **named)]

    async def pass_time(self, seconds: float, step: int = 50) -> None:
        await pass_time(self.clock, seconds, step)

    async def close(self) -> None:
        for listener in self._listeners:
            await listener.stop()


@pytest.fixture
async def house():
    house = House()
    yield house
    await house.close()


async def test_only_what_is_new(house: House):
    """Whoever begins hears of what happens from then on, and not of what was half a second ago."""
    await house.some(NOW - 10_000)
    await house.some(NOW - 500)
    listener = await house.listen()
    await house.pass_time(1)
    assert listener.ids == []
    new = await house.some(house.clock.now(), 3)
    await house.pass_time(1)
    assert sorted(listener.ids) == sorted(new)


async def test_it_comes_soon(house: House):
    """Within the hold-back and one poll."""
    listener = await house.listen()
    await house.pass_time(0.1)
    new = await house.some(house.clock.now())
    await house.pass_time(0.7)
    assert listener.ids == new


async def test_what_is_committed_late_is_told_all_the_same(house: House):
    """By seconds, or by half a minute; and once."""
    listener = await house.listen()
    await house.pass_time(60, step=250)
    now = house.clock.now()
    late = [event_of(make_timer(), now - by) for by in (500, 3_000, 28_000)]
    first = await house.some(now)
    await house.pass_time(1)
    assert listener.ids == first
    await house.write(*late)
    await house.pass_time(1)
    assert listener.ids[1:] == sorted(event.id for event in late)
    assert [each.is_late for each in listener.told] == [False, True, True, True]
    assert len({each.position for each in listener.told[1:]}) == 1
    await house.pass_time(60, step=250)
    assert len(listener.told) == 4


async def test_where_events_are_many_late_ones_come_too(house: House, monkeypatch):
    """Rounds look back less far then, and all the way now and then."""
    monkeypatch.setattr(store_feed, "FEW", 20)
    listener = await house.listen()
    for _ in range(120):
        await house.some(house.clock.now(), 5)
        await house.pass_time(0.25, step=250)
    late = event_of(make_timer(), house.clock.now() - 20_000)
    await house.write(late)
    for _ in range(48):
        await house.some(house.clock.now(), 5)
        await house.pass_time(0.25, step=250)
    await house.pass_time(1)
    assert listener.ids.count(late.id) == 1
    assert len(listener.told) == len(set(listener.ids)) == 168 * 5 + 1


async def test_a_timer_is_told_in_order_though_a_round_has_several_pages(house: House, monkeypatch):
    """Its first version lands behind the page that was read, its second one before the next."""
    monkeypatch.setattr(store_feed, "PAGE", 2)
    real = house.store.store.events
    timer = make_timer()
    pages = []

    async def events(shards, after, limit):
        found = await real(shards, after, limit)
        pages.append(found)
        if len(pages) == 2:  # the first page of the round has been read, and the second not yet
            now = house.clock.now()
            await house.write(event_of(timer, now - 2_000), event_of(timer, now, 2))
        return found

    listener = await house.listen()
    await house.some(NOW + 500, 5)
    house.clock.advance(3_000)
    house.store.store.events = events
    await house.pass_time(2)
    versions = [each.id for each in listener.told if each.timer == timer.id]
    assert versions == sorted(versions)
    assert len(versions) == 2
    assert len(listener.told) == 7


@pytest.mark.parametrize("seed", range(20))
async def test_order_and_completeness_under_late_commits_and_clocks_that_differ(house, seed):
    """Whatever is committed when, by nodes whose clocks differ: each once, each timer in order."""
    chance = random.Random(seed)
    listener = await house.listen()
    running = []  # (timer, version, dated, committed at)
    written = []
    for _ in range(200):
        now = house.clock.now()
        if chance.random() < 0.3:
            timer = make_timer()
            running.append(
                [timer, 1, now + chance.randint(-150, 150), now + chance.choice((0, 5, 200, 4_000))]
            )
        for each in list(running):
            timer, version, dated, commits_at = each
            if commits_at > now:
                continue
            event = event_of(timer, dated, version)
            await house.write(event)
            written.append(event)
            if version == 6:
                running.remove(each)
            else:
                begun = max(dated, now + chance.randint(-150, 150))  # never before the last
                each[1:] = version + 1, begun, now + chance.choice((1, 40, 900))
        await house.pass_time(0.1, step=25)
    await house.pass_time(2)
    assert sorted(listener.ids) == sorted(event.id for event in written)
    told = {}
    for each in listener.told:
        told.setdefault(each.timer, []).append(each.id)
    assert all(each == sorted(each) for each in told.values())
    positions = [each.position for each in listener.told]
    assert positions == sorted(positions)


async def test_going_on_from_a_position_misses_nothing(house: House):
    """What came while nobody listened is told, late commits too; some of before is told again."""
    first = await house.listen()
    before = await house.some(NOW + 1_000, 5)
    await house.pass_time(3)
    await first.stop()
    position = first.tail.position
    late = event_of(make_timer(), NOW + 500)
    await house.write(late)
    after = await house.some(house.clock.now(), 5)
    await house.pass_time(100, step=1000)
    second = await house.listen(position)
    await house.pass_time(1)
    assert set(second.ids) == {late.id, *before, *after}
    assert len(second.ids) == len(set(second.ids))
    repeated = {place_of(each.position) for each in second.told if each.is_late}
    assert repeated == {place_of(position)}


async def test_what_is_repeated_is_of_the_last_half_minute(house: House):
    """Not of all that is kept."""
    old = await house.some(NOW - LOOK_BACK - 1_000)
    first = await house.listen()
    await house.pass_time(1)
    second = await house.listen(first.tail.position)
    await house.pass_time(1)
    assert not set(old) & set(second.ids)


async def test_from_the_first(house: House):
    """All that is kept, in order."""
    written = [(await house.some(NOW - 60_000 * each))[0] for each in (50, 30, 10, 1)]
    listener = await house.listen(FIRST)
    await house.pass_time(1)
    assert listener.ids == written


async def test_page_by_page(house: House, monkeypatch):
    """Whoever is far behind hears it bit by bit, and is level at the end."""
    monkeypatch.setattr(store_feed, "PAGE", 10)
    written = [(await house.some(NOW - 100_000 + each))[0] for each in range(205)]
    tail = await house.feed.tail(FIRST)
    told = []
    while not tail.is_level:
        part = await tail.read()
        assert len(part) <= 50
        told += part
    assert [each.id for each in told] == written


async def test_of_one_tenant(house: House):
    """Others are left out where somebody reads for himself."""
    await house.some(NOW - 1_000, tenant="acme")
    mine = await house.some(NOW - 1_000)
    tail = await house.feed.tail(FIRST, "default")
    assert [each.id for each in await tail.read()] == mine


@pytest.mark.promise("failing-store")
async def test_a_store_that_fails_for_a_while(house: House):
    """It goes on where it was."""
    listener = await house.listen()
    first = await house.some(house.clock.now())
    house.store.failing = "before"
    await house.pass_time(2)
    second = await house.some(house.clock.now())
    assert listener.told == []
    assert listener.failures
    house.store.failing = None
    await house.pass_time(2)
    assert listener.ids == first + second


@pytest.mark.promise("failing-store")
async def test_a_store_that_fails_in_the_middle_of_a_round(house: House, monkeypatch):
    """What was read before is told, and what was not comes later."""
    monkeypatch.setattr(store_feed, "PAGE", 2)
    listener = await house.listen()
    written = [(await house.some(NOW + 10 + each))[0] for each in range(5)]
    real, calls = house.store.store.events, []

    async def events(*args):
        calls.append(args)
        if len(calls) == 2:
            raise StoreUnavailable("as told")
        return await real(*args)

    house.store.store.events = events
    await house.pass_time(2)
    assert listener.ids == written


@pytest.mark.promise("bounded-memory")
async def test_what_it_remembers_is_bounded(house: House, monkeypatch):
    """In time, and in number."""
    monkeypatch.setattr(store_feed, "MOST_REMEMBERED", 100)
    listener = await house.listen()
    for _ in range(50):
        await house.some(house.clock.now(), 10)
        await house.pass_time(0.5, step=250)
    await house.pass_time(1)
    assert len(listener.tail._told) <= 100
    assert len(listener.ids) == len(set(listener.ids)) == 500
    await house.pass_time(120, step=250)
    assert not listener.tail._told


@pytest.mark.promise("bounded-memory")
async def test_who_reads_a_long_history_remembers_little_of_it(house: House, monkeypatch):
    """Very many may do so at once, and take nothing: a page each, and what may come again."""
    monkeypatch.setattr(store_feed, "OWN_PAGE", 10)
    for minute in range(30):
        await some(house.store.store, NOW - minute * 60_000, 10)
        await some(house.store.store, NOW - minute * 60_000, 10, tenant="other")
    house.clock.advance(1_000)
    tail = await house.feed.tail(FIRST, "default")
    told = []
    while not tail.is_level:
        part = await tail.read()
        assert len(part) <= 10
        assert len(tail._told) <= 10
        told += part
    assert len({each.id for each in told}) == len(told) == 300
    assert [tail.has_told(each) for each in told[-10:]] == [True] * 10


async def test_a_position_that_is_too_old(house: House):
    """What followed it may be gone, and that is said."""
    listener = await house.listen()
    await house.pass_time(1)
    position = listener.tail.position
    await listener.stop()
    house.clock.advance(HOUR + 2_000)
    with pytest.raises(InvalidRequest, match="no longer kept"):
        await house.feed.tail(position)


async def test_a_position_gets_on_though_nothing_happens(house: House):
    """Or a quiet hour would make it too old."""
    listener = await house.listen()
    await house.pass_time(10, step=250)
    reached = time_of(place_of(listener.tail.position))
    assert reached > house.clock.now() - 1_000


async def test_a_position_of_the_other_feed(house: House):
    """It is refused, and not taken for something else."""
    with pytest.raises(InvalidRequest, match="NATS was switched on or off"):
        await house.feed.tail("stream-00000000000000000012")


async def test_a_slow_store_is_asked_less_often(house: House):
    """A round rests for twice as long as it took."""
    real = house.store.store.events

    async def slow(*args):
        house.clock.advance(1_000)
        return await real(*args)

    await house.listen()
    house.store.store.events = slow
    await house.pass_time(0.5)
    asked = len(house.store.calls)
    await house.pass_time(1.8)
    assert len(house.store.calls) == asked
    await settle()
    await house.pass_time(0.4)
    assert len(house.store.calls) > asked
