"""Claims a moment ahead: a slow store makes no timer late, and none leaves before it is due."""

import pytest

from duetime.engine.claim import Claim
from duetime.engine.lead import ALONG, LEAST, MOST, Lead
from duetime.errors import InvalidRequest
from duetime.model import claim, release
from duetime.stores import Change
from duetime.tenancy.caller import OPERATOR
from duetime.testing import FlakyStore
from duetime.timer import Status
from tests.engine.conftest import CLAIM_FOR, Node
from tests.factories import NOW, make_timer
from tests.waiting import settle

TOOK = 12  # milliseconds, more than the least lead


class SlowStore(FlakyStore):
    """A store that takes its time to write changes."""

    def __init__(self, store, clock):
        super().__init__(store)
        self._clock = clock
        self.takes = TOOK
        self.writes = 0

    async def apply(self, changes):
        self.writes += 1
        won = await self.store.apply(changes)
        self._clock.advance(self.takes)
        return won


@pytest.fixture
def slow(store, clock):
    return SlowStore(store.store, clock)


@pytest.fixture
async def node(slow, clock):
    """A node that has learned how slow its store is."""
    node = Node(slow, clock)
    await node.create()
    await node.turn()
    assert len(node.sent) == 1
    node.sender.sent.clear()
    return node


def due_in(node, timer):
    return timer.execute_at - node.clock.now()


@pytest.mark.promise("never-early")
async def test_it_is_claimed_ahead_and_sent_when_it_is_due(node, clock):
    """The write is done by then; not a millisecond before that does it leave."""
    timer = await node.create(delay="100ms")
    clock.advance(due_in(node, timer) - TOOK - 1)
    await node.dispatch()
    assert (await node.get(timer)).status is Status.PENDING
    clock.advance(1)
    await node.dispatch()
    assert due_in(node, timer) == 0
    assert node.sent == [(timer.id, 1)]


@pytest.mark.promise("never-early")
async def test_a_write_that_was_quicker_makes_nothing_early(node, slow, clock):
    """What is claimed and not due yet waits, and leaves in the very millisecond."""
    timer = await node.create(delay="100ms")
    slow.takes = 1
    clock.advance(due_in(node, timer) - TOOK)
    await node.dispatch()
    assert (await node.get(timer)).status is Status.EXECUTING
    while due_in(node, timer) > 0:
        assert node.sent == []
        clock.advance(1)
        await settle()
    assert node.sent == [(timer.id, 1)]


@pytest.mark.promise("never-early")
async def test_a_clock_that_is_set_back_makes_nothing_early(node, slow, clock):
    """By that clock it is due later; what waits for so long is handed back, and fires then."""
    timer = await node.create(delay="100ms")
    slow.takes = 1
    clock.advance(due_in(node, timer) - TOOK)
    await node.dispatch()
    clock.step_wall_clock(-60_000)
    for _ in range(2):
        clock.advance(1_000)
        await node.dispatch()
        await node.commit()
    assert node.sent == []
    assert (await node.get(timer)).status is Status.PENDING
    clock.advance(due_in(node, timer))
    await node.turn()
    clock.advance(TOOK)
    await settle()
    assert node.sent == [(timer.id, 1)]


async def test_the_log_tells_when_it_was_due(node, slow, clock):
    """And not when the row was written, which nobody outside sees anything of."""
    timer = await node.create(delay="100ms")
    slow.takes = 1
    clock.advance(due_in(node, timer) - TOOK)
    await node.dispatch()
    clock.advance(TOOK)
    await settle()
    await node.commit()
    [attempt] = await node.service.attempts(OPERATOR, timer.id, None, 10)
    assert attempt.started_at == timer.execute_at
    assert (await node.get(timer)).executed_at >= timer.execute_at


@pytest.mark.promise("cancel-holds")
async def test_a_cancel_in_that_moment_is_refused(node, slow, clock):
    """It is answered truly: the timer is about to leave, and does."""
    timer = await node.create(delay="100ms")
    slow.takes = 1
    clock.advance(due_in(node, timer) - TOOK)
    await node.dispatch()
    with pytest.raises(InvalidRequest, match="executing"):
        await node.service.cancel(OPERATOR, timer.id)
    clock.advance(TOOK)
    await settle()
    assert node.sent == [(timer.id, 1)]


