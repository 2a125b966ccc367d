"""Limits of callbacks: so many at once, so many per second, and nobody else waits for it."""

import asyncio
import math

import pytest

from duetime import model
from duetime.stores import Change
from duetime.timer import Kind, Outcome, Status
from tests.engine.conftest import running
from tests.engine.limits import Watched, limit_group, limit_target, limit_tenant, to
from tests.waiting import settle

pytestmark = pytest.mark.promise("limits-hold")

TARGET = "a.example:443"


async def due(node, clock, count, **fields):
    """So many timers that are due now."""
    timers = [await node.create(delay="1s", **fields) for _ in range(count)]
    await node.engine.reader.step()
    clock.advance(1_000)
    return timers


async def step_to(node, clock, seconds):
    """Let time pass, and the dispatcher make a pass at each moment that it asked for."""
    until = clock.monotonic() + seconds
    while True:
        pause = await node.engine.dispatcher.step()
        await settle()
        await node.commit()
        if clock.monotonic() >= until - 1e-6:
            return
        clock.advance(math.ceil(round(1000 * min(pause, until - clock.monotonic()), 6)))


async def test_a_rate_is_kept_to_the_millisecond(node, clock):
    """A group of 10 a second with 100 due: five at once, and then one every tenth of a second."""
    await limit_group(node, per_second=10, burst=5)
    watched = Watched(node)
    await due(node, clock, 100)
    start, passes = clock.monotonic(), 0
    while len(watched.at) < 100:
        pause = await node.engine.dispatcher.step()
        await settle()
        passes += 1
        clock.advance(round(1000 * pause))
    expected = [0.0] * 5 + [number / 10 for number in range(1, 96)]
    assert [at - start for at in watched.at] == pytest.approx(expected)
    assert passes <= 97


async def test_a_burst_is_as_many_as_come_in_a_second_if_nobody_says_otherwise(node, clock):
    """And after a rest it may be so many again, but no more."""
    await limit_group(node, per_second=6)
    await due(node, clock, 10)
    await node.turn()
    assert len(node.sent) == 6
    await step_to(node, clock, 60.0)
    await due(node, clock, 10)
    await node.turn()
    assert len(node.sent) == 10 + 6


async def test_a_running_engine_sleeps_until_the_next_token(node, clock):
    """It makes a pass for each token, and hardly any besides."""
    await limit_group(node, per_second=10, burst=1)
    watched = Watched(node)
    engine = await running(node)
    await due(node, clock, 100)
    await settle()
    next_waiting, passes = node.engine.targets.next_waiting, []

    def counted(limit):
        passes.append(clock.monotonic())
        return next_waiting(limit)

    node.engine.targets.next_waiting = counted
    began, start = len(watched.at), clock.monotonic()
    for _ in range(2_000):
        clock.advance(1)
        await settle(8)
    assert len(watched.at) - began in (19, 20)
    gaps = [later - at for at, later in zip(watched.at, watched.at[1:], strict=False)]
    assert min(gaps) > 0.099
    assert start < passes[0]
    assert len(passes) < 20 + 20  # outcomes and heartbeats wake it too
    stopping = asyncio.create_task(node.engine.stop(1))
    await settle()
    clock.advance(2_000)
    await settle()
    await stopping
    await engine


@pytest.mark.parametrize("receivers", [1, 30])
async def test_no_more_are_under_way_than_allowed(node, clock, receivers):
    """However many receivers there are, and however many of these could be claimed ahead."""
    await limit_group(node, concurrency=5)
    watched = Watched(node)
    timers = [
        await node.create(delay="1s", callback=to(number % receivers)) for number in range(60)
    ]
    clock.advance(1_000)
    for _ in range(40):
        await node.turn()
        assert node.engine.targets.under_way <= 5
        executing = [t for t in timers if (await node.get(t)).status is Status.EXECUTING]
        assert len(executing) <= 5
    assert len(node.sent) == 60
    assert watched.most <= 5


async def test_those_that_wait_go_on_when_one_has_ended(node, clock):
    """A place that a limit has set free is used at once, without the clock."""
    await limit_group(node, concurrency=1)
    watched = Watched(node)
    watched.release.clear()
    engine = await running(node)
    for _ in range(5):
        await node.create()
    await settle()
    assert len(watched.at) == 1
    watched.release.set()
    for _ in range(10):
        await settle()
    assert (len(watched.at), watched.most) == (5, 1)
    stopping = asyncio.create_task(node.engine.stop(1))
    await settle()
    await stopping
    await engine


