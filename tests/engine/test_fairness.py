"""One receiver, one backlog, one burst: none of them may hold up the rest, or fill the memory."""

import asyncio

import msgspec
import pytest

from duetime import model
from duetime.engine import column, queues
from duetime.engine.column import MOST_BYTES
from duetime.engine.places import FIRST_PLACES, LEAST_PLACES
from duetime.requests import UpdateTimer
from duetime.stores import Change, Insert
from duetime.tenancy.caller import Caller
from duetime.timer import Kind, Outcome, Status
from tests.engine.conftest import Node
from tests.engine.crowds import HANGING, HangingSender, heavy
from tests.waiting import settle


def reads_of(store):
    """The ids of the timers that are read from now on."""
    read = []
    get = store.get

    async def note(ids):
        read.extend(ids)
        return await get(ids)

    store.get = note
    return read


@pytest.mark.promise("only-itself")
async def test_a_receiver_that_never_answers_delays_only_itself(node, clock):
    """500 timers to a hanging receiver, and the others start as if it were not there."""
    HangingSender(node)
    for _ in range(500):
        await node.create(callback=HANGING, delay="1s")
    others = [await node.create(delay="1s") for _ in range(FIRST_PLACES)]
    more = [await node.create(delay="1s") for _ in range(2 * FIRST_PLACES)]
    clock.advance(1_000)
    await node.turn()  # takes a batch of 500
    await node.turn()
    assert sorted(node.sent) == sorted((timer.id, 1) for timer in others)
    await node.turn()
    assert sorted(node.sent) == sorted((timer.id, 1) for timer in others + more)
    assert node.engine.targets.under_way == FIRST_PLACES
    later = await node.create()
    await node.dispatch()
    assert node.sent[-1] == (later.id, 1)


@pytest.mark.promise("bounded-memory")
async def test_a_hanging_receivers_backlog_does_not_fill_the_memory(store, clock):
    """Beyond its queue, a receiver's timers stay in the store and are read again, slowly."""
    node = Node(store, clock)
    node.engine.targets.queues.shared = 0
    HangingSender(node)
    for _ in range(3_000):
        await node.create(callback=HANGING, delay="1s")
    clock.advance(10_000)
    pauses = []
    for _ in range(30):
        pauses.append(await node.engine.reader.step())
        await node.dispatch()
        await node.dispatch()
        await node.dispatch()
    held = node.engine.targets.under_way + len(node.engine.targets.queues.versions)
    assert held == FIRST_PLACES + 1_000
    assert min(pauses[-10:]) > 0
    late = await node.create()
    await node.dispatch()
    assert node.sent == [(late.id, 1)]


@pytest.mark.slow
async def test_a_backlog_that_was_turned_away_is_not_read_again(store, clock):
    """While their receiver is crowded, its timers cost a line of the index each, and no more."""
    node = Node(store, clock)
    node.engine.targets.queues.shared = 0
    HangingSender(node)
    for _ in range(3_000):
        await node.create(callback=HANGING, delay="1s")
    clock.advance(10_000)
    for _ in range(30):
        await node.turn()
    read = reads_of(store)
    for _ in range(10):
        await node.turn()
    assert read == []
    late = await node.create(delay="0s")
    await node.turn()
    assert (late.id, 1) in node.sent


@pytest.mark.promise("bounded-memory")
async def test_one_page_does_not_overfill_the_agenda(store, clock):
    """Of many large timers that are found at once, no more are read than there is room for."""
    node = Node(store, clock)
    await store.insert([Insert(heavy(1024)) for _ in range(200)])
    clock.advance(3_600_000)
    await node.engine.reader.step()  # which learns how late it is
    await node.engine.reader.step()
    held = node.engine.agenda._backlog.weight
    assert MOST_BYTES // 2 < held <= MOST_BYTES


async def test_a_backlog_of_large_timers_is_read_about_once(store, clock):
    """Who was turned away for his weight comes again when there is room, and not before."""
    node = Node(store, clock, target_concurrency=4)
    timers = [heavy(200) for _ in range(600)]
    await store.insert([Insert(timer) for timer in timers])
    clock.advance(3_600_000)
    read = reads_of(store)
    for _ in range(400):
        await node.turn()
    assert {id_ for id_, _ in node.sent} == {timer.id for timer in timers}
    assert len(node.sent) == 600
    assert len(read) < 3 * 600


