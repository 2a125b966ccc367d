"""Targets that are paused by hand: nothing is sent to them, by any node, and nothing is lost."""

import asyncio

import msgspec
import pytest

from duetime.engine import turned_away
from duetime.engine.targets import FIRST_PLACES
from duetime.errors import StoreUnavailable
from duetime.requests import UpdateTimer
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR, Caller
from duetime.tenancy.obedience import LONGEST
from duetime.tenancy.requests import PauseTarget
from duetime.tenancy.rules import REVISIONS
from duetime.tenancy.tenant import Tenant
from duetime.testing import FlakyStore
from duetime.timer import Kind, Outcome, Status
from tests.engine.conftest import CLAIM_FOR, Node, create_for, join, running
from tests.waiting import settle

pytestmark = [
    pytest.mark.promise("target-pause-holds"),
    pytest.mark.promise("waiting-costs-nothing"),
]

A = "a.example"
FULL = "default a.example:443"


async def while_beating(call, *nodes: Node) -> bool:
    asked = asyncio.ensure_future(call)
    while not asked.done():
        await settle()
        for node in nodes:
            await node.engine.members.step()
        nodes[0].clock.advance(100)
    return (await asked)[1]


async def pause(node: Node, *others: Node, **body: str) -> bool:
    """Pause a target, while the nodes go on with their heartbeats; tells whether all obey."""
    request = msgspec.convert(body, PauseTarget)
    return await while_beating(node.service.targets.pause(OPERATOR, A, request), node, *others)


async def resume(node: Node, *others: Node) -> bool:
    return await while_beating(node.service.targets.resume(OPERATOR, A), node, *others)


@pytest.fixture
async def pair(clock):
    memory = MemoryStore()
    a, b = (Node(FlakyStore(memory), clock, name) for name in "ab")
    await join(clock, a, b)
    return a, b


async def test_nothing_is_sent_to_a_paused_target(node, clock):
    """Its timers wait, nothing is written for them, and other targets go on."""
    held = await node.create(delay="1s")
    other = await node.create(delay="1s", callback={"type": "http", "url": "https://b.example/"})
    assert await pause(node)
    clock.advance(1_500)
    await node.turn()
    assert node.sent == [(other.id, 1)]
    node.store.calls.clear()
    for _ in range(5):
        clock.advance(1_000)
        await node.turn()
    assert "apply" not in node.store.calls
    assert await node.get(held) == held
    await resume(node)
    await node.turn()
    assert node.sent[1:] == [(held.id, 1)]


async def test_another_port_is_another_target(node, clock):
    """So is another host."""
    await pause(node)
    timers = [
        await node.create(callback={"type": "http", "url": url})
        for url in ("https://a.example:8443/", "http://a.example/", "https://x.a.example/")
    ]
    await node.turn()
    assert {id_ for id_, _ in node.sent} == {timer.id for timer in timers}


async def test_another_tenant_is_not_touched(node, clock):
    """Their callbacks to the same receiver are theirs."""
    acme = Tenant(name="acme", created_at=1, updated_at=1)
    await node.rules.put(node.rules.tenants, "acme", None, acme)
    request = msgspec.convert({}, PauseTarget)
    theirs = Caller("acme")
    assert await while_beating(node.service.targets.pause(theirs, A, request), node)
    timer = await node.create()
    await node.turn()
    assert node.sent == [(timer.id, 1)]
    assert await node.service.targets.list(OPERATOR) == []
    assert [each.name for each in await node.service.targets.list(theirs)] == ["a.example:443"]


async def test_it_goes_on_by_itself_when_its_time_is_over(node, clock):
    """In that very moment, and without a look at the store."""
    timer = await node.create(delay="1s")
    task = await running(node)
    asked = asyncio.ensure_future(
        node.service.targets.pause(OPERATOR, A, msgspec.convert({"for": "1m"}, PauseTarget))
    )
    while not asked.done():
        clock.advance(50)
        await settle()
    status, is_obeyed = await asked
    until = status.until
    assert is_obeyed
    while clock.now() < until - 100:
        clock.advance(min(1_000, until - 100 - clock.now()))
        await settle(60)
    assert node.sent == []
    assert (await node.get(timer)) == timer
    clock.advance(99)
    await settle(60)
    assert node.sent == []
    node.store.calls.clear()
    clock.advance(1)
    await settle(60)
    assert node.sent == [(timer.id, 1)]
    assert "due" not in node.store.calls
    stopping = asyncio.create_task(node.engine.stop(1))
    while not stopping.done():
        clock.advance(100)
        await settle()
    await task


async def test_a_wall_clock_that_is_set_is_heeded(node, clock):
    """The end of a pause is a time on the wall clock, also if that is set forward or back."""
    timer = await node.create()
    await pause(node, **{"for": "1h"})
    await node.turn()
    clock.step_wall_clock(-7_200_000)
    clock.advance(3_600_000)
    await node.engine.members.step()
    await node.turn()
    assert node.sent == []
    clock.step_wall_clock(7_200_000)
    clock.advance(1_000)
    await node.dispatch()
    assert node.sent == [(timer.id, 1)]


