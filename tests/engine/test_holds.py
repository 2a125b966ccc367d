"""Groups that are paused: nothing of them starts, on any node, and nothing of them is lost."""

import asyncio

import pytest

from duetime import model
from duetime.errors import Conflict, StoreUnavailable
from duetime.model import HOLD_FOR
from duetime.stores import Change
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.tenancy.obedience import LONGEST
from duetime.tenancy.requests import PutGroup
from duetime.tenancy.rules import REVISIONS
from duetime.testing import FlakyStore
from duetime.timer import Kind, Outcome, Status
from tests.engine.conftest import CLAIM_FOR, Node, create_for, join, watch
from tests.waiting import settle

pytestmark = pytest.mark.promise("group-pause-holds")


async def pause(node: Node, *others: Node, name: str = "default") -> bool:
    """Pause a group, while the nodes go on with their heartbeats; tells whether all obey."""
    return await while_beating(node.service.groups.pause(OPERATOR, name), node, *others)


async def resume(node: Node, *others: Node, name: str = "default") -> bool:
    """Let a group go on, but for what fell due meanwhile."""
    return await while_beating(node.service.groups.resumed(OPERATOR, name, "a"), node, *others)


async def while_beating(call, *nodes: Node) -> bool:
    asked = asyncio.ensure_future(call)
    while not asked.done():
        await settle()
        for node in nodes:
            await node.engine.members.step()
        nodes[0].clock.advance(100)
    return (await asked)[1]


@pytest.fixture
async def pair(clock):
    memory = MemoryStore()
    a, b = (Node(FlakyStore(memory), clock, name) for name in "ab")
    await join(clock, a, b)
    return a, b


async def test_nothing_of_a_paused_group_is_started(node, clock):
    """It sleeps instead, knows since when, and does not count as tried; other groups go on."""
    held = await node.create(group="g", delay="1s")
    other = await node.create(delay="1s")
    assert await pause(node, name="g")
    clock.advance(1_500)
    await node.turn()
    assert node.sent == [(other.id, 1)]
    stored = await node.get(held)
    assert (stored.status, stored.progress.attempt) == (Status.PENDING, 0)
    assert stored.progress.held_since == held.execute_at
    assert stored.wake_at == clock.now() + HOLD_FOR
    node.store.calls.clear()
    await node.turn()
    assert "apply" not in node.store.calls  # it is not put to sleep again and again


async def test_what_fell_asleep_wakes_by_itself_at_last(node, clock):
    """If nobody lets it go: a node may have put it to sleep when it had not heard of the end."""
    timer = await node.create(group="g")
    await pause(node, name="g")
    await node.turn()
    clock.advance(HOLD_FOR)
    await node.engine.members.step()
    await node.turn()
    assert node.sent == []
    assert (await node.get(timer)).progress.held_since == timer.execute_at
    await resume(node, name="g")
    await node.service.groups.has_been_resumed("default", "g", "a")
    clock.advance(HOLD_FOR)
    await node.engine.members.step()
    await node.turn()
    assert node.sent == [(timer.id, 1)]


async def test_once_a_pause_is_acknowledged_no_node_starts_anything(pair, clock):
    """Not even one that has not heard the news: whoever acknowledges has seen that all obey."""
    a, b = pair
    timers = [await create_for(owner, a, delay="1s") for owner in (a, b)]
    assert await pause(a, b)
    clock.advance(1_500)
    for node in pair:
        await node.turn()
        assert node.sent == []
    assert [(await a.get(timer)).progress.attempt for timer in timers] == [0, 0]


async def test_a_pause_is_not_acknowledged_before_all_obey(pair, clock):
    """While another node shows no sign of having heard of it, it waits."""
    a, b = pair
    asked = asyncio.create_task(a.service.groups.pause(OPERATOR, "default"))
    for _ in range(20):
        await settle()
        await a.engine.members.step()
        clock.advance(100)
    assert not asked.done()
    await b.engine.members.step()
    await settle()
    clock.advance(100)
    await settle()
    assert (await asked)[1]


async def test_a_dead_node_is_waited_for_as_long_as_its_lease(pair, clock):
    """By then it can start nothing more, whatever it has heard."""
    a, b = pair
    assert b.engine.members.lease.holds(clock.monotonic())
    asked = asyncio.create_task(a.service.groups.pause(OPERATOR, "default"))
    while not asked.done():
        await settle()
        await a.engine.members.step()
        clock.advance(100)
    assert (await asked)[1]
    assert not b.engine.members.lease.holds(clock.monotonic())


