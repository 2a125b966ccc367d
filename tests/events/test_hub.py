"""The hub: who listens on a node hears what they wish for, each at their own speed."""

import asyncio

import pytest

from duetime.clock import sleep
from duetime.errors import InvalidRequest, NatsUnavailable, TooManyRequests, Unavailable
from duetime.events import hub as hub_module
from duetime.events import reader as reader_module
from duetime.events.feed import FIRST, place_of
from duetime.events.hub import LINGER, Hub
from duetime.events.store_feed import StoreFeed
from duetime.events.wish import Wish
from duetime.stores.memory import MemoryStore
from duetime.testing import FakeClock, FlakyStore
from tests.events.outboxes import event_of, pass_time, some, write
from tests.factories import NOW, make_timer
from tests.waiting import settle

pytestmark = pytest.mark.promise("events-heard")

MINE = Wish("default")


class House:
    """A store with nodes, each of which has a hub."""

    def __init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.store = FlakyStore(MemoryStore())
        self.hubs: list[Hub] = []
        self.hub = self.another_hub()

    def another_hub(self) -> Hub:
        feed = StoreFeed(self.store, self.clock, keep_for=3_600_000)
        self.hubs.append(Hub(feed, self.clock))
        return self.hubs[-1]

    async def some(self, count: int = 1, **fields) -> list[str]:
        now = self.clock.now()
        return sorted(each.id for each in await some(self.store.store, now, count, **fields))

    async def pass_time(self, seconds: float = 1.0, step: int = 50) -> None:
        await pass_time(self.clock, seconds, step)

    async def heard(self, reader, seconds: float = 1.0) -> list[str]:
        """What a reader hears, until it has heard nothing for so long."""
        heard = []
        while told := await self.next(reader, seconds):
            heard += [each.id for each in told]
        return heard

    async def next(self, reader, seconds: float = 1.0):
        coming = asyncio.create_task(reader.next(seconds))
        for _ in range(round(seconds * 20) + 2):
            if not coming.done():
                await self.pass_time(0.05)
        return await coming


@pytest.fixture
async def house():
    house = House()
    yield house
    for hub in house.hubs:
        await hub.close()


async def test_all_hear_it(house: House):
    """Two readers of one node, and one of another."""
    other = house.another_hub()
    readers = [await hub.listen(MINE, None) for hub in (house.hub, house.hub, other)]
    written = await house.some(3)
    for reader in readers:
        assert await house.heard(reader) == written


@pytest.mark.promise("tenants-apart")
@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (Wish("default"), {"a", "b", "c"}),
        (Wish("acme"), {"d"}),
        (Wish("default", groups=frozenset({"g"})), {"b", "c"}),
        (Wish("default", groups=frozenset()), set()),
        (Wish("default", group="g"), {"b", "c"}),
        (Wish("default", types=frozenset({"failed", "due"})), {"c"}),
        (Wish("default", tags=frozenset({"x"})), {"a", "b"}),
        (Wish("default", tags=frozenset({"x", "y"})), {"b"}),
        (Wish("default", group="g", tags=frozenset({"x"}), types=frozenset({"created"})), {"b"}),
    ],
)
async def test_wishes(house: House, wish: Wish, expected: set[str]):
    """Each alone and together, live and when catching up."""
    live = await house.hub.listen(wish, None)
    now = house.clock.now()
    in_g = make_timer(group="g")
    events = {
        "a": event_of(make_timer(), now, tags=("x",)),
        "b": event_of(in_g, now, tags=("x", "y")),
        "c": event_of(in_g, now, 2, type="failed"),
        "d": event_of(make_timer(tenant="acme", group="g"), now, type="due", tags=("x", "y")),
    }
    await write(house.store.store, *events.values())
    wanted = {events[name].id for name in expected}
    assert set(await house.heard(live)) == wanted
    late = await house.hub.listen(wish, FIRST)
    assert set(await house.heard(late)) == wanted
    of_timer = await house.hub.listen(wish._replace(timer=in_g.id), FIRST)
    assert set(await house.heard(of_timer)) == wanted & {events["b"].id, events["c"].id}