async def test_it_begins_with_few_when_it_goes_on(node, clock):
    """Though it had earned many, and many wait for it: as a receiver that is new."""
    node.engine.targets._remembered[FULL] = 128
    await pause(node)
    for _ in range(100):
        await node.create()
    await node.turn()
    await resume(node)
    node.sender.hold = asyncio.Event()
    for _ in range(5):
        await node.turn()
    assert len(node.sent) == FIRST_PLACES
    node.sender.hold.set()
    for _ in range(30):
        await node.turn()
    assert len(node.sent) == 100


async def test_what_is_claimed_and_not_sent_is_handed_back(node, clock):
    """A pause that comes between the claim and the request: no attempt is used."""
    timer = await node.create()
    await node.engine.members.step()
    gate = asyncio.Event()
    send = node.sender.send

    async def slow(timer, is_mine):
        await gate.wait()  # it looks up an address, say
        return await send(timer, is_mine)

    node.sender.send = slow
    await node.engine.dispatcher.step()
    assert (await node.get(timer)).status is Status.EXECUTING
    assert await pause(node)
    gate.set()
    await settle()
    await node.commit()
    assert node.sent == []
    stored = await node.get(timer)
    assert (stored.status, stored.progress.attempt) == (Status.PENDING, 0)
    await resume(node)
    await node.turn()
    assert node.sent == [(timer.id, 1)]


async def test_what_is_being_claimed_is_not_even_begun(node, clock):
    """A pause that this node hears of while the claim is written."""
    timer = await node.create()
    await node.engine.members.step()
    real = node.store.store.apply

    async def slow(changes):
        node.store.store.apply = real
        answer = await real(changes)
        assert await pause(node)
        return answer

    node.store.store.apply = slow
    await node.turn()
    assert node.sent == []
    stored = await node.get(timer)
    assert (stored.status, stored.progress.attempt) == (Status.PENDING, 0)


async def test_once_a_pause_is_acknowledged_no_node_sends_anything(pair, clock):
    """Not even one that has not heard the news: whoever acknowledges has seen that all obey."""
    a, b = pair
    timers = [await create_for(owner, a, delay="1s") for owner in (a, b)]
    assert await pause(a, b)
    clock.advance(1_500)
    for node in pair:
        await node.turn()
        assert node.sent == []
    assert [(await a.get(timer)).progress.attempt for timer in timers] == [0, 0]
    await resume(b, a)
    for node in pair:
        await node.turn()
    assert len(a.sent) == len(b.sent) == 1


async def test_a_pause_is_not_acknowledged_before_all_obey(pair, clock):
    """While another node shows no sign of having heard of it, it waits."""
    a, b = pair
    asked = asyncio.create_task(a.service.targets.pause(OPERATOR, A, PauseTarget()))
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


async def test_a_node_that_never_obeys_is_told_of(pair, clock):
    """One of an older version: the target is paused, but that it holds cannot be promised."""
    a, b = pair
    b.engine.members._holds._rules = None
    began_at = clock.monotonic()
    assert not await pause(a, b)
    assert clock.monotonic() - began_at >= LONGEST


async def test_a_node_that_is_leaving_obeys_too(pair, clock):
    """It is waited for, and sends nothing of what falls due while it hands over."""
    a, b = pair
    timer = await create_for(b, b, delay="1s")
    working = await running(b)
    stopping = asyncio.create_task(b.engine.stop(10))
    await settle()
    assert b.engine.members.has_left
    pausing = asyncio.create_task(a.service.targets.pause(OPERATOR, A, PauseTarget()))
    await settle()
    assert not pausing.done()
    while not pausing.done() or not stopping.done():
        await a.engine.members.step()
        clock.advance(100)
        await settle()
    await working
    assert (await pausing)[1]
    assert b.sent == []
    assert (await a.get(timer)).progress.attempt == 0


async def test_a_pause_that_failed_half_way_holds_when_it_is_repeated(node, clock):
    """The document was written, and its revision was not: nobody was told that it is paused."""
    await node.engine.members.step()
    timer = await node.create(delay="5s")
    real = node.store.store.put_record

    async def failing(old, new):
        if new is not None and new.kind == REVISIONS:
            raise StoreUnavailable("as told")
        return await real(old, new)

    node.store.store.put_record = failing
    with pytest.raises(StoreUnavailable):
        await node.service.targets.pause(OPERATOR, A, PauseTarget())
    node.store.store.put_record = real
    assert await pause(node)
    clock.advance(6_000)
    await node.engine.members.step()
    await node.turn()
    assert node.sent == []
    assert await node.get(timer) == timer


async def test_a_pause_outlives_a_restart(node, clock):
    """It is a document in the store."""
    await node.engine.members.step()
    timer = await node.create(delay="1s")
    assert await pause(node)
    await node.engine.leave_no_trace()
    clock.advance(60_000)
    after = Node(node.store, clock, "node-2")
    await after.engine.join()
    await after.turn()
    assert after.sent == []
    await resume(after)
    await after.turn()
    assert after.sent == [(timer.id, 1)]