async def test_a_node_that_is_leaving_obeys_too(pair, clock):
    """It is waited for, and holds what falls due while it hands over."""
    a, b = pair
    timer = await create_for(b, b, delay="1s")
    working = asyncio.create_task(b.engine.run())
    await settle()
    stopping = asyncio.create_task(b.engine.stop(10))
    await settle()
    assert b.engine.members.has_left
    pausing = asyncio.create_task(a.service.groups.pause(OPERATOR, "default"))
    await settle()
    assert not pausing.done()  # it has not heard of it yet
    while not pausing.done():
        await a.engine.members.step()
        clock.advance(100)
        await settle()
    assert (await pausing)[1]
    while not stopping.done():
        clock.advance(100)
        await settle()
    await asyncio.gather(stopping, working)
    assert b.sent == []
    assert (await a.get(timer)).progress.attempt == 0


async def test_a_node_that_crashed_when_it_was_leaving_is_not_waited_for_ever(node, clock):
    """Its record stays for a day; it has started nothing for long."""
    await node.engine.members.step()
    await node.engine.members.leave(5)
    crashed = Node(node.store, clock, "other")
    clock.advance(200_000)
    await crashed.engine.members.step()
    began_at = clock.monotonic()
    assert await pause(crashed)
    assert clock.monotonic() - began_at < 1


async def test_a_node_that_never_obeys_is_told_of(pair, clock):
    """One of an older version: the group is paused, but that it holds cannot be promised."""
    a, b = pair
    b.engine.members._holds._rules = None
    asked = asyncio.create_task(a.service.groups.pause(OPERATOR, "default"))
    began_at = clock.monotonic()
    while not asked.done():
        await settle()
        for node in pair:
            await node.engine.members.step()
        clock.advance(500)
    assert not (await asked)[1]
    assert clock.monotonic() - began_at >= LONGEST