async def test_going_on_where_one_was(house: House):
    """Within what the ring has: without a gap, and without a repeat."""
    reader = await house.hub.listen(MINE, None)
    before = await house.some(5)
    assert await house.heard(reader) == before
    position = reader.position
    await reader.close()
    missed = await house.some(5)
    await house.pass_time(LINGER / 2)
    reader = await house.hub.listen(MINE, position)
    assert await house.heard(reader) == missed
    new = await house.some(5)
    assert await house.heard(reader) == new


async def test_going_on_from_the_middle_of_what_came_at_once(house: House):
    """The position of each event is behind it, and before the next."""
    reader = await house.hub.listen(MINE, None)
    written = await house.some(6)
    told = await house.next(reader)
    again = await house.hub.listen(MINE, told[2].position)
    assert await house.heard(again) == written[3:]


async def test_a_late_event_is_not_missed_by_who_goes_on(house: House):
    """It has the position that was reached when it came, and comes after that one."""
    reader = await house.hub.listen(MINE, None)
    await house.pass_time(5)
    await house.some()
    [first] = await house.next(reader)
    position = first.position
    await house.pass_time(0)
    late = event_of(make_timer(), house.clock.now() - 3_000)
    await write(house.store.store, late)
    assert await house.heard(reader) == [late.id]
    again = await house.hub.listen(MINE, position)
    assert late.id in await house.heard(again)


async def test_going_on_at_another_node(house: House):
    """Nothing is missed; what was heard last may come again, under the same id."""
    reader = await house.hub.listen(MINE, None)
    before = await house.some(3)
    assert await house.heard(reader) == before
    missed = await house.some(3)
    await house.pass_time(40)
    other = await house.another_hub().listen(MINE, reader.position)
    assert await house.heard(other) == before + missed
    new = await house.some(3)
    assert await house.heard(other) == new


async def test_what_was_committed_between_the_rounds_of_two_nodes(house: House):
    """Whoever goes from one to the other misses nothing that only the second one can have seen."""
    other = house.another_hub()
    there = await other.listen(MINE, None)
    await house.pass_time(0.1)
    here = await house.hub.listen(MINE, None)
    await house.pass_time(5.15)
    await house.next(here, 0.1)
    position = here.position
    between = event_of(make_timer(), house.clock.now() - 450)
    await write(house.store.store, between)
    assert await house.heard(there) == [between.id]
    await here.close()
    again = await other.listen(MINE, position)
    assert await house.heard(again) == [between.id]


async def test_catching_up_while_more_comes(house: House, monkeypatch):
    """All of it, each once, and in order, however the two meet."""
    monkeypatch.setattr("duetime.events.store_feed.PAGE", 7)
    house.hub.turns = asyncio.Semaphore(1)
    written = []
    for _ in range(100):
        written += await house.some()
        house.clock.advance(13)
    await house.hub.listen(MINE, None)
    reader = await house.hub.listen(MINE, FIRST)
    heard = []
    for number in range(200):
        written += await house.some(1 + number % 3)
        coming = asyncio.create_task(reader.next(0.1))
        for _ in range(4):
            await house.pass_time(0.05)
        heard += [each.id for each in await coming]
    heard += await house.heard(reader)
    assert len(heard) == len(set(heard))
    assert set(heard) == set(written)


async def test_a_ring_that_goes_round_while_somebody_catches_up(house: House, monkeypatch):
    """They read on by themselves, and miss nothing."""
    monkeypatch.setattr(hub_module, "MOST_EVENTS", 5)
    first = await house.hub.listen(MINE, None)
    written = await house.some(20)
    await house.pass_time(1)
    reader = await house.hub.listen(MINE, FIRST)
    await house.hub.turns.acquire()
    for _ in range(hub_module.CATCHING_UP - 1):
        await house.hub.turns.acquire()
    assert await house.next(reader) == []
    written += await house.some(20)
    await house.pass_time(1)
    for _ in range(hub_module.CATCHING_UP):
        house.hub.turns.release()
    heard = await house.heard(reader)
    assert set(heard) == set(written)
    assert len(heard) == len(written)
    new = await house.some(2)
    assert await house.heard(reader) == new
    with pytest.raises(Unavailable, match="too slowly"):
        await house.next(first)


