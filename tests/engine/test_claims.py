"""Who holds a claim may send the attempt, and nobody else: it is renewed until the attempt ends."""

import asyncio

import pytest

from duetime import model
from duetime.errors import StoreError
from duetime.stores import Change
from duetime.testing import FakeClock
from duetime.timer import Status, Timer
from tests.engine.conftest import CLAIM_FOR, Node, running
from tests.waiting import settle


@pytest.mark.promise("stalled-sends-nothing")
async def test_a_node_that_stalled_past_its_claim_sends_nothing(node, store, clock):
    """A node looks at its claim on the monotonic clock right before it sends."""
    timer = await node.create()
    await node.engine.dispatcher.step()  # claimed, not yet sent
    clock.advance(CLAIM_FOR)  # the process stood still
    await settle()
    assert node.sent == []
    heir = Node(store, clock, "node-2")
    await heir.turn()
    assert heir.sent == [(timer.id, 2)]
    await node.commit()  # what it has to say of its claim comes too late
    assert (await heir.get(timer)).status is Status.COMPLETED


async def test_a_machine_that_was_suspended_sends_nothing_past_its_claims(node, clock):
    """Its monotonic clock stood still meanwhile; by the others' clocks, the claim has run out."""
    await node.create()
    await node.engine.dispatcher.step()  # claimed, not yet sent
    clock.step_wall_clock(CLAIM_FOR)
    await settle()
    assert node.sent == []


