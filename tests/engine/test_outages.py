"""A store that fails for a minute loses nothing, starts nothing twice, and is told of once."""

import asyncio
import contextlib
import logging

import msgspec
import pytest
from msgspec.structs import replace

from duetime.engine.committer import Claim
from duetime.errors import StoreError, StoreUnavailable
from duetime.requests import UpdateTimer
from duetime.tenancy.caller import OPERATOR
from duetime.timer import Kind, Outcome, Status
from tests.engine.conftest import CLAIM_FOR, Node
from tests.factories import claimed, make_timer
from tests.waiting import settle

WHEN = ["before", "after"]


async def passes(node: Node, count: int = 1) -> None:
    """Passes in which any part may fail, as the loops would make them."""
    for _ in range(count):
        for step in (
            node.engine.reader.step,
            node.engine.dispatcher.step,
            node.engine.committer.step,
        ):
            with contextlib.suppress(StoreError):
                await step()
            await settle()


@pytest.mark.promise("one-node-per-attempt")
@pytest.mark.parametrize("failing", WHEN)
async def test_a_claim_whose_write_failed_is_sent_once(node, store, clock, failing):
    """Whether the claim landed is looked up, not guessed."""
    timers = [await node.create(delay="1s") for _ in range(50)]
    await node.engine.reader.step()
    clock.advance(1_000)
    store.failing = failing
    await passes(node, 5)
    assert node.sent == []
    store.failing = None
    clock.advance(2_000)
    await passes(node, 3)
    assert sorted(node.sent) == sorted((timer.id, 1) for timer in timers)
    for timer in timers:
        assert (await node.get(timer)).status is Status.COMPLETED


@pytest.mark.promise("own-number")
@pytest.mark.parametrize("failing", WHEN)
async def test_a_stale_copy_whose_claim_failed_is_not_sent(node, store, clock, failing):
    """What looks like a claim that landed unheard may be an earlier one that is under way."""
    timer = await node.create()
    node.sender.hold = asyncio.Event()
    await node.dispatch()
    assert node.sent == [(timer.id, 1)]
    node.engine.agenda.put(timer, clock.now())  # as it was read before the claim
    store.failing = failing
    with pytest.raises(StoreError):
        await node.dispatch()
    store.failing = None
    node.sender.hold.set()
    for _ in range(3):
        await node.turn()
    assert node.sent == [(timer.id, 1)]
    assert node.engine.targets.under_way == 0