async def test_what_waits_can_be_changed_as_ever(node, clock):
    """Canceled, updated, fired, also led elsewhere: it is a row like any other."""
    timers = [await node.create() for _ in range(3)]
    await pause(node)
    await node.turn()
    assert (await node.service.cancel(OPERATOR, timers[0].id)).status is Status.CANCELED
    elsewhere = {"callback": {"type": "http", "url": "https://b.example/"}}
    await node.service.update(OPERATOR, timers[1].id, msgspec.convert(elsewhere, UpdateTimer))
    await node.service.fire(OPERATOR, timers[2].id)
    await node.turn()
    assert node.sent == [(timers[1].id, 1)]
    await resume(node)
    for _ in range(3):
        await node.turn()
    assert node.sent[1:] == [(timers[2].id, 1)]


async def test_a_deadline_that_passes_meanwhile_ends_the_timer(node, clock):
    """When it passes, and not when the target comes back; one without waits on."""
    timer = await node.create(deadline="1m")
    other = await node.create()
    await pause(node)
    await node.turn()
    clock.advance(60_000 - (clock.now() - timer.execute_at))
    await node.engine.members.step()
    await node.turn()
    assert (await node.get(timer)).status is Status.PENDING
    clock.advance(1)
    await node.dispatch()
    await node.turn()
    stored = await node.get(timer)
    assert (stored.status, stored.progress.last_error) == (Status.FAILED, "deadline passed")
    assert stored.progress.attempt == 0
    assert (await node.get(other)).status is Status.PENDING
    await resume(node)
    await node.turn()
    assert node.sent == [(other.id, 1)]


async def test_a_deadline_of_those_that_found_the_queue_full(node, clock, monkeypatch):
    """They are rows again, and not read while the queue is full: they end in time all the same."""
    node.engine.targets.queues.sure = node.engine.targets.queues.shared = 5
    monkeypatch.setattr(turned_away, "MOST_AWAY", 3)
    timers = [await node.create(deadline="1m") for _ in range(12)]
    await pause(node)
    await node.turn()
    clock.advance(70_000)
    await node.engine.members.step()
    for _ in range(4):
        await node.turn()
    assert {(await node.get(timer)).status for timer in timers} == {Status.FAILED}
    assert node.sent == []


async def test_the_dispatcher_wakes_for_a_deadline(node, clock):
    """It does not wait for something else to happen."""
    timer = await node.create(deadline="1m")
    await pause(node)
    await node.turn()
    clock.advance(60_000 - (clock.now() - timer.execute_at) - 400)
    await node.engine.members.step()
    assert await node.engine.dispatcher.step() == pytest.approx(0.401)


async def test_a_lost_attempt_at_a_paused_target_can_be_canceled(pair, clock):
    """Whoever died with it: it waits as a pending timer, and its number is not used again."""
    a, b = pair
    timer = await create_for(a, a)
    a.sender.hold = asyncio.Event()
    await a.dispatch()
    assert (await a.get(timer)).status is Status.EXECUTING
    assert await pause(b, a)
    clock.advance(2 * CLAIM_FOR)  # and a is gone
    for _ in range(4):
        clock.advance(CLAIM_FOR // 4)
        await b.engine.members.step()
        await b.turn()
    stored = await b.get(timer)
    assert (stored.status, stored.progress.attempt) == (Status.PENDING, 1)
    [attempt] = await b.service.attempts(OPERATOR, timer.id, None, 10)
    assert attempt.outcome.kind is Kind.LOST
    assert b.sent == []
    assert (await b.service.cancel(OPERATOR, timer.id)).status is Status.CANCELED


async def test_a_node_is_not_behind_for_what_a_pause_holds(node, clock):
    """Nobody could do anything about it."""
    await node.create()
    await pause(node)
    await node.turn()
    clock.advance(60_000)
    assert node.engine.status().behind_ms == 0


async def test_the_answer_under_way_is_taken(node, clock):
    """A pause ends nothing: what was sent before it is counted as it ends."""
    timer = await node.create(retry_policy={"max_attempts": 3})
    await node.engine.members.step()
    node.sender.hold = asyncio.Event()
    node.sender.answer = Outcome(kind=Kind.HTTP, status_code=500, retryable=True, error="HTTP 500")
    await node.dispatch()
    assert await pause(node)
    node.sender.hold.set()
    await settle()
    await node.commit()
    stored = await node.get(timer)
    assert (stored.status, stored.progress.attempt) == (Status.PENDING, 1)


async def test_why_a_timer_waits_is_told(node, clock):
    """Computed when it is asked for, and only for those that are due."""
    due, later = await node.create(), await node.create(delay="1h")
    assert node.service.waiting_for(due) is None
    await pause(node)
    assert node.service.waiting_for(due) == "target a.example:443 is paused until it is resumed"
    assert node.service.waiting_for(later) is None
    await pause(node, until="2030-01-01T00:00:00Z")
    told = node.service.waiting_for(due)
    assert told == "target a.example:443 is paused until 2030-01-01T00:00:00Z"