async def test_a_limited_group_stands_in_nobodys_way(node, clock):
    """Another group of the same tenant calls the same receiver as if it were not there."""
    await limit_group(node, "slow", per_second=0.01, burst=1)
    await due(node, clock, 300, group="slow")
    await node.turn()
    others = await due(node, clock, 20)
    for _ in range(5):
        await node.turn()
    assert len(node.sent) == 21
    assert {id_ for id_, _ in node.sent} >= {timer.id for timer in others}


async def test_target_group_and_tenant_must_all_allow_it(node, clock):
    """The tightest of the three decides, whichever that is."""
    await limit_target(node, TARGET, per_second=1, burst=3)
    await limit_group(node, per_second=1, burst=5)
    await limit_tenant(node, per_second=1, burst=7)
    await due(node, clock, 10)
    await node.turn()
    assert len(node.sent) == 3
    await due(node, clock, 10, callback=to(1))  # another receiver; a second has passed
    await node.turn()
    assert len(node.sent) == 6
    clock.advance(100)
    await due(node, clock, 10, callback=to(2), group="other")
    await node.turn()
    assert len(node.sent) == 9


async def test_a_limit_that_is_taken_away_holds_nobody(node, clock):
    """Limits are those of the rules now, not of when a timer was made."""
    await limit_group(node, per_second=1, burst=1)
    await due(node, clock, 20)
    await node.turn()
    assert len(node.sent) == 1
    await limit_group(node)
    for _ in range(4):
        await node.turn()
    assert len(node.sent) == 20


async def test_a_limit_holds_for_what_waits_already(node, clock):
    """Also one of concurrency, for which all that is under way counts."""
    watched = Watched(node)
    watched.release.clear()
    await due(node, clock, 100)
    await node.turn()
    under_way = watched.under_way
    await limit_group(node, concurrency=2)
    watched.release.set()
    for _ in range(3):
        await settle()
        await node.turn()
        assert node.engine.targets.under_way <= 2
    assert watched.most == under_way


async def test_what_was_not_sent_costs_no_token(node, store, clock):
    """A claim that was lost gives it back: somebody else canceled them."""
    await limit_group(node, per_second=1, burst=8)
    timers = await due(node, clock, 8)
    await store.apply([Change(timer, model.cancel(timer, clock.now())) for timer in timers])
    await node.dispatch()
    assert node.sent == []
    more = [await node.create() for _ in range(8)]
    await node.dispatch()
    assert sorted(node.sent) == sorted((timer.id, 1) for timer in more)


async def test_a_retry_takes_a_token_too(node, clock):
    """Every attempt is a callback."""
    await limit_group(node, per_second=1, burst=2)
    node.sender.answer = Outcome(kind=Kind.HTTP, status_code=500, error="500", retryable=True)
    watched = Watched(node)
    policy = {"max_attempts": 5, "initial_interval": "1s", "backoff_multiplier": 1.0, "jitter": 0}
    await due(node, clock, 2, retry_policy=policy)
    await step_to(node, clock, 6.0)
    assert [attempt for _, attempt in node.sent] == [1, 1, 2, 2, 3, 3, 4]
    gaps = [later - at for at, later in zip(watched.at[2:], watched.at[3:], strict=False)]
    assert gaps == pytest.approx([1.0] * 4)


async def test_a_deadline_may_pass_while_it_waits(node, clock):
    """It is expired when its turn comes, and that costs no token."""
    await limit_group(node, per_second=1, burst=1)
    first, late, patient = [
        await node.create(delay="1s", **fields) for fields in ({}, {"deadline": "500ms"}, {})
    ]
    await node.engine.reader.step()
    clock.advance(1_000)
    await step_to(node, clock, 1.0)
    await node.turn()
    assert (await node.get(late)).status is Status.FAILED
    assert [id_ for id_, _ in node.sent] == [first.id, patient.id]


async def test_who_waits_for_limits_does_not_make_a_node_late(node, clock):
    """A node that does what its limits say is not behind."""
    await limit_group(node, per_second=1, burst=1)
    await due(node, clock, 20)
    await node.turn()
    clock.advance(500)
    assert node.engine.status().behind_ms == 0


@pytest.mark.slow
async def test_a_limited_backlog_waits_in_bounded_memory(node, clock):
    """What does not fit into its queue is a row again, and nothing is written for waiting."""
    node.engine.targets.queues.shared = 0
    await limit_group(node, per_second=100, burst=10)
    timers = await due(node, clock, 1_500)
    for _ in range(10):
        await node.turn()
    assert len(node.engine.targets.queues.versions) <= 1_000
    waiting = [t for t in timers if (await node.get(t)).version == t.version]
    assert len(waiting) == 1_500 - len(node.sent)
    for _ in range(200):
        clock.advance(100)
        await node.turn()
    assert sorted(node.sent) == sorted((timer.id, 1) for timer in timers)