@pytest.mark.parametrize(
    "other",
    [
        {"version": 3},
        {"status": Status.PENDING},
        {"claimed_by": "node-2"},
        {"attempt": 2},
        {"occurrence": 2},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_claim_has_landed_if_the_row_is_just_that(other):
    """A row that differs in one of these was written by somebody else, or holds something else."""
    stored = claimed(make_timer())
    claim = Claim(timer=stored, holds_until=1.0)
    assert claim.is_as_stored(stored)
    row = {name: value for name, value in other.items() if hasattr(stored, name)}
    progress = {name: value for name, value in other.items() if name not in row}
    different = replace(stored, **row, progress=replace(stored.progress, **progress))
    assert not claim.is_as_stored(different)
    assert claim.is_same_attempt(different) == ("version" in other)  # it was renewed


@pytest.mark.promise("own-number")
@pytest.mark.parametrize("newer_first", [True, False])
async def test_of_two_versions_in_one_batch_the_old_one_is_not_sent(
    node, store, clock, *, newer_first
):
    """The claim of the newer one landed unheard: what looks like it is not the older one's."""
    old = await node.create()
    callback = {"type": "http", "url": "https://new.example/"}
    body = msgspec.convert({"callback": callback}, UpdateTimer)
    new = await node.service.update(OPERATOR, old.id, body)
    node.engine.agenda.forget(old.id)
    begun = [("a", old), ("b", new)]
    for name, timer in begun:
        assert node.engine.targets.begin(name, timer)
    store.failing = "after"
    with pytest.raises(StoreError):
        await node.engine.dispatcher._claim(begun[::-1] if newer_first else begun, clock.now())
    store.failing = None
    await passes(node, 3)
    assert [timer.spec.callback.url for timer in node.sender.sent] == ["https://new.example/"]
    assert node.engine.targets.under_way == 0


async def test_a_timer_that_is_being_claimed_is_in_hand(node, store, clock):
    """It is not read again meanwhile, though its row is still as it was."""
    timer = await node.create()
    apply = store.apply

    async def look_meanwhile(changes):
        await node.engine.reader.step()
        assert timer.id not in node.engine.agenda
        return await apply(changes)

    store.apply = look_meanwhile
    await node.dispatch()
    assert node.sent == [(timer.id, 1)]


@pytest.mark.promise("failing-store")
@pytest.mark.parametrize("failing", WHEN)
async def test_an_outcome_whose_write_failed_is_written_later(node, store, clock, failing):
    """The store is away for a minute; the receiver is called once, and the outcome is kept."""
    timers = [await node.create() for _ in range(50)]
    await node.dispatch()
    store.failing = failing
    for _ in range(60):
        await passes(node)
        clock.advance(1_000)
    store.failing = None
    await passes(node, 3)
    assert sorted(node.sent) == sorted((timer.id, 1) for timer in timers)
    for timer in timers:
        stored = await node.get(timer)
        assert stored.status is Status.COMPLETED
        assert stored.progress.attempt == 1


async def test_a_retry_whose_write_was_not_heard_needs_no_poll(node, store, clock):
    """What landed is looked up, goes onto the agenda, and is not written a second time."""
    policy = {"max_attempts": 2, "initial_interval": "1s", "jitter": 0}
    timer = await node.create(retry_policy=policy)
    node.sender.answers.append(Outcome(kind=Kind.HTTP, status_code=500, retryable=True))
    await node.dispatch()
    store.failing = "after"
    with pytest.raises(StoreError):
        await node.commit()
    store.failing = None
    store.calls.clear()
    await node.commit()
    assert "apply" not in store.calls
    assert len(node.engine.committer) == 0
    clock.advance(1_000)
    await node.dispatch()
    assert node.sent == [(timer.id, 1), (timer.id, 2)]


@pytest.mark.parametrize("failing", WHEN)
async def test_a_slow_attempt_survives_an_outage_in_its_middle(node, store, clock, failing):
    """A renewal that failed, or landed unheard, does not cost the outcome."""
    timer = await node.create()
    node.sender.hold = asyncio.Event()
    await node.dispatch()
    clock.advance(CLAIM_FOR * 3 // 4)
    store.failing = failing
    await passes(node, 3)
    node.sender.hold.set()
    await settle()
    await passes(node, 3)
    store.failing = None
    await passes(node, 3)
    assert node.sent == [(timer.id, 1)]
    assert (await node.get(timer)).status is Status.COMPLETED


@pytest.mark.promise("failing-store")
@pytest.mark.parametrize("failing", WHEN)
async def test_an_outage_under_all_loops(node, store, clock, caplog, failing):
    """The whole engine, a minute without its store: all fire once, and the log says it once."""
    caplog.set_level(logging.INFO, logger="duetime.engine")
    engine = asyncio.create_task(node.engine.run())
    await settle()
    timers = [await node.create(delay=f"{n * 100}ms") for n in range(100)]
    clock.advance(2_000)
    await settle()
    store.failing = failing
    for _ in range(600):
        clock.advance(100)
        await settle()
    store.failing = None
    for _ in range(100):
        clock.advance(100)
        await settle()
    stopping = asyncio.create_task(node.engine.stop(1))
    await settle()
    await stopping
    await engine
    # A claim that landed unheard and ran out in the outage is never sent: its timer then is
    # sent with the next attempt number. Either way the receiver is called once.
    assert sorted(id_ for id_, _ in node.sent) == sorted(timer.id for timer in timers)
    assert [(await node.get(timer)).status for timer in timers] == [Status.COMPLETED] * 100
    failing_lines = [line for line in caplog.messages if "the store is failing" in line]
    well_lines = [line for line in caplog.messages if "all is well again" in line]
    assert len(failing_lines) == 1
    assert len(well_lines) == 1


async def test_an_unexpected_error_in_a_part_is_logged_once_and_outlived(node, clock, caplog):
    """A bug in one pass does not end the engine."""
    calls = 0
    due = node.store.store.due

    async def broken(*args):
        nonlocal calls
        calls += 1
        if calls <= 5:
            raise ZeroDivisionError
        return await due(*args)

    node.store.store.due = broken
    engine = asyncio.create_task(node.engine.run())
    timer = await node.create(delay="30s")
    for _ in range(400):
        clock.advance(100)
        await settle()
    assert node.sent == [(timer.id, 1)]
    assert len([line for line in caplog.messages if "reader failed" in line]) == 1
    stopping = asyncio.create_task(node.engine.stop(1))
    await settle()
    await stopping
    await engine


@pytest.mark.parametrize("is_ahead_failing", [False, True])
async def test_what_comes_up_is_read_though_what_is_late_cannot_be(
    node, store, clock, is_ahead_failing
):
    """A part of the store that fails makes nothing late but what lies in it, and it is told."""
    writer = Node(store, clock, "node-2")
    late, coming = await writer.create(), await writer.create(delay="3s")
    clock.advance(1_000)
    due = store.store.due

    async def failing_behind(shards, after, before, limit):
        if before <= clock.now() or is_ahead_failing:
            raise StoreUnavailable("too much of it is dead")
        return await due(shards, after, before, limit)

    store.store.due = failing_behind
    with pytest.raises(StoreUnavailable):
        await node.engine.reader.step()
    assert (coming.id in node.engine.agenda) is not is_ahead_failing
    assert late.id not in node.engine.agenda
    store.store.due = due
    await node.engine.reader.step()
    assert coming.id in node.engine.agenda
    assert late.id in node.engine.agenda