@pytest.mark.promise("bounded-memory")
async def test_a_slow_reader_is_left_behind_and_can_go_on(house: House, monkeypatch):
    """It is told so, and from where to go on; nobody else is concerned."""
    monkeypatch.setattr(hub_module, "MOST_EVENTS", 10)
    monkeypatch.setattr(reader_module, "AT_ONCE", 4)
    slow = await house.hub.listen(MINE, None)
    quick = await house.hub.listen(MINE, None)
    written = await house.some(8)
    heard = [each.id for each in await house.next(slow)]
    assert heard == written[:4]
    assert await house.heard(quick) == written
    more = await house.some(9)
    assert await house.heard(quick) == more
    with pytest.raises(Unavailable, match="too slowly"):
        await house.next(slow)
    position = slow.position
    await slow.close()
    again = await house.hub.listen(MINE, position)
    assert set(await house.heard(again)) >= set(written[4:] + more)


async def test_a_burst_leaves_nobody_behind_who_keeps_up(house: House, monkeypatch):
    """Though it is many times what a ring holds, and comes at once."""
    monkeypatch.setattr(hub_module, "MOST_EVENTS", 50)
    monkeypatch.setattr(hub_module, "PORTION", 10)
    monkeypatch.setattr(reader_module, "AT_ONCE", 7)
    readers = [await house.hub.listen(MINE, None) for _ in range(3)]
    written = await house.some(1_000)

    async def listen(reader) -> list[str]:
        heard = []
        while len(heard) < 1_000:
            heard += [each.id for each in await reader.next(60)]
        return heard

    listening = [asyncio.create_task(listen(reader)) for reader in readers]
    await house.pass_time(3)
    for each in listening:
        assert await asyncio.wait_for(each, 10) == written


async def test_one_who_is_stuck_delays_the_others_for_a_moment_only(house: House, monkeypatch):
    """It is waited for once."""
    monkeypatch.setattr(hub_module, "MOST_EVENTS", 50)
    monkeypatch.setattr(hub_module, "PORTION", 10)
    stuck = await house.hub.listen(MINE, None)
    reader = await house.hub.listen(MINE, None)
    heard = []

    async def listen() -> None:
        while True:
            heard.extend(each.id for each in await reader.next(60))

    listening = asyncio.create_task(listen())
    written = await house.some(1_000)
    await house.pass_time(0.75 + hub_module.GRACE)
    await settle(5_000)  # there is much to do, and no time passes any more
    assert heard == written
    with pytest.raises(Unavailable, match="too slowly"):
        await house.next(stuck)
    listening.cancel()


async def test_one_who_is_slow_all_the_time_delays_nobody_all_the_time(house: House, monkeypatch):
    """It gets on a little whenever it is waited for, and is not waited for without end."""
    monkeypatch.setattr(hub_module, "MOST_EVENTS", 50)
    monkeypatch.setattr(hub_module, "PORTION", 10)
    monkeypatch.setattr(reader_module, "AT_ONCE", 1)
    slow = await house.hub.listen(Wish("acme"), None)
    reader = await house.hub.listen(MINE, None)
    heard = []

    async def listen() -> None:
        while True:
            heard.extend(each.id for each in await reader.next(60))

    async def dawdle() -> None:
        while True:
            await slow.next(60)
            await sleep(house.clock, 0.04)

    tasks = [asyncio.create_task(listen()), asyncio.create_task(dawdle())]
    await house.some(2_000, tenant="acme")
    house.clock.advance(1)
    written = await house.some(1)
    await house.pass_time(0.75 + reader_module.LONGEST_WAIT)
    await settle(5_000)
    assert heard == written
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_who_comes_while_a_burst_is_handed_out(house: House, monkeypatch):
    """Goes on from where they were, like everybody."""
    monkeypatch.setattr(hub_module, "MOST_EVENTS", 50)
    monkeypatch.setattr(hub_module, "PORTION", 10)
    acme = Wish("acme")
    before = await house.hub.listen(acme, None)
    position = before.position
    await before.close()
    house.hub._rings.clear()
    await house.hub.listen(MINE, None)  # and takes nothing
    mine = await house.some(5, tenant="acme")
    await house.some(100)
    more = await house.some(5, tenant="acme")
    for _ in range(20):
        await house.pass_time(0.05, step=10)
        if house.hub._handing_out.locked():
            break
    assert house.hub._handing_out.locked()
    listening = asyncio.create_task(house.hub.listen(acme, position))
    await house.pass_time(1)
    assert set(await house.heard(await listening)) == {*mine, *more}


