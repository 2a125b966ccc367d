"""A receiver that is followed asks to be called again, and is, within limits."""

import pytest

from duetime import counting
from duetime.requests import UpdateTimer
from duetime.tenancy.caller import OPERATOR
from duetime.timer import Kind, Outcome, Status

SECOND, MINUTE, DAY = 1_000, 60_000, 86_400_000
RETRIES = {"max_attempts": 3, "initial_interval": "10s", "jitter": 0.0}
DOWN = Outcome(kind=Kind.HTTP, status_code=503, error="HTTP 503", retryable=True)


def again(at: int) -> Outcome:
    return Outcome(kind=Kind.OK, status_code=200, latency_ms=1, again_at=at)


async def attempts_of(node, timer):
    log = await node.service.attempts(OPERATOR, timer.id, None, 100)
    return [(each.occurrence, each.attempt, each.outcome.kind, each.next_at) for each in log]


@pytest.mark.promise("never-early")
async def test_it_is_called_again_at_the_time_that_it_named(node, clock):
    """Not a millisecond before, as another occurrence that the receiver takes for no repeat."""
    timer = await node.create(retry_policy=RETRIES)
    at = clock.now() + MINUTE
    node.sender.answers += [again(at), again(at + MINUTE)]
    await node.turn()
    waiting = await node.get(timer)
    assert (waiting.status, waiting.execute_at, waiting.wake_at) == (Status.PENDING, at, at)
    assert (waiting.progress.occurrence, waiting.progress.attempt) == (2, 0)
    assert (waiting.progress.last_error, waiting.executed_at) == (None, None)
    clock.advance(MINUTE - 1)
    await node.turn()
    assert len(node.sent) == 1
    clock.advance(1)
    await node.turn()
    clock.advance(MINUTE)
    await node.turn()
    assert [sent.webhook_id for sent in node.sender.sent] == [f"{timer.id}-{n}" for n in (1, 2, 3)]
    assert node.sent == [(timer.id, 1)] * 3
    done = await node.get(timer)
    assert (done.status, done.progress.occurrence) == (Status.COMPLETED, 3)
    assert await attempts_of(node, timer) == [
        (1, 1, Kind.OK, at),
        (2, 1, Kind.OK, at + MINUTE),
        (3, 1, Kind.OK, None),
    ]


async def test_attempts_start_over(node, clock):
    """Each time it has its whole retry policy, and its deadline from then on."""
    timer = await node.create(retry_policy=RETRIES, deadline="1m")
    at = clock.now() + DAY
    node.sender.answers += [DOWN, again(at)]
    await node.turn()
    clock.advance(10 * SECOND)
    await node.turn()
    clock.advance(DAY)
    node.sender.answer = DOWN
    for pause in (0, 10, 20):
        clock.advance(pause * SECOND)
        await node.turn()
    failed = await node.get(timer)
    assert (failed.status, failed.progress.last_error) == (Status.FAILED, "HTTP 503")
    assert node.sent == [(timer.id, number) for number in (1, 2, 1, 2, 3)]


async def test_it_survives_its_node(node, clock):
    """What was asked for is a row like any other: another node calls then."""
    timer = await node.create()
    node.sender.answers.append(again(clock.now() + DAY))
    await node.turn()
    other = type(node)(node.store, clock, "node-2")
    clock.advance(DAY)
    await other.turn()
    assert other.sent == [(timer.id, 1)]
    assert other.sender.sent[0].progress.occurrence == 2


async def test_it_cannot_go_on_for_ever(node, clock, monkeypatch):
    """After so many times in a row the timer has failed, and says why; its log says the same."""
    monkeypatch.setattr(counting, "MOST_AGAIN", 3)
    timer = await node.create(retry_policy=RETRIES)
    for _ in range(10):
        node.sender.answer = again(clock.now() + SECOND)
        await node.turn()
        clock.advance(SECOND)
    assert len(node.sent) == 4
    failed = await node.get(timer)
    assert failed.status is Status.FAILED
    why = "the receiver asked to be called again 3 times in a row"
    assert failed.progress.last_error == why
    [*_, last] = await node.service.attempts(OPERATOR, timer.id, None, 100)
    assert (last.outcome.kind, last.outcome.error, last.next_at) == (Kind.HTTP, why, None)
    assert last.outcome == failed.progress.outcome


async def test_the_limit_is_the_documented_one():
    """A thousand times."""
    assert counting.MOST_AGAIN == 1_000


async def test_a_failure_in_between_does_not_begin_the_count_anew(node, clock, monkeypatch):
    """A receiver that fails now and then cannot spin for ever either; a redrive can begin anew."""
    monkeypatch.setattr(counting, "MOST_AGAIN", 2)
    timer = await node.create(retry_policy=RETRIES)
    soon = again(clock.now() + SECOND)
    node.sender.answers += [soon, DOWN, soon, DOWN, soon]
    for _ in range(5):
        await node.turn()
        clock.advance(MINUTE)
    assert (await node.get(timer)).status is Status.FAILED
    redriven = await node.service.redrive(OPERATOR, timer.id)
    assert redriven.progress.again == 0


async def test_what_waits_for_its_next_time_can_be_changed(node, clock):
    """It is canceled, updated and fired like any timer that waits."""
    canceled, updated, fired = [await node.create() for _ in range(3)]
    node.sender.answer = again(clock.now() + DAY)
    await node.turn()
    node.sender.answer = Outcome(kind=Kind.OK, status_code=200)
    await node.service.cancel(OPERATOR, canceled.id)
    await node.service.update(OPERATOR, updated.id, UpdateTimer(delay="1h"))
    await node.service.fire(OPERATOR, fired.id)
    await node.turn()
    assert [id_ for id_, _ in node.sent[3:]] == [fired.id]
    clock.advance(60 * MINUTE)
    await node.turn()
    assert [id_ for id_, _ in node.sent[4:]] == [updated.id]
    clock.advance(2 * DAY)
    await node.turn()
    assert len(node.sent) == 5
    assert (await node.get(canceled)).status is Status.CANCELED
