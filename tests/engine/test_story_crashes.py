"""Each failure is told once, whatever happens on the way."""

import logging
from typing import Any

import pytest
from msgspec.structs import replace

from duetime import failures
from duetime.errors import StoreUnavailable
from duetime.stores import Change
from duetime.tenancy.caller import OPERATOR
from duetime.timer import Status
from tests.engine.telling import (
    MINUTE,
    TOLD,
    all_timers,
    other_content,
    refusing,
    told_in,
    turn,
)
from tests.factories import insert, make_timer

pytestmark = pytest.mark.promise("never-lost")


async def test_another_node_tells_what_was_left(node, clock, store):
    """A node that dies when the failure is written leaves a row that is found again."""
    refusing(node)
    timer = await node.create(on_failure=TOLD)
    await node.turn()
    assert (await node.get(timer)).wake_at is not None
    other = type(node)(store, clock, "node-2")
    await turn(other)
    assert len(told_in(other)) == 1
    await turn(node)
    assert told_in(node) == []


@pytest.mark.parametrize("at", ["get", "attempts", "insert", "apply"])
@pytest.mark.parametrize("how", ["before", "after"])
async def test_no_failure_of_the_store_makes_two_of_it(node, clock, store, at, how):
    """Wherever it fails on the way, before or after its write: tried again, it is told once."""
    refusing(node)
    timer = await node.create(on_failure=TOLD)
    await node.turn()
    await node.engine.dispatcher.step()
    real, calls = getattr(store.store, at), []

    async def failing(*args: Any, **named: Any) -> Any:
        calls.append(at)
        if how == "after":
            await real(*args, **named)
        raise StoreUnavailable("as told")

    setattr(store.store, at, failing)
    with pytest.raises(StoreUnavailable):
        await node.service.stories.step()
    setattr(store.store, at, real)
    assert calls
    await turn(node)
    other = type(node)(store, clock, "node-2")
    await turn(other)
    assert len(told_in(node) + told_in(other)) == 1
    stories = [each for each in await all_timers(node) if each.spec.tells_of]
    assert [each.id for each in stories] == [(await node.get(timer)).progress.story]


@pytest.mark.parametrize("at", ["insert", "apply"])
async def test_a_crash_on_the_way_makes_no_second_one(node, clock, store, at):
    """Killed after either write, whoever comes next finds what is there, and ends it."""
    refusing(node)
    timer = await node.create(on_failure=TOLD)
    await node.turn()
    await node.engine.dispatcher.step()
    real = getattr(store.store, at)

    async def dying(*args: Any, **named: Any) -> Any:
        await real(*args, **named)
        raise KeyboardInterrupt

    setattr(store.store, at, dying)
    with pytest.raises(KeyboardInterrupt):
        await node.service.stories.step()
    setattr(store.store, at, real)
    heirs = [type(node)(store, clock, f"heir-{number}") for number in range(2)]
    for heir in heirs:
        await turn(heir)
    assert sum(len(told_in(heir)) for heir in heirs) == 1
    assert (await node.get(timer)).wake_at is None


async def test_two_nodes_at_once(node, clock, store):
    """Both come across it: one story is made, and both rest."""
    refusing(node)
    timer = await node.create(on_failure=TOLD)
    await node.turn()
    other = type(node)(store, clock, "node-2")
    await other.engine.reader.step()
    await node.engine.dispatcher.step()
    await other.engine.dispatcher.step()
    assert len(node.engine.failures) == len(other.engine.failures) == 1
    real = store.store.insert

    async def slow(*args: Any) -> Any:
        store.store.insert = real
        await other.service.stories.step()  # it overtakes, after this one has looked
        return await real(*args)

    store.store.insert = slow
    await node.service.stories.step()
    stories = [each for each in await all_timers(node) if each.spec.tells_of]
    assert len(stories) == 1
    assert (await node.get(timer)).progress.story == stories[0].id
    assert len(node.engine.failures) == len(other.engine.failures) == 0


async def test_who_was_redriven_before_it_was_told(node, clock):
    """The redrive wins: what is tried again is not told, unless it fails again."""
    refusing(node)
    timer = await node.create(on_failure=TOLD)
    await node.turn()
    await node.engine.dispatcher.step()
    await node.service.redrive(OPERATOR, timer.id)
    await node.service.stories.step()
    assert [each for each in await all_timers(node) if each.spec.tells_of] == []
    await turn(node)
    [told] = told_in(node)
    assert [each["attempt"] for each in told["attempts"]] == [1, 2]


async def test_there_is_room_for_so_many(node, clock, monkeypatch):
    """What finds no room stays awake, and is told when there is."""
    monkeypatch.setattr(failures, "MOST", 2)
    refusing(node)
    for _ in range(5):
        await node.create(on_failure=TOLD)
    await node.turn()
    await node.engine.dispatcher.step()
    assert len(node.engine.failures) == 2
    for _ in range(5):
        clock.advance(1_000)
        await turn(node)
    assert len(told_in(node)) == 5


async def test_who_fails_again_while_it_is_told_is_not_forgotten():
    """What was told is the older version of it; the newer one waits on."""
    waiting = failures.Failures()
    old = make_timer(status=Status.FAILED)
    new = replace(old, version=old.version + 3)
    waiting.add(old)
    waiting.add(new)
    waiting.add(old)
    [failure] = waiting.first(9)
    assert failure.version == new.version
    waiting.forget(failure._replace(version=old.version))
    assert waiting.has(new.id, new.version)
    waiting.forget(failure)
    assert (len(waiting), waiting.has(new.id, new.version)) == (0, False)


async def test_heavy_ones_are_read_a_few_at_a_time(monkeypatch):
    """What is read at once is bounded in bytes; one alone may be heavier."""
    monkeypatch.setattr(failures, "PORTION", 5_000)
    waiting = failures.Failures()
    for _ in range(5):
        waiting.add(make_timer(status=Status.FAILED))
    assert len(waiting.first(100)) == 2
    monkeypatch.setattr(failures, "PORTION", 1)
    assert len(waiting.first(100)) == 1


async def test_without_room_the_reader_does_not_spin(node, clock, monkeypatch):
    """What cannot be taken is left to a later look, and not read again and again."""
    monkeypatch.setattr(failures, "MOST", 2)
    refusing(node)
    for _ in range(5):
        await node.create(on_failure=TOLD)
    await node.turn()
    await node.engine.dispatcher.step()
    clock.advance(2_000)
    assert await node.engine.reader.step() > 0
    assert len(node.engine.agenda) == 0


async def test_a_failed_row_of_which_nobody_is_to_be_told_is_put_to_sleep(node, clock, caplog):
    """One that is awake for no reason does not stay so, and harms nothing."""
    odd = make_timer(status=Status.FAILED, wake_at=clock.now())
    await insert(node.store, odd)
    with caplog.at_level(logging.WARNING):
        await turn(node)
    assert (await node.get(odd)).wake_at is None
    assert node.sent == []
    assert caplog.records == []


async def test_a_change_that_came_first_wins(node, clock, store):
    """New content under its key, written while its story was being made, is not put to sleep."""
    refusing(node)
    timer = await node.create(timer_id="k", on_failure=TOLD)
    await node.turn()
    await node.engine.dispatcher.step()
    real = store.store.apply

    async def overtaken(changes: list[Change]) -> list[bool]:
        store.store.apply = real
        await node.service.put(OPERATOR, other_content(delay="1h"))
        return await real(changes)

    store.store.apply = overtaken
    await node.service.stories.step()
    now = await node.get(timer)
    assert (now.status, now.wake_at) == (Status.PENDING, clock.now() + 60 * MINUTE)