@pytest.mark.promise("bounded-memory")
async def test_rings_are_bounded_in_bytes(house: House, monkeypatch):
    """Of one tenant, and of all together."""
    monkeypatch.setattr(hub_module, "MOST_BYTES_OF_ALL", 20_000)
    await house.hub.listen(MINE, None)
    await house.hub.listen(Wish("acme"), None)
    await house.some(50)
    await house.some(50, tenant="acme")
    await house.pass_time(1)
    weights = [ring._weight for ring in house.hub._rings.values()]
    assert len(weights) == 2
    assert all(0 < weight <= 10_000 for weight in weights)


@pytest.mark.promise("bounded-memory")
async def test_what_a_reader_takes_at_once_is_bounded_in_bytes(house: House, monkeypatch):
    """There may be very many, who all hold it until their receivers have taken it."""
    monkeypatch.setattr(reader_module, "BYTES_AT_ONCE", 3_000)
    reader = await house.hub.listen(MINE, None)
    written = await house.some(10)
    parts = []
    while part := await house.next(reader):
        parts.append([each.id for each in part])
    assert [id_ for part in parts for id_ in part] == written
    assert {len(part) for part in parts} <= {1, 2, 3}
    heavy = await house.some(2, group="x" * 4_000)
    assert [len(await house.next(reader)) for _ in range(2)] == [1, 1]
    assert len(heavy) == 2


@pytest.mark.promise("tenants-in-turn")
async def test_a_tenant_with_very_many_events_leaves_nobody_else_behind(house: House, monkeypatch):
    """Each has a ring of its own."""
    monkeypatch.setattr(hub_module, "MOST_EVENTS", 10)
    reader = await house.hub.listen(MINE, None)
    await house.hub.listen(Wish("acme"), None)
    written = await house.some(2)
    await house.some(100, tenant="acme")
    await house.pass_time(1)
    assert await house.heard(reader) == written


@pytest.mark.promise("bounded-memory")
async def test_how_many_may_listen(house: House, monkeypatch):
    """On a node, and of one tenant; whoever leaves makes room."""
    monkeypatch.setattr(hub_module, "MOST_READERS", 5)
    monkeypatch.setattr(hub_module, "MOST_OF_A_TENANT", 3)
    readers = [await house.hub.listen(MINE, None) for _ in range(3)]
    with pytest.raises(TooManyRequests, match="3 listen to events of this tenant"):
        await house.hub.listen(MINE, None)
    for _ in range(2):
        await house.hub.listen(Wish("acme"), None)
    with pytest.raises(TooManyRequests, match="on this node"):
        await house.hub.listen(Wish("other"), None)
    await readers[0].close()
    await house.hub.listen(Wish("other"), None)


async def test_who_is_refused_takes_no_place(house: House, monkeypatch):
    """Nor one whose position is none."""
    monkeypatch.setattr(hub_module, "MOST_READERS", 1)
    for _ in range(3):
        with pytest.raises(InvalidRequest):
            await house.hub.listen(MINE, "stream-1")
    await house.hub.listen(MINE, None)


async def test_nobody_reads_while_nobody_listens(house: House):
    """The feed is left alone some time after the last one has gone, and read again then."""
    await house.pass_time(5)
    assert house.store.calls == []
    reader = await house.hub.listen(MINE, None)
    await house.pass_time(1)
    assert house.store.calls
    await reader.close()
    await house.pass_time(LINGER + 1)
    house.store.calls.clear()
    await house.pass_time(5)
    assert house.store.calls == []
    reader = await house.hub.listen(MINE, None)
    written = await house.some()
    assert await house.heard(reader) == written


@pytest.mark.promise("failing-store")
async def test_a_store_that_fails_for_a_while(house: House, caplog):
    """Readers wait, and it is logged once."""
    reader = await house.hub.listen(MINE, None)
    house.store.failing = "before"
    assert await house.heard(reader, 10) == []
    written = await house.some(2)
    assert await house.heard(reader, 5) == []
    house.store.failing = None
    assert await house.heard(reader, 3) == written
    assert caplog.text.count("events cannot be read") == 1