@pytest.mark.promise("only-itself")
async def test_a_newcomer_does_not_queue_behind_the_backlog_of_others(store, clock):
    """A new receiver is served in turn with those that wait, even on a node that is full."""
    node = Node(store, clock, max_in_flight=50)
    for number in range(60):
        for _ in range(20):
            await node.create(callback=HANGING | {"url": f"https://old-{number}.example/"})
    node.sender.hold = asyncio.Event()
    await node.dispatch()
    newcomer = await node.create()
    node.sender.hold.set()
    for _ in range(10):
        await node.turn()
    sent = [id_ for id_, _ in node.sent]
    assert sent.index(newcomer.id) < 400


@pytest.mark.promise("never-lost")
async def test_timers_turned_away_fire_once_their_receiver_answers(store, clock):
    """Nothing that a crowded receiver was spared is forgotten."""
    node = Node(store, clock)
    node.sender.hold = asyncio.Event()
    timers = [await node.create(delay="1s") for _ in range(1_500)]
    clock.advance(5_000)
    for _ in range(5):
        await node.turn()
    node.sender.hold.set()
    for _ in range(60):
        await settle()
        await node.turn()
    assert sorted(node.sent) == sorted((timer.id, 1) for timer in timers)
    assert [(await node.get(timer)).status for timer in timers] == [Status.COMPLETED] * 1_500


@pytest.mark.promise("late-fires")
async def test_more_timers_than_the_agenda_holds_all_fire(store, clock, monkeypatch):
    """What does not fit into memory is read when there is room."""
    monkeypatch.setattr(column, "CAPACITY", 100)
    node = Node(store, clock)
    timers = [await node.create(delay="3s") for _ in range(500)]
    await node.engine.reader.step()
    assert len(node.engine.agenda) == 100
    clock.advance(3_000)
    for _ in range(40):
        await node.turn()
    assert sorted(node.sent) == sorted((timer.id, 1) for timer in timers)


@pytest.mark.promise("bounded-memory")
async def test_large_timers_do_not_fill_the_memory(store, clock, monkeypatch):
    """A hundred large timers are as much as thousands of small ones, and all of them fire."""
    monkeypatch.setattr(column, "MOST_BYTES", 1024 * 1024)
    node = Node(store, clock, target_concurrency=2)
    monkeypatch.setattr(queues, "MOST_BYTES_WAITING", 4 * 1024 * 1024)
    node.sender.hold = asyncio.Event()
    payload = msgspec.Raw(b'"' + b"x" * 100 * 1024 + b'"')
    large = {"type": "http", "url": "https://a.example/", "payload": payload}
    timers = [await node.create(delay="3s", callback=large) for _ in range(150)]
    assert 10 <= len(node.engine.agenda) <= 11
    clock.advance(30_000)
    for _ in range(30):
        await node.turn()
    waiting = node.engine.targets.queues.versions
    assert 10 <= len(waiting) <= 11
    node.sender.hold.set()
    for _ in range(200):
        await settle()
        await node.turn()
    assert sorted(node.sent) == sorted((timer.id, 1) for timer in timers)
    assert node.engine.targets.queues.weight == 0
    assert node.engine.agenda._in_time.weight == node.engine.agenda._backlog.weight == 0


async def test_a_node_has_a_bounded_number_under_way(store, clock):
    """MAX_IN_FLIGHT holds over all receivers."""
    node = Node(store, clock, max_in_flight=10)
    node.sender.hold = asyncio.Event()
    for number in range(30):
        await node.create(callback={"type": "http", "url": f"https://r{number}.example/"})
    for _ in range(5):
        await node.turn()
    assert len(node.sent) == 10
    node.sender.hold.set()
    for _ in range(5):
        await settle()
        await node.turn()
    assert len(node.sent) == 30