async def test_a_node_that_stops_hands_it_back(node, slow, clock):
    """As if it had not been claimed: it is due when it was to be, and its number is free."""
    timer = await node.create(delay="100ms")
    slow.takes = 0
    clock.advance(due_in(node, timer) - TOOK)
    await node.dispatch()
    await node.engine.dispatcher.stop()
    await node.commit()
    stored = await node.get(timer)
    assert (stored.status, stored.wake_at) == (Status.PENDING, timer.execute_at)
    assert stored.progress.attempt == 0
    clock.advance(1_000)
    await settle()
    assert node.sent == []


async def test_a_claim_is_not_taken_up_before_it_has_run_out(node, slow, clock):
    """Its node may send until then; only what nobody has claimed is claimed ahead."""
    timer = await node.create(delay="100ms")
    other = claim(timer, "node-2", clock.now(), 200)
    await slow.apply([Change(timer, other)])
    await node.engine.reader.step()
    while clock.now() < other.wake_at:
        await node.dispatch()
        assert node.sent == []
        clock.advance(1)
    await node.turn()
    assert node.sent == [(timer.id, 2)]


async def test_those_due_one_after_the_other_leave_each_in_its_time(node, slow, clock):
    """Though one write claims them all."""
    slow.takes = 0
    timers = [await node.create(delay=f"{100 + late}ms") for late in range(4)]
    clock.advance(due_in(node, timers[0]) - 2)
    await node.dispatch()
    assert {(await node.get(timer)).status for timer in timers} == {Status.EXECUTING}
    for left in range(6):
        assert len(node.sent) == max(left - 1, 0)
        clock.advance(1)
        await settle()


async def test_those_that_follow_closely_are_claimed_along(node, slow, clock):
    """One write serves them all, and nobody who is due later."""
    slow.takes = 0
    delays = (100, 101, 100 + ALONG, 101 + ALONG)
    timers = [await node.create(delay=f"{delay}ms") for delay in delays]
    clock.advance(due_in(node, timers[0]) - TOOK)
    slow.writes = 0
    await node.dispatch()
    assert slow.writes == 1
    statuses = [(await node.get(timer)).status for timer in timers]
    assert statuses == [Status.EXECUTING] * 3 + [Status.PENDING]
    assert node.sent == []
    for timer in timers:
        clock.advance(due_in(node, timer) - 1)
        await node.turn()
        assert (timer.id, 1) not in node.sent
        clock.advance(1)
        await node.turn()
        assert node.sent[-1] == (timer.id, 1)


async def test_nobody_is_claimed_along_before_it_is_time_for_the_first(node, slow, clock):
    """Whatever else wakes the node."""
    slow.takes = 0
    timer = await node.create(delay="100ms")
    clock.advance(due_in(node, timer) - TOOK - 1)
    await node.dispatch()
    assert (await node.get(timer)).status is Status.PENDING


def test_the_lead_is_what_claims_take():
    """At once when one took long, bit by bit when they are quick again; never short nor long."""
    lead = Lead()
    assert lead.millis == 0
    lead.learn(0.0142)
    assert lead.millis == 15
    lead.learn(0.001)
    assert lead.millis == 14
    for _ in range(100):
        lead.learn(0.001)
    assert lead.millis == LEAST
    lead.learn(9)
    assert lead.millis == MOST


def test_a_store_that_takes_no_time_needs_no_lead():
    """What is due is claimed when it is due, and nothing with it."""
    lead = Lead()
    lead.learn(0)
    assert (lead.millis, lead.until(NOW, NOW)) == (0, NOW)


def test_a_store_that_stood_still_for_once_is_soon_forgotten():
    """A stall of a minute is no reason to claim early for longer than one of a moment."""
    lead = Lead()
    lead.learn(60)
    for _ in range(40):
        lead.learn(0.001)
    assert lead.millis == LEAST


def test_what_is_released_before_it_is_due_is_not_due():
    """Whatever the clock says, it does not wake before its time."""
    timer = make_timer(execute_at=NOW + 10, wake_at=NOW + 10)
    early = claim(timer, "node-1", NOW + 10, CLAIM_FOR)
    assert release(early, NOW + 5, was_sent=False).wake_at == NOW + 10
    assert release(early, NOW + 50, was_sent=True).wake_at == NOW + 10
    assert Claim(timer=early, holds_until=1.0).timer.progress.claimed_at == NOW + 10
