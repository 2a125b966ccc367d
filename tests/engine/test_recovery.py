"""What a node that died or stalled has left is taken up, by others or by itself."""

import asyncio

import pytest

from duetime import model
from duetime.model import MAX_LOST
from duetime.tenancy.caller import OPERATOR
from duetime.timer import Kind, Status
from tests.engine.conftest import CLAIM_FOR, Node
from tests.waiting import settle


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
    log = await heir.service.attempts(OPERATOR, timer.id, None, 50)
    assert [(line.attempt, line.outcome.kind) for line in log] == [(1, Kind.LOST), (2, Kind.OK)]
    assert log[0].outcome.error == "its node was gone before the outcome was known"
    assert log[0].node == "node-1"
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
    log = await node.service.attempts(OPERATOR, timer.id, None, 50)
    assert [line.attempt for line in log] == [1]


@pytest.mark.parametrize("action", [model.cancel, model.pause, model.fire])
async def test_a_released_timer_can_be_changed_again(node, clock, action):
    """Handing back leaves a timer as free as before its claim."""
    timer = await node.create()
    await node.engine.dispatcher.step()
    clock.advance(CLAIM_FOR)
    await settle()
    await node.commit()
    assert action(await node.get(timer), clock.now())
