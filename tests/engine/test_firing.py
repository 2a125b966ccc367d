"""When timers start, and when they do not."""

import asyncio
from types import SimpleNamespace

import pytest

from duetime import model
from duetime.engine import committer as committers
from duetime.engine.claim import Claim
from duetime.engine.committer import GATHER_FOR, Committer
from duetime.engine.lease import Lease
from duetime.errors import IllegalTransition
from duetime.requests import UpdateTimer
from duetime.stores import Change
from duetime.tenancy.caller import OPERATOR
from duetime.timer import DEFAULT_TENANT, Kind, Outcome, Status
from tests.engine.conftest import CLAIM_FOR
from tests.factories import claim_of, insert, make_timer
from tests.waiting import settle

TENANT = DEFAULT_TENANT
SENT = Outcome(kind=Kind.OK, status_code=200)


@pytest.mark.promise("never-early")
async def test_a_timer_fires_when_its_time_has_come_and_not_a_millisecond_before(node, clock):
    """A timer is sent in the very millisecond that it was asked for, and not before."""
    timer = await node.create(delay="500ms")
    clock.advance(499)
    await node.turn()
    assert node.sent == []
    clock.advance(1)
    await node.turn()
    assert node.sent == [(timer.id, 1)]
    assert (await node.get(timer)).status is Status.COMPLETED


async def test_a_new_timer_needs_no_poll(node, clock):
    """What this node writes goes straight onto its agenda."""
    await node.engine.reader.step()
    timer = await node.create(delay="50ms")
    clock.advance(50)
    await node.dispatch()
    assert node.sent == [(timer.id, 1)]


@pytest.mark.promise("late-fires")
async def test_what_fell_due_while_nobody_read_is_found_at_once(node, clock, store):
    """A reader that stood still for longer than it reads ahead finds it in its first pass."""
    await node.engine.reader.step()
    timer = make_timer(execute_at=clock.now() + 8_000)
    await insert(store, timer)  # by another node, whose news got lost
    clock.advance(9_000)
    await node.engine.reader.step()
    assert timer.id in node.engine.agenda


@pytest.mark.parametrize(("delay", "pause"), [("300ms", 0.3), ("4s", 1.0)])
async def test_it_sleeps_until_the_next_timer_but_never_for_long(node, delay, pause):
    """The wall clock may be set meanwhile, and says nothing of that."""
    assert await node.engine.dispatcher.step() == 1.0
    await node.create(delay=delay)
    assert await node.engine.dispatcher.step() == pause


async def test_it_does_not_sleep_while_something_is_due(node, clock):
    """A batch is bounded; what did not fit into it is next."""
    for _ in range(501):
        await node.create(delay="1s")
    clock.advance(2_000)
    await node.engine.reader.step()
    assert await node.engine.dispatcher.step() == 0


@pytest.mark.promise("never-lost")
async def test_a_timer_written_while_the_reader_reads_is_not_missed(node, clock, store):
    """A timer that is written into the stretch being read is noticed, and fires in time."""
    await node.engine.reader.step()
    clock.advance(1_000)
    original = store.store.due

    async def due_and_meanwhile_a_create(*args):
        rows = await original(*args)
        store.store.due = original
        await node.create(timer_id="meanwhile", delay="4900ms")
        return rows

    store.store.due = due_and_meanwhile_a_create
    await node.engine.reader._read_ahead(clock.now(), node.engine.members.shards)
    clock.advance(4_900)
    await node.dispatch()
    assert [timer.timer_id for timer in node.sender.sent] == ["meanwhile"]


@pytest.mark.promise("cancel-holds")
async def test_a_canceled_timer_never_starts(node, clock):
    """Once a cancel is acknowledged, nothing is sent: the engine is told, and forgets the timer."""
    timer = await node.create(delay="1s")
    await node.engine.reader.step()
    await node.service.cancel(OPERATOR, timer.id)
    clock.advance(1_000)
    await node.turn()
    assert node.sent == []


@pytest.mark.promise("cancel-holds")
async def test_a_cancel_that_the_engine_was_not_told_of_still_wins(node, clock, store):
    """An agenda that is out of date loses the race for the claim."""
    timer = await node.create(delay="1s")
    await node.engine.reader.step()
    await store.apply([Change(timer, model.cancel(timer, clock.now()))])
    clock.advance(1_000)
    await node.turn()
    assert node.sent == []
    assert (await node.get(timer)).status is Status.CANCELED


@pytest.mark.promise("cancel-holds")
async def test_a_timer_under_way_cannot_be_canceled(node):
    """A cancel that comes too late is refused, not ignored."""
    timer = await node.create()
    await node.engine.dispatcher.step()
    with pytest.raises(IllegalTransition, match="cannot cancel timer with status 'executing'"):
        await node.service.cancel(OPERATOR, timer.id)


@pytest.mark.promise("cancel-holds")
@pytest.mark.parametrize(("delay", "changed"), [("1s", "3s"), ("4s", "3s")])
async def test_an_update_moves_the_start(node, clock, delay, changed):
    """Only the new time counts after an update, be it later than the old one or earlier."""
    timer = await node.create(delay=delay)
    await node.engine.reader.step()
    await node.service.update(OPERATOR, timer.id, UpdateTimer(delay=changed))
    clock.advance(2_999)
    await node.turn()
    assert node.sent == []
    clock.advance(1)
    await node.turn()
    assert node.sent == [(timer.id, 1)]
    clock.advance(1_000)  # past both
    await node.turn()
    assert node.sent == [(timer.id, 1)]