@pytest.mark.promise("failing-store")
async def test_a_store_that_fails_while_somebody_catches_up(house: House):
    """They wait too."""
    written = await house.some(2)
    reader = await house.hub.listen(MINE, FIRST)
    house.store.failing = "before"
    assert await house.heard(reader, 5) == []
    house.store.failing = None
    assert await house.heard(reader, 3) == written


async def test_a_feed_that_cannot_be_begun(house: House, caplog):
    """Whoever comes then is told where to look, and takes no place; the log says why, once."""

    class Broken:
        async def tail(self, *_):
            raise NatsUnavailable("as told")

    whole, house.hub.feed = house.hub.feed, Broken()
    for _ in range(2):
        with pytest.raises(Unavailable, match="cannot be read just now; the log of the node says"):
            await house.hub.listen(MINE, None)
    assert not house.hub._readers
    assert caplog.text.count("events cannot be read: as told") == 1
    house.hub.feed = whole
    await (await house.hub.listen(MINE, None)).close()
    house.hub.feed = Broken()
    with pytest.raises(Unavailable):
        await house.hub.listen(MINE, FIRST)
    assert caplog.text.count("events cannot be read: as told") == 2


async def test_a_node_that_stops(house: House):
    """All readers are told at once, whatever they wait for; and nobody else is let in."""
    readers = [await house.hub.listen(MINE, None), await house.hub.listen(MINE, FIRST)]
    waiting = [asyncio.create_task(reader.next(15)) for reader in readers]
    await house.pass_time(1)
    await house.hub.close()
    for each in waiting:
        with pytest.raises(Unavailable, match="this node is stopping"):
            await each
    with pytest.raises(Unavailable, match="this node is stopping"):
        await house.hub.listen(MINE, None)
    await house.hub.close()


async def test_who_comes_in_the_moment_a_node_stops(house: House):
    """Is told so, and nothing goes on reading for them."""
    gate = asyncio.Event()
    real = house.hub.feed.tail

    async def slow(*args):
        await gate.wait()
        return await real(*args)

    house.hub.feed.tail = slow
    coming = asyncio.create_task(house.hub.listen(MINE, None))
    await settle()
    await house.hub.close()
    gate.set()
    with pytest.raises(Unavailable, match="this node is stopping"):
        await coming
    assert house.hub._reading is None


async def test_who_comes_when_the_last_one_is_forgotten(house: House):
    """In the midst of what is handed out to nobody: the feed is read for them."""
    reader = await house.hub.listen(MINE, None)
    await reader.close()
    await house.hub._handing_out.acquire()
    coming = asyncio.create_task(house.hub.listen(MINE, None))
    await house.pass_time(LINGER + 1)
    house.hub._handing_out.release()
    reader = await coming
    written = await house.some()
    assert await house.heard(reader) == written


@pytest.mark.promise("failing-store")
async def test_a_store_that_fails_when_somebody_comes(house: House):
    """They are told to try again."""
    house.store.failing = "before"
    with pytest.raises(Unavailable, match="cannot be read just now"):
        await house.hub.listen(MINE, None)
    assert not house.hub._readers


async def test_a_node_that_stops_says_from_where_to_go_on(house: House):
    """Behind what was heard, and before what was not."""
    reader = await house.hub.listen(MINE, None)
    await house.some()
    await house.next(reader)
    position = reader.position
    assert await house.next(reader) == []
    written = await house.some()
    coming = asyncio.create_task(reader.next(15))
    house.hub.closing.set()
    await house.pass_time(1)
    reader.wake()
    with pytest.raises(Unavailable):
        await coming
    assert place_of(position) <= place_of(reader.position) < written[0]


async def test_all_that_there_is(house: House):
    """Without following: from the first, and then it ends."""
    written = await house.some(3)
    await house.pass_time(1)
    reader = await house.hub.listen(MINE, None, follow=False)
    assert [each.id for each in await house.next(reader)] == written
    assert await house.next(reader) is None
    assert not house.hub._rings


async def test_the_position_gets_on_while_others_are_heard(house: House):
    """So whoever wishes for little has not to go through everything again."""
    reader = await house.hub.listen(Wish("default", group="none"), None)
    before = reader.position
    await house.some(3)
    assert await house.heard(reader) == []
    assert reader.position > before
