"""What survives a node that died, stalled or was stopped."""

import asyncio

import pytest

from duetime import model
from duetime.errors import StoreError
from duetime.model import DEFAULT_TENANT, MAX_LOST, Kind, Status, Timer
from duetime.stores import Change
from duetime.testing import FakeClock
from tests.engine.conftest import CLAIM_FOR, Node, settle


@pytest.mark.promise("never-lost")
async def test_what_a_dead_node_left_pending_fires(node, store, clock):
    """A new node fires what a dead one left, and needs nothing but the store for it."""
    timer = await node.create(delay="1s")
    clock.advance(5_000)
    heir = Node(store, clock, "node-2")
    await heir.turn()
    assert heir.sent == [(timer.id, 1)]


@pytest.mark.promise("one-node-per-attempt")
async def test_what_a_dead_node_left_executing_is_taken_up_with_the_next_attempt(
    node, store, clock
):
    """A dead node's attempt is taken up once its claim has run out, under the same webhook-id."""
    timer = await node.create()
    node.sender.hold = asyncio.Event()
    await node.dispatch()
    heir = Node(store, clock, "node-2")
    clock.advance(CLAIM_FOR - 1)
    await heir.turn()
    assert heir.sent == []
    clock.advance(1)
    await heir.turn()
    assert heir.sent == [(timer.id, 2)]
    assert heir.sender.sent[0].webhook_id == node.sender.sent[0].webhook_id
    log = await heir.service.attempts(DEFAULT_TENANT, timer.id, None, 50)
    assert [(line.attempt, line.outcome.kind) for line in log] == [(1, Kind.LOST), (2, Kind.OK)]
    assert "node-1" in log[0].outcome.error
    assert (await heir.get(timer)).status is Status.COMPLETED


async def test_a_lost_attempt_does_not_count_against_max_attempts(node, store, clock):
    """At least once beats at most once, also with a single attempt."""
    timer = await node.create(retry_policy={"max_attempts": 1})
    node.sender.hold = asyncio.Event()
    await node.dispatch()
    clock.advance(CLAIM_FOR)
    heir = Node(store, clock, "node-2")
    await heir.turn()
    assert (await heir.get(timer)).status is Status.COMPLETED


async def test_a_timer_that_keeps_killing_its_node_is_failed(store, clock):
    """After a bounded number of lost attempts in a row it is given up."""
    timer = None
    for number in range(MAX_LOST + 2):
        node = Node(store, clock, f"node-{number}")
        node.sender.hold = asyncio.Event()
        if timer is None:
            timer = await node.create()
        await node.turn()
        clock.advance(CLAIM_FOR)
    stored = await node.get(timer)
    assert stored.status is Status.FAILED
    assert "gave up" in stored.progress.last_error
    assert stored.progress.attempt == MAX_LOST


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


@pytest.mark.promise("own-number")
async def test_a_stalled_node_hands_back_what_it_did_not_send(node, clock):
    """A claim that ran out unsent, and that nobody took up, starts again under the same number."""
    timer = await node.create()
    await node.engine.dispatcher.step()
    clock.advance(CLAIM_FOR)
    await settle()
    await node.commit()
    assert (await node.get(timer)).status is Status.PENDING
    await node.turn()
    assert node.sent == [(timer.id, 1)]
    log = await node.service.attempts(DEFAULT_TENANT, timer.id, None, 50)
    assert [line.attempt for line in log] == [1]


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


async def test_what_is_claimed_ahead_is_handed_back_at_a_stop(store, clock):
    """What has not left is as if it had never been claimed, and the others may have it at once."""
    node = Node(store, clock, target_concurrency=2)
    timers = [await node.create(delay="1s") for _ in range(10)]
    await node.engine.reader.step()
    clock.advance(1_000)
    await node.dispatch()
    node.sender.hold = asyncio.Event()
    await node.dispatch()
    under_way = dict(node.sent[2:])
    await node.engine.dispatcher.stop()
    await node.commit()
    rows = [await node.get(timer) for timer in timers[2:]]
    executing = [row.id for row in rows if row.status is Status.EXECUTING]
    assert sorted(executing) == sorted(under_way)
    assert {row.progress.attempt for row in rows if row.id not in under_way} == {0}


async def test_claims_that_landed_unheard_are_handed_back_at_a_stop(store, clock):
    """They are looked up once more, and those that find no place are not left to run out."""
    node = Node(store, clock, target_concurrency=2)
    timers = [await node.create(delay="1s") for _ in range(10)]
    await node.engine.reader.step()
    clock.advance(1_000)
    await node.dispatch()
    await node.commit()
    node.sender.hold = asyncio.Event()
    store.failing = "after"
    with pytest.raises(StoreError):
        await node.dispatch()
    store.failing = None
    claimed = [t.id for t in timers if (await node.get(t)).status is Status.EXECUTING]
    assert len(claimed) == 4
    await node.engine.dispatcher.stop()
    await node.commit()
    executing = [t.id for t in timers if (await node.get(t)).status is Status.EXECUTING]
    assert len(executing) == 2
    assert sorted(id_ for id_, _ in node.sent[2:]) == sorted(executing)


async def running(node: Node) -> asyncio.Task[None]:
    task = asyncio.create_task(node.engine.run())
    await settle()
    return task


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


@pytest.mark.promise("clean-stop")
async def test_a_graceful_stop_lets_callbacks_end(node, clock):
    """A stop waits until what is under way has ended and is written."""
    engine = await running(node)
    node.sender.hold = asyncio.Event()
    timer = await node.create()
    await settle()
    assert node.sent == [(timer.id, 1)]
    stopping = asyncio.create_task(node.engine.stop(25))
    await settle()
    late = await node.create()
    await settle()
    assert not stopping.done()
    node.sender.hold.set()
    await stopping
    await engine
    assert (await node.get(timer)).status is Status.COMPLETED
    assert (await node.get(late)).status is Status.PENDING


@pytest.mark.promise("clean-stop")
async def test_a_graceful_stop_hands_back_what_takes_too_long(node, store, clock):
    """A receiver that hangs does not hold up the stop; its timer is pending again at once."""
    engine = await running(node)
    node.sender.hold = asyncio.Event()
    timer = await node.create()
    await settle()
    stopping = asyncio.create_task(node.engine.stop(25))
    while not stopping.done():
        await settle()
        clock.advance(1_000)
    await engine
    stored = await node.get(timer)
    assert stored.status is Status.PENDING
    assert stored.wake_at <= clock.now()
    heir = Node(store, clock, "node-2")
    await heir.turn()
    assert heir.sent == [(timer.id, 2)]


@pytest.mark.promise("clean-stop")
async def test_a_stop_with_the_store_gone_still_ends(node, store, clock, caplog):
    """A stop without a store leaves its claims to run out, and the log says so."""
    engine = await running(node)
    node.sender.hold = asyncio.Event()
    timer = await node.create()
    await settle()
    store.failing = "before"
    stopping = asyncio.create_task(node.engine.stop(25))
    while not stopping.done():
        await settle()
        clock.advance(1_000)
    await engine
    assert "could not be handed back" in caplog.text
    store.failing = None
    heir = Node(store, clock, "node-2")
    await heir.turn()
    assert heir.sent == [(timer.id, 2)]


@pytest.mark.parametrize("action", [model.cancel, model.pause, model.fire])
async def test_a_released_timer_can_be_changed_again(node, clock, action):
    """Handing back leaves a timer as free as before its claim."""
    timer = await node.create()
    await node.engine.dispatcher.step()
    clock.advance(CLAIM_FOR)
    await settle()
    await node.commit()
    assert action(await node.get(timer), clock.now())