@pytest.mark.promise("cancel-holds", "late-fires")
async def test_a_paused_timer_waits_and_fires_late_after_resume(node, clock):
    """Pausing holds a timer back past its time; resuming makes it due at once."""
    timer = await node.create(delay="1s")
    await node.service.pause(OPERATOR, timer.id)
    clock.advance(5_000)
    await node.turn()
    assert node.sent == []
    await node.service.resume(OPERATOR, timer.id)
    await node.turn()
    assert node.sent == [(timer.id, 1)]


async def test_fire_starts_a_waiting_timer_now(node):
    """Firing by hand needs no waiting."""
    timer = await node.create(delay="3d")
    await node.service.fire(OPERATOR, timer.id)
    await node.dispatch()
    assert node.sent == [(timer.id, 1)]


@pytest.mark.promise("late-fires")
async def test_a_timer_past_its_deadline_is_failed_and_not_sent(node, clock):
    """The deadline is a delay after execute_at beyond which nothing starts."""
    timer = await node.create(delay="1s", deadline="2s")
    clock.advance(3_001)
    await node.turn()
    stored = await node.get(timer)
    assert node.sent == []
    assert stored.status is Status.FAILED
    assert stored.progress.last_error == "deadline passed"


@pytest.mark.promise("late-fires")
async def test_a_timer_at_its_deadline_is_still_sent(node, clock):
    """The deadline itself is not too late."""
    timer = await node.create(delay="1s", deadline="2s")
    clock.advance(3_000)
    await node.turn()
    assert node.sent == [(timer.id, 1)]


@pytest.mark.promise("never-early")
async def test_a_wall_clock_that_is_set_back_delays_and_does_not_spin(node, clock):
    """A clock that is set back counts: the dispatcher sleeps until the time has come by it."""
    timer = await node.create(delay="1s")
    await node.engine.reader.step()
    clock.step_wall_clock(-60_000)
    clock.advance(1_000)
    pause = await node.engine.dispatcher.step()
    assert node.sent == []
    assert pause > 0.5
    clock.advance(60_000)
    await node.turn()
    assert node.sent == [(timer.id, 1)]


async def test_after_the_wall_clock_was_set_far_back_new_timers_are_still_read(node, clock, store):
    """The reader's place in time follows the clock back."""
    await node.engine.reader.step()
    clock.step_wall_clock(-3_600_000)
    await node.engine.reader.step()
    timer = await node.create(delay="30s")
    clock.advance(29_000)
    await node.turn()
    clock.advance(1_000)
    await node.dispatch()
    assert node.sent == [(timer.id, 1)]


async def test_a_wall_clock_that_is_set_forward_fires_by_the_new_time(node, clock):
    """What is due by the new time starts at the next pass."""
    timer = await node.create(delay="1h")
    clock.step_wall_clock(3_600_000)
    await node.turn()
    assert node.sent == [(timer.id, 1)]


@pytest.mark.promise("late-fires")
async def test_late_timers_fire_oldest_first(store, clock):
    """A backlog is worked off in the order in which it was due."""
    from tests.engine.conftest import Node  # noqa: PLC0415 - only this test makes its own

    before = Node(store, clock)
    timers = [await before.create(delay=f"{seconds}s") for seconds in (5, 1, 3, 2, 4)]
    clock.advance(60_000)
    after = Node(store, clock, "node-2")
    await after.turn()
    due = sorted(timers, key=lambda timer: timer.execute_at)
    assert after.sent == [(timer.id, 1) for timer in due]


async def test_half_a_batch_of_outcomes_waits_for_no_more(store, clock, monkeypatch):
    """A few gather for a moment; more than fit into one write are written in turn, at once."""
    monkeypatch.setattr(committers, "LARGEST", 4)
    monkeypatch.setattr(committers, "ENOUGH", 2)
    wakes, written = [], []
    committer = Committer(
        store,
        clock,
        claim_for=CLAIM_FOR,
        members=SimpleNamespace(lease=Lease()),
        on_written=written.append,
        wake=lambda: wakes.append(clock.monotonic()),
    )
    changes = [claim_of(make_timer()) for _ in range(6)]
    await insert(store, *(change.old for change in changes))
    assert await store.apply(changes) == [True] * 6
    claims = [Claim(timer=change.new, holds_until=clock.monotonic() + 10) for change in changes]
    for claim in claims:
        committer.hold(claim)
    assert committer._gathering() == 0
    committer.end([claims[0]], SENT)
    assert abs(committer._gathering() - GATHER_FOR) < 0.001
    assert len(wakes) == 1
    for claim in claims[1:]:
        committer.end([claim], SENT)
        assert committer._gathering() == 0
    assert len(wakes) == 2
    assert await committer.step() == 0
    assert len(written) == 4
    assert 0 < await committer.step() <= CLAIM_FOR / 4000  # claims are looked at before half-time
    assert {timer.status for timer in written} == {Status.COMPLETED}
    assert len(written) == 6


async def test_outcomes_that_come_together_are_written_together(node, store, clock):
    """Nobody waits for this write, and a fuller one costs hardly more than a small one."""
    engine = asyncio.create_task(node.engine.run())
    await settle()
    timers = [await node.create() for _ in range(5)]
    await settle()
    assert len(node.sent) == 5
    store.calls.clear()
    clock.advance(10)
    await settle()
    assert "apply" not in store.calls
    clock.advance(11)
    await settle()
    assert store.calls.count("apply") == 1
    assert {(await node.get(timer)).status for timer in timers} == {Status.COMPLETED}
    stopping = asyncio.create_task(node.engine.stop(1))
    await settle()
    await stopping
    await engine