@pytest.mark.parametrize("is_renewed", [False, True])
async def test_a_wall_clock_that_is_set_back_does_not_make_a_claim_longer(node, clock, is_renewed):
    """Others may have taken it up by then, whatever the clock on this wall says."""
    await node.create()
    await node.engine.dispatcher.step()  # claimed, not yet sent
    if is_renewed:
        clock.advance(CLAIM_FOR // 2 + 1)
        await node.engine.committer.step()
    clock.step_wall_clock(-2 * CLAIM_FOR)
    clock.advance(CLAIM_FOR)
    await settle()
    assert node.sent == []


async def taken_up(node: Node, timer: Timer) -> None:
    """Let another node, whose clock is ahead, begin the next attempt."""
    stored = await node.get(timer)
    new = model.take_up(stored, "node-2", node.clock.now(), CLAIM_FOR)
    assert await node.store.store.apply([Change(stored, new)]) == [True]


async def test_a_claim_that_cannot_be_renewed_is_not_sent(node, clock):
    """Somebody took it up: to send it as well would be a second delivery for nothing."""
    timer = await node.create()
    await node.engine.dispatcher.step()  # claimed, not yet sent
    clock.advance(CLAIM_FOR // 2 + 1)
    await taken_up(node, timer)
    await node.engine.committer.step()
    await settle()
    assert node.sent == []


async def test_a_claim_that_was_lost_in_an_outage_is_not_sent(node, store, clock):
    """A renewal failed, and when the store is back, the claim is another node's."""
    timer = await node.create()
    await node.engine.dispatcher.step()  # claimed, not yet sent
    clock.advance(CLAIM_FOR // 2 + 1)
    store.failing = "before"
    with pytest.raises(StoreError):
        await node.engine.committer.step()
    store.failing = None
    await taken_up(node, timer)
    await node.engine.committer.step()
    await settle()
    assert node.sent == []
    assert (await node.get(timer)).progress.claimed_by == "node-2"


@pytest.mark.promise("stalled-sends-nothing")
async def test_a_node_that_stalled_past_its_lease_sends_nothing(node, clock):
    """A node that others may have taken for dead sends nothing, though its claim still holds."""
    await node.engine.members.step()
    clock.advance(CLAIM_FOR // 2)
    timer = await node.create()
    await node.engine.dispatcher.step()  # claimed, not yet sent
    assert (await node.get(timer)).status is Status.EXECUTING
    clock.advance(CLAIM_FOR // 2)  # the process stood still
    await settle()
    assert node.sent == []


@pytest.mark.promise("stalled-sends-nothing")
async def test_a_heartbeat_does_not_bring_back_the_claims_of_a_stalled_node(node, store, clock):
    """A node that goes on with a heartbeat sends nothing that others may have taken up."""
    await node.engine.members.step()
    clock.advance(CLAIM_FOR // 2)
    timer = await node.create()
    await node.engine.dispatcher.step()
    clock.advance(CLAIM_FOR // 2)
    await node.engine.members.step()
    await settle()
    assert node.sent == []
    await node.commit()  # handed back, as nobody has taken it up
    await node.turn()
    assert node.sent == [(timer.id, 1)]


async def test_without_a_lease_nothing_is_claimed(node, store, clock):
    """It could not be sent, and would be claimed and handed back over and over."""
    await node.engine.members.step()
    clock.advance(CLAIM_FOR)
    timer = await node.create()
    await node.engine.reader.step()
    assert timer.id in node.engine.agenda
    assert await node.engine.dispatcher.step() > 0.5
    assert (await node.get(timer)).status is Status.PENDING
    await node.engine.members.step()
    await node.turn()
    assert node.sent == [(timer.id, 1)]


async def test_a_claim_that_landed_unheard_stands_under_the_lease_it_was_made_under(
    node, store, clock
):
    """When it is found to have landed, others may have taken it up already."""
    await node.engine.members.step()
    clock.advance(CLAIM_FOR // 2)
    await node.create()
    await node.engine.reader.step()
    store.failing = "after"
    with pytest.raises(StoreError):
        await node.engine.dispatcher.step()
    store.failing = None
    clock.advance(CLAIM_FOR // 2)
    await node.engine.members.step()
    await node.dispatch()
    assert node.sent == []


async def test_a_claim_that_is_renewed_stands_under_the_new_lease(node, store, clock):
    """Nobody has taken it up, so it may be sent again."""
    await node.engine.members.step()
    clock.advance(CLAIM_FOR // 2)
    timer = await node.create()
    await node.engine.dispatcher.step()
    clock.advance(CLAIM_FOR // 2 + 1)
    await node.engine.members.step()
    await node.engine.committer.step()
    await settle()
    assert node.sent == [(timer.id, 1)]


async def test_a_claim_that_was_renewed_holds_as_long_as_a_new_one(node, clock):
    """What could not leave before may do so until the renewed claim runs out."""
    timer = await node.create()
    await node.engine.dispatcher.step()  # claimed, not yet sent
    clock.advance(CLAIM_FOR // 2 + 1)
    await node.engine.committer.step()
    clock.advance(CLAIM_FOR - 1)
    await settle()
    assert node.sent == [(timer.id, 1)]


@pytest.mark.promise("one-node-per-attempt")
async def test_a_slow_attempt_keeps_its_claim(node, store, clock):
    """Claims are renewed while the attempt is under way, so nobody else takes it up."""
    timer = await node.create()
    node.sender.hold = asyncio.Event()
    await node.dispatch()
    heir = Node(store, clock, "node-2")
    for _ in range(20):
        clock.advance(CLAIM_FOR // 4)
        await node.commit()
        await heir.turn()
    assert heir.sent == []
    node.sender.hold.set()
    await settle()
    await node.commit()
    stored = await node.get(timer)
    assert stored.status is Status.COMPLETED
    assert stored.progress.attempt == 1


async def test_a_claim_is_renewed_when_half_of_it_is_over_and_not_before(node, clock):
    """A renewal is a write, and most attempts end long before they need one."""
    timer = await node.create()
    node.sender.hold = asyncio.Event()
    await node.dispatch()
    runs_out_at = clock.now() + CLAIM_FOR
    clock.advance(CLAIM_FOR // 2)
    await node.commit()
    assert (await node.get(timer)).wake_at == runs_out_at
    clock.advance(CLAIM_FOR // 4)
    await node.commit()
    assert (await node.get(timer)).wake_at == clock.now() + CLAIM_FOR


async def test_a_claim_that_has_run_out_is_not_renewed(node, clock):
    """It is anybody's by then, and the next attempt is not put off."""
    timer = await node.create()
    node.sender.hold = asyncio.Event()
    await node.dispatch()
    clock.advance(CLAIM_FOR)
    await node.commit()
    assert (await node.get(timer)).wake_at == clock.now()


async def test_an_attempt_that_has_ended_is_not_renewed(node, store, clock):
    """Its outcome is the one thing that is written of it."""
    timer = await node.create()
    node.sender.hold = asyncio.Event()
    await node.dispatch()
    clock.advance(CLAIM_FOR * 3 // 4)
    node.sender.hold.set()
    await settle()
    written, apply = [], store.store.apply

    async def note(changes):
        written.extend(change.new for change in changes)
        return await apply(changes)

    store.store.apply = note
    await node.commit()
    assert [(each.id, each.status) for each in written] == [(timer.id, Status.COMPLETED)]


@pytest.mark.promise("clocks-may-differ", "one-node-per-attempt")
@pytest.mark.parametrize("ahead", [CLAIM_FOR // 3 - 1, -(CLAIM_FOR // 3 - 1)])
async def test_clocks_that_differ_by_less_than_a_third_of_a_claim_take_nothing_away(
    node, store, clock, ahead
):
    """A slow attempt is renewed before a node whose clock is ahead sees its claim run out."""
    heir_clock = FakeClock(clock.now() + ahead)
    heir = Node(store, heir_clock, "node-2")
    timer = await node.create()
    node.sender.hold = asyncio.Event()
    await node.dispatch()
    for _ in range(50):
        for each in (clock, heir_clock):
            each.advance(CLAIM_FOR // 8)
        await heir.turn()  # which looks before the claim can be renewed
        await node.commit()
    node.sender.hold.set()
    await settle()
    await node.commit()
    assert (node.sent, heir.sent) == ([(timer.id, 1)], [])
    assert (await node.get(timer)).status is Status.COMPLETED


@pytest.mark.promise("own-number")
async def test_an_outcome_that_comes_after_the_claim_was_lost_changes_nothing(node, store, clock):
    """Only the node that holds the claim may say how an attempt ended."""
    timer = await node.create()
    node.sender.hold = asyncio.Event()
    await node.dispatch()
    clock.advance(CLAIM_FOR)
    heir = Node(store, clock, "node-2")
    heir.sender.hold = asyncio.Event()
    await heir.turn()
    node.sender.hold.set()
    await settle()
    await node.commit()
    stored = await node.get(timer)
    assert stored.status is Status.EXECUTING
    assert stored.progress.claimed_by == "node-2"


@pytest.mark.promise("one-node-per-attempt")
async def test_two_nodes_never_start_the_same_attempt(store, clock):
    """Two nodes look at every shard, and each timer is sent once."""
    nodes = [Node(store, clock, f"node-{n}") for n in range(3)]
    timers = [await nodes[0].create(delay="1s") for _ in range(200)]
    clock.advance(1_000)
    for node in nodes:
        await node.engine.reader.step()
    for _ in range(10):
        await asyncio.gather(*(node.dispatch() for node in nodes))
    sent = [each for node in nodes for each in node.sent]
    assert sorted(sent) == sorted((timer.id, 1) for timer in timers)


async def test_a_running_engine_holds_on_to_an_attempt_that_takes_long(node, clock):
    """Its claims are renewed though no outcome comes in between."""
    engine = await running(node)
    node.sender.hold = asyncio.Event()
    timer = await node.create()
    for _ in range(3 * CLAIM_FOR // 100):
        await settle()
        clock.advance(100)
        assert (await node.get(timer)).wake_at > clock.now()
    assert node.sent == [(timer.id, 1)]
    node.sender.hold.set()
    stopping = asyncio.create_task(node.engine.stop(1))
    await settle()
    await stopping
    await engine
    assert (await node.get(timer)).progress.attempt == 1