@pytest.mark.parametrize("receivers", [1, 30])
async def test_a_running_engine_goes_on_as_soon_as_a_place_is_free(store, clock, receivers):
    """Neither a receiver that was full nor a node that was makes anybody wait for the clock."""
    node = Node(store, clock, max_in_flight=10)
    engine = asyncio.create_task(node.engine.run())
    await settle()
    node.sender.hold = asyncio.Event()
    for number in range(30):
        await node.create(
            callback={"type": "http", "url": f"https://r{number % receivers}.example/"}
        )
    await settle()
    assert 0 < len(node.sent) <= 10
    node.sender.hold.set()
    for _ in range(10):
        await settle()
    assert len(node.sent) == 30
    stopping = asyncio.create_task(node.engine.stop(1))
    await settle()
    await stopping
    await engine


@pytest.mark.promise("only-itself")
async def test_a_receiver_that_times_out_does_not_get_more_and_more(store, clock):
    """A receiver that times out has no more under way than at first, and soon fewer."""
    node = Node(store, clock)
    sending, most = 0, []
    release = asyncio.Event()

    async def time_out(timer, is_mine):
        nonlocal sending
        sending += 1
        await release.wait()
        sending -= 1
        return Outcome(kind=Kind.TIMEOUT, error="no answer")

    node.sender.send = time_out
    for _ in range(500):
        await node.create(delay="1s")
    clock.advance(1_000)
    for _ in range(6):
        for _ in range(3):
            await node.turn()
        most.append(sending)
        release.set()
        await settle()
        release.clear()
    assert most == [FIRST_PLACES, *[LEAST_PLACES] * 5]


@pytest.mark.promise("only-itself")
async def test_a_hundred_hanging_receivers_delay_only_themselves(store, clock):
    """An outage of many receivers at once leaves places for those that answer."""
    node = Node(store, clock)
    node.sender.hold = asyncio.Event()
    for number in range(100):
        for _ in range(10):
            await node.create(callback=HANGING | {"url": f"https://hangs-{number}.example/"})
    for _ in range(20):
        await node.turn()
    node.sender.hold = None
    late = await node.create()
    await node.dispatch()
    assert (late.id, 1) in node.sent


async def test_what_was_claimed_ahead_of_a_receiver_that_stops_answering_is_handed_back(
    store, clock
):
    """A claim waits a second for a place, not for ever: then it can be canceled again."""
    node = Node(store, clock, target_concurrency=2)
    timers = [await node.create(delay="1s") for _ in range(10)]
    await node.engine.reader.step()
    clock.advance(1_000)
    await node.dispatch()
    node.sender.hold = asyncio.Event()
    await node.dispatch()
    await node.commit()
    executing = [t for t in timers if (await node.get(t)).status is Status.EXECUTING]
    assert len(executing) == 4
    clock.advance(1_000)
    await node.dispatch()
    await node.commit()
    executing = [t for t in timers if (await node.get(t)).status is Status.EXECUTING]
    assert len(executing) == node.engine.targets.under_way == 2
    waiting = [t for t in timers if (await node.get(t)).status is Status.PENDING]
    assert await node.service.cancel(Caller(waiting[0].tenant), waiting[0].id)


async def test_claims_that_were_lost_take_no_places(node, store, clock):
    """Somebody else canceled them; their receiver has all its places for the next ones."""
    timers = [await node.create(delay="1s") for _ in range(2 * FIRST_PLACES)]
    await node.engine.reader.step()
    await store.apply([Change(timer, model.cancel(timer, clock.now())) for timer in timers])
    clock.advance(1_000)
    for _ in range(2):
        await node.dispatch()
    assert node.engine.targets.under_way == 0
    node.sender.hold = asyncio.Event()
    more = [await node.create() for _ in range(FIRST_PLACES)]
    await node.dispatch()
    assert sorted(node.sent) == sorted((timer.id, 1) for timer in more)


async def test_an_update_does_not_wait_in_the_queue_of_the_old_receiver(store, clock):
    """A timer that stands in a hanging receiver's queue is free again once it is updated."""
    node = Node(store, clock, target_concurrency=1)
    HangingSender(node)
    timers = [await node.create(callback=HANGING, delay="1s") for _ in range(5)]
    clock.advance(1_000)
    await node.turn()
    body = {"delay": "2s", "callback": {"type": "http", "url": "https://a.example/"}}
    moved = timers[-1]
    await node.service.update(Caller(moved.tenant), moved.id, msgspec.convert(body, UpdateTimer))
    clock.advance(2_000)
    await node.turn()
    assert node.sent == [(moved.id, 1)]
