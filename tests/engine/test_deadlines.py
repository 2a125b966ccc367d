"""Deadlines: nothing starts too late, however that came about, and the timer says so."""

import pytest

from duetime.requests import UpdateTimer
from duetime.tenancy.caller import OPERATOR
from duetime.tenancy.requests import PutGroup
from duetime.timer import Kind, Outcome, Status
from tests.engine.conftest import CLAIM_FOR
from tests.waiting import settle

SECOND, MINUTE = 1_000, 60_000
RETRIES = {"max_attempts": 5, "initial_interval": "10s", "jitter": 0.0}
DOWN = Outcome(kind=Kind.HTTP, status_code=503, error="HTTP 503", retryable=True)


async def assert_failed(node, timer, why, *, sent: int):
    failed = await node.get(timer)
    assert (failed.status, failed.wake_at) == (Status.FAILED, None)
    assert failed.progress.last_error == why
    assert len(node.sent) == sent
    assert failed.executed_at == node.clock.now()


async def test_late_because_the_service_was_down(node, clock):
    """A timer that nobody could start in time is failed by whoever comes across it, unsent."""
    timer = await node.create(delay="1m", deadline="30s")
    clock.advance(10 * MINUTE)
    later = type(node)(node.store, clock, "node-2")
    await later.turn()
    await assert_failed(later, timer, "deadline passed", sent=0)


async def test_a_retry_is_not_waited_for_that_would_come_too_late(node, clock):
    """It fails at once, and names what failed last; its log says that nothing comes after it."""
    timer = await node.create(deadline="25s", retry_policy=RETRIES)
    node.sender.answer = DOWN
    await node.turn()
    assert (await node.get(timer)).status is Status.PENDING
    clock.advance(10 * SECOND)
    await node.turn()  # the next one would start after twenty seconds more
    why = "deadline passed; the attempt before failed: HTTP 503"
    await assert_failed(node, timer, why, sent=2)
    log = await node.service.attempts(OPERATOR, timer.id, None, 10)
    assert [each.next_at is None for each in log] == [False, True]
    assert log[-1].outcome.error == "HTTP 503"


@pytest.mark.parametrize("deadline", ["10s", "9999ms"])
async def test_a_retry_at_its_deadline_still_starts(node, clock, deadline):
    """Its last moment is in time, and one before it is not."""
    timer = await node.create(deadline=deadline, retry_policy=RETRIES)
    node.sender.answers.append(DOWN)
    await node.turn()
    clock.advance(10 * SECOND)
    await node.turn()
    is_in_time = deadline == "10s"
    assert (await node.get(timer)).status is (Status.COMPLETED if is_in_time else Status.FAILED)
    assert len(node.sent) == 1 + is_in_time


async def test_what_a_receiver_asks_for_counts_as_well(node):
    """A Retry-After that leads beyond the deadline ends it."""
    timer = await node.create(deadline="1m", retry_policy=RETRIES)
    later = Outcome(
        kind=Kind.HTTP,
        status_code=429,
        error="HTTP 429",
        retryable=True,
        retry_at=node.clock.now() + 2 * MINUTE,
    )
    node.sender.answer = later
    await node.turn()
    why = "deadline passed; the attempt before failed: HTTP 429"
    await assert_failed(node, timer, why, sent=1)


async def test_a_retry_that_was_late_when_the_service_came_back(node, clock):
    """It says that the deadline has passed, and what its last attempt had failed of."""
    timer = await node.create(deadline="25s", retry_policy=RETRIES)
    node.sender.answers.append(DOWN)
    await node.turn()
    clock.advance(10 * MINUTE)
    await node.turn()
    why = "deadline passed; the attempt before failed: HTTP 503"
    await assert_failed(node, timer, why, sent=1)


async def test_resumed_from_a_pause(node, clock):
    """Who was paused past the deadline is failed when it goes on."""
    timer = await node.create(delay="1m", deadline="30s")
    await node.service.pause(OPERATOR, timer.id)
    clock.advance(10 * MINUTE)
    await node.service.resume(OPERATOR, timer.id)
    await node.turn()
    await assert_failed(node, timer, "deadline passed", sent=0)


async def test_held_by_its_group(node, clock):
    """Who was held past the deadline is failed when its group goes on, and not before."""
    await node.service.groups.put(OPERATOR, "g", PutGroup())
    timer = await node.create(group="g", delay="1s", deadline="30s")
    await node.service.groups.pause(OPERATOR, "g")
    clock.advance(10 * SECOND)
    await node.turn()
    clock.advance(10 * MINUTE)
    assert (await node.get(timer)).status is Status.PENDING
    await node.service.resume_group(OPERATOR, "g")
    for _ in range(5):
        await node.service.actions.step()
        await settle()
        clock.advance(SECOND)
    await node.turn()
    failed = await node.get(timer)
    assert (failed.status, failed.progress.last_error) == (Status.FAILED, "deadline passed")
    assert (failed.progress.held_since, node.sent) == (None, [])


async def test_redriven(node, clock):
    """A redrive is not too late: the deadline counts from then on, and holds again."""
    timer = await node.create(delay="1m", deadline="30s", retry_policy=RETRIES)
    clock.advance(10 * MINUTE)
    await node.turn()
    await node.service.redrive(OPERATOR, timer.id)
    node.sender.answer = DOWN
    await node.turn()
    assert (await node.get(timer)).status is Status.PENDING
    clock.advance(10 * SECOND)
    await node.turn()  # 20 s more would be right at the deadline
    clock.advance(20 * SECOND)
    await node.turn()
    why = "deadline passed; the attempt before failed: HTTP 503"
    await assert_failed(node, timer, why, sent=3)


async def test_fired_by_hand(node, clock):
    """Whoever fires it means now, and is obeyed."""
    timer = await node.create(delay="1m", deadline="30s")
    await node.service.pause(OPERATOR, timer.id)
    clock.advance(10 * MINUTE)
    await node.service.fire(OPERATOR, timer.id)
    await node.turn()
    assert (await node.get(timer)).status is Status.COMPLETED


async def test_an_attempt_that_was_lost_is_not_taken_up_too_late(node, clock, store):
    """A dead node's attempt is followed by none after the deadline; the log has the lost one."""
    timer = await node.create(deadline="5s", retry_policy=RETRIES)
    await node.engine.reader.step()
    await node.engine.dispatcher.step()  # and then it is killed
    clock.advance(CLAIM_FOR + 1)
    other = type(node)(store, clock, "node-2")
    await other.turn()
    why = "deadline passed; the attempt before it was lost with its node"
    await assert_failed(other, timer, why, sent=0)
    [lost] = await node.service.attempts(OPERATOR, timer.id, None, 10)
    assert (lost.outcome.kind, lost.next_at) == (Kind.LOST, None)


async def test_an_update_of_a_retry_may_give_it_more_time(node, clock):
    """The deadline is what it is when the next attempt would start."""
    timer = await node.create(deadline="25s", retry_policy=RETRIES)
    node.sender.answers += [DOWN, DOWN]
    await node.turn()
    await node.service.update(OPERATOR, timer.id, UpdateTimer(deadline="1h"))
    for pause in (10, 20):
        clock.advance(pause * SECOND)
        await node.turn()
    assert (await node.get(timer)).status is Status.COMPLETED