async def test_a_node_that_cannot_read_the_rules_loses_its_lease(node, store, clock):
    """It may be the one that has not heard of a pause."""
    await node.engine.members.step()
    timer = await node.create(delay=f"{CLAIM_FOR + 1_000}ms")
    real = node.store.store.records

    async def failing(kind):
        if kind == "revision":
            raise OSError("as told")
        return await real(kind)

    node.store.store.records = failing
    for _ in range(CLAIM_FOR // 500 + 2):
        clock.advance(500)
        with pytest.raises(OSError, match="as told"):
            await node.engine.members.step()
    await node.turn()
    assert node.sent == []
    node.store.store.records = real
    await node.engine.members.step()
    await node.turn()
    assert node.sent == [(timer.id, 1)]


async def test_a_pause_that_failed_half_way_holds_when_it_is_repeated(node, store, clock):
    """Also if the node fails once more to tell the others of it, before it is repeated."""
    await node.engine.members.step()
    await node.service.groups.put(OPERATOR, "g", PutGroup())
    await node.create(group="g", delay="5s")
    real = store.store.put_record

    async def failing(old, new):
        if new is not None and new.kind == REVISIONS:
            raise StoreUnavailable("as told")
        return await real(old, new)

    store.store.put_record = failing
    with pytest.raises(StoreUnavailable):
        await node.service.groups.pause(OPERATOR, "g")
    with pytest.raises(StoreUnavailable):
        await node.engine.members.step()
    store.store.put_record = real
    await node.engine.members.step()
    assert await pause(node, name="g")
    for _ in range(3):
        clock.advance(2_000)
        await node.engine.members.step()
        await node.turn()
    assert node.sent == []


def deaf_to_revisions(node: Node) -> None:
    """Let a node fail to tell the others of what it has written."""
    real = node.store.put_record

    async def failing(old, new):
        if new is not None and new.kind == REVISIONS:
            raise StoreUnavailable("as told")
        return await real(old, new)

    node.store.put_record = failing


async def test_a_pause_of_which_nobody_heard_is_told_when_it_is_repeated(pair, clock):
    """It is there already, but that is no proof that the other node knows of it."""
    a, b = pair
    await create_for(b, a, delay="1s")
    await b.engine.reader.step()
    deaf_to_revisions(a)
    with pytest.raises(StoreUnavailable):
        await a.service.groups.pause(OPERATOR, "default")
    del a.store.put_record
    again = asyncio.create_task(a.service.groups.pause(OPERATOR, "default"))
    await settle(200)
    assert not again.done()
    assert await while_beating(again, a, b)
    clock.advance(1_500)
    await b.turn()
    assert b.sent == []


async def test_a_pause_by_a_node_that_died_before_it_told_anybody(pair, clock):
    """One node has read it, and both name the same revision: so a repeat begins another one."""
    a, b = pair
    dying = Node(FlakyStore(a.store.store), clock, "c")
    await create_for(b, a, delay="10s")
    await b.engine.reader.step()
    await b.service.groups.put(OPERATOR, "x", PutGroup())
    deaf_to_revisions(dying)
    with pytest.raises(StoreUnavailable):
        await dying.service.groups.pause(OPERATOR, "default")
    await a.engine.members.step()
    await b.engine.members.step()
    assert await pause(a, b)
    clock.advance(10_500)
    await b.turn()
    assert b.sent == []


async def test_what_is_claimed_and_not_yet_sent_stays(node, clock):
    """A claim that waits for its receiver when the group is paused is handed back, untried."""
    node.sender.hold = asyncio.Event()
    await node.engine.members.step()
    timers = [await node.create(group="g") for _ in range(400)]
    await node.turn()
    first = len(node.sent)
    assert 0 < first < len(timers)
    await pause(node, name="g")
    node.sender.hold.set()
    for _ in range(5):
        await settle()
        await node.commit()
        await node.turn()
    assert len(node.sent) == first
    rest = [await node.get(timer) for timer in timers]
    waiting = [timer for timer in rest if timer.status is Status.PENDING]
    assert len(waiting) == len(timers) - first
    assert {timer.progress.attempt for timer in waiting} == {0}


async def test_what_waits_for_its_receiver_sleeps_too(node, clock):
    """The queue of a receiver that hangs is no way around a pause."""
    node.sender.hold = asyncio.Event()
    await node.engine.members.step()
    timers = [await node.create(group="g") for _ in range(700)]
    await node.turn()
    await pause(node, name="g")
    started = len(node.sent)
    node.sender.hold.set()
    for _ in range(10):
        await settle()
        await node.commit()
        await node.turn()
    assert len(node.sent) == started
    statuses = [(await node.get(timer)).status for timer in timers]
    assert statuses.count(Status.PENDING) == len(timers) - started


async def test_a_retry_of_a_paused_group_sleeps(node, clock):
    """It keeps its attempts, and goes on with the next."""
    policy = {"max_attempts": 2, "initial_interval": "1s", "jitter": 0}
    timer = await node.create(group="g", retry_policy=policy)
    node.sender.answers.append(Outcome(kind=Kind.TIMEOUT, error="e", retryable=True))
    await node.turn()
    await pause(node, name="g")
    clock.advance(1_500)
    await node.turn()
    assert (await node.get(timer)).progress.attempt == 1
    await resume(node, name="g")
    await node.service.groups.has_been_resumed("default", "g", "a")
    stored = await node.get(timer)
    assert await node.store.apply([Change(stored, model.let_go(stored, clock.now()))]) == [True]
    await node.engine.members.step()
    await node.turn()
    assert node.sent == [(timer.id, 1), (timer.id, 2)]


async def test_an_attempt_that_a_dead_node_left_is_lost_and_its_timer_sleeps(pair, clock):
    """Nobody takes it up while the group is paused; the log tells of the attempt."""
    a, b = pair
    b.sender.hold = asyncio.Event()
    timer = await create_for(b, b)
    await b.turn()
    assert b.sent == [(timer.id, 1)]
    clock.advance(1)
    asked = asyncio.create_task(a.service.groups.pause(OPERATOR, "default"))
    while not asked.done():
        await settle()
        await watch(clock, a, 500)
    clock.advance(CLAIM_FOR)
    await a.engine.members.step()
    await a.turn()
    await a.turn()
    assert a.sent == []
    stored = await a.get(timer)
    assert (stored.status, stored.progress.lost) == (Status.PENDING, 1)
    [attempt] = await a.service.attempts(OPERATOR, timer.id, None, 9)
    assert attempt.outcome.kind is Kind.LOST
    [group] = list(a.rules.groups)
    assert not group.caught(stored)  # it was started before the pause: no rule drops it


async def test_what_was_started_before_the_pause_is_taken_up_after_it(pair, clock):
    """A claim that ran out meanwhile is no timer that fell due meanwhile."""
    a, b = pair
    b.sender.hold = asyncio.Event()
    timer = await create_for(b, b)
    await b.turn()
    paused = asyncio.create_task(a.service.groups.pause(OPERATOR, "default"))
    while not paused.done():
        await settle()
        await watch(clock, a, 500)
    resumed = asyncio.create_task(a.service.groups.resumed(OPERATOR, "default", "action"))
    while not resumed.done():
        await settle()
        await watch(clock, a, 500)
    clock.advance(CLAIM_FOR)
    await a.engine.members.step()
    await a.turn()
    assert a.sent == [(timer.id, 2)]


async def test_a_node_names_no_rules_that_it_still_writes_against(node, clock):
    """What it puts to sleep by older rules is written before it says that it goes by newer ones."""
    await node.service.groups.put(OPERATOR, "g", PutGroup())
    await pause(node, name="g")
    await node.engine.members.step()
    await node.create(group="g")
    gate, real = asyncio.Event(), node.store.store.apply

    async def slow(changes):
        await gate.wait()
        return await real(changes)

    node.store.store.apply = slow
    dispatching = asyncio.create_task(node.engine.dispatcher.step())
    await settle()
    before = node.rules.revision
    resuming = asyncio.create_task(node.service.groups.resumed(OPERATOR, "g", "a"))
    for _ in range(10):
        await settle()
        await node.engine.members.step()
        clock.advance(100)
    assert node.rules.revision > before
    assert not resuming.done()
    gate.set()
    await dispatching
    await node.engine.members.step()
    while not resuming.done():
        await settle()
        clock.advance(100)
    assert (await resuming)[1]


async def test_a_node_without_rules_holds_nothing(clock):
    """As before there were groups."""
    node = Node(FlakyStore(MemoryStore()), clock)
    assert node.engine.members._next_record().data.count(b'"rules":0')


@pytest.mark.parametrize("rule", ["all", "latest", "none"])
async def test_who_fell_due_while_it_was_paused(node, clock, rule):
    """Those that were due before the pause, or are after it, are not for its rule to drop."""
    body = PutGroup(on_resume=rule)
    await node.service.groups.put(OPERATOR, "g", body)
    during = await node.create(group="g", delay="3s")
    before = await node.create(group="g")
    clock.advance(1_000)
    await pause(node, name="g")
    await node.turn()
    clock.advance(5_000)
    await node.turn()
    await resume(node, name="g")
    after = await node.create(group="g", delay="100ms")
    [group] = [each for each in node.rules.groups if each.name == "g"]
    caught = [group.caught(await node.get(timer)) for timer in (before, during, after)]
    assert caught == [False, True, False]
    assert [group.holds(await node.get(timer)) for timer in (before, during, after)] == caught


async def test_a_group_that_is_about_to_be_deleted_is_still_paused(pair, clock):
    """A timer that is made in it meanwhile is held, and the deletion is refused because of it."""
    a, b = pair
    await a.service.groups.put(OPERATOR, "g", PutGroup())
    assert await pause(a, b, name="g")
    deleting = asyncio.create_task(a.service.delete_group(OPERATOR, "g", cancel=False))
    await settle()
    timer = await b.create(group="g")
    for _ in range(5):
        for node in pair:
            await node.engine.members.step()
            await node.turn()
        clock.advance(100)
        await settle()
    with pytest.raises(Conflict, match="1 of its timers are still to come"):
        await deleting
    assert a.sent + b.sent == []
    assert (await a.get(timer)).progress.held_since == timer.execute_at


async def test_a_timer_that_was_held_before_and_falls_due_in_another_pause(node, clock):
    """Paused by itself in the first and resumed in the second, it is caught by the second."""
    await node.service.groups.put(OPERATOR, "g", PutGroup(on_resume="none"))
    timer = await node.create(group="g", delay="1s")
    assert await pause(node, name="g")
    clock.advance(1_500)
    await node.turn()
    await node.service.pause(OPERATOR, timer.id)
    assert await resume(node, name="g")
    await node.service.groups.has_been_resumed("default", "g", "a")
    clock.advance(10_000)
    assert await pause(node, name="g")
    clock.advance(1_000)
    await node.service.resume(OPERATOR, timer.id)
    await node.turn()
    held = await node.get(timer)
    group = await node.service.groups.get(OPERATOR, "g")
    assert group.paused_at <= held.progress.held_since
    assert group.caught(held)
