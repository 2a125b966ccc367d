"""An action whose process is killed at each of its writes in turn: the count is right, each timer
is changed once.
"""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from duetime import model
from duetime.errors import StoreUnavailable
from duetime.stores import Change
from duetime.stores.memory import MemoryStore
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import FakeClock, FlakyStore
from duetime.timer import Status
from tests.bulk.desk import Crash, CrashingStore, Desk, counts, put_timers, stored, under_way
from tests.factories import claimed, insert, make_timer

HOUR = 3_600_000
LATER = 1_750_000_000_000 + 24 * HOUR
TIMERS = 10  # three batches

pytestmark = [pytest.mark.slow, pytest.mark.promise("bulk-counts")]


def shifted(before, after):
    return (
        after is not None
        and after.execute_at == before.execute_at + HOUR
        and after.version == before.version + 1
    )


def canceled(before, after):
    return after.status is Status.CANCELED and after.version == before.version + 1


def renamed(before, after):
    return after.spec.name == "other" and after.version == before.version + 1


VERBS: dict[str, tuple[dict[str, Any], Callable]] = {
    "shift": ({"by": "1h"}, shifted),
    "cancel": ({}, canceled),
    "update": ({"update": {"name": "other"}}, renamed),
    "delete": ({}, lambda before, after: after is None),
}


@pytest.fixture(params=["memory", "sqlite"])
async def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Callable]:
    """Makes as many stores as a test wants."""
    made = []

    async def make():
        store = MemoryStore()
        if request.param == "sqlite":
            store = SqliteStore(tmp_path / f"{len(made)}.db", synchronous="off")
        await store.migrate()
        made.append(store)
        return store

    yield make
    for store in made:
        await store.close()


async def killed_at(real, clock: FakeClock, at: int, how: str, verb: str) -> tuple[Any, bool]:
    """Ask for an action and work on it until the process is killed; tells whether it was."""
    store = CrashingStore(real, 0, how)
    desk = Desk(store, clock)
    action = await desk.ask(verb, **VERBS[verb][0])
    store.writes, store._at = 0, at
    try:
        await desk.work()
    except Crash:
        return action, True
    return action, False


@pytest.mark.parametrize("how", ["before", "after", "half way"])
@pytest.mark.parametrize("verb", list(VERBS))
async def test_killed_at_every_write(make_store, verb: str, how: str):
    """Whoever takes it up afterwards ends it as if nothing had happened."""
    kills = 0
    for at in range(1, 100):
        real, clock = await make_store(), FakeClock()
        made = await put_timers(real, TIMERS, execute_at=LATER)
        busy = claimed(make_timer(created_at=1_749_000_000_003, execute_at=LATER))
        await insert(real, busy)
        action, was_killed = await killed_at(real, clock, at, how, verb)
        if was_killed:
            kills += 1
            other = Desk(real, clock)
            await other.take_over()
        done = await Desk(real, clock).see(action)
        assert done.state == "done", at
        assert counts(done) == (TIMERS + 1, TIMERS, 1, 0), at
        after = await stored(real, made)
        assert all(map(VERBS[verb][1], made, after)), at
        assert await stored(real, [busy]) == [busy]
        assert await under_way(real) == []
        if not was_killed:
            break
    assert kills >= 9  # a look, three batches of two writes each, the end, the audit, the archive


@pytest.mark.parametrize("how", ["before", "after", "half way"])
async def test_killed_twice(make_store, how: str):
    """One who takes it up may be killed as well, at any of its writes."""
    for at in range(1, 100):
        real, clock = await make_store(), FakeClock()
        made = await put_timers(real, TIMERS, execute_at=LATER)
        action, was_killed = await killed_at(real, clock, 5, "half way", "shift")
        assert was_killed
        second = Desk(CrashingStore(real, at, how), clock)
        try:
            await second.take_over()
            was_killed = False
        except Crash:
            await Desk(real, clock).take_over()
        done = await Desk(real, clock).see(action)
        assert counts(done) == (TIMERS, TIMERS, 0, 0), at
        assert all(map(shifted, made, await stored(real, made))), at
        if not was_killed:
            break
    assert at > 5


@pytest.mark.parametrize("how", ["before", "after"])
async def test_a_store_that_fails(make_store, how: str):
    """A node whose store fails for a while goes on by itself, and counts right."""
    for at in range(1, 40):
        real, clock = await make_store(), FakeClock()
        store = FlakyStore(real)
        made = await put_timers(real, TIMERS, execute_at=LATER)
        desk = Desk(store, clock)
        action = await desk.ask("shift", by="1h")
        store.calls.clear()
        has_failed = False
        for _ in range(100):
            store.failing = how if len(store.calls) >= at and not has_failed else None
            was_failing = store.failing
            try:
                await desk.step()
            except StoreUnavailable:
                has_failed = True
            assert was_failing is None or has_failed
            if (await Desk(real, clock).see(action)).has_ended and not await under_way(real):
                break
        assert counts(await Desk(real, clock).see(action)) == (TIMERS, TIMERS, 0, 0), at
        assert all(map(shifted, made, await stored(real, made))), at
        if not has_failed:
            break
    assert at > 5


async def test_two_actions_on_the_same_timers(make_store):
    """Each knows what it has done, though the other one has changed the same timers since."""
    real, clock = await make_store(), FakeClock()
    made = await put_timers(real, 4, execute_at=LATER)
    store = CrashingStore(real, 0, "after")
    first = Desk(store, clock)
    one = await first.ask("shift", by="1h")
    store.writes, store._at = 0, 3
    with pytest.raises(Crash, match="apply"):
        await first.work()  # it has shifted them, and nobody knows
    second = Desk(real, clock)
    two = await second.ask("shift", by="1h")
    await second.work()
    found = await stored(real, made)
    assert {timer.execute_at for timer in found} == {LATER + 2 * HOUR}
    await second.take_over()
    assert counts(await second.see(one)) == counts(await second.see(two)) == (4, 4, 0, 0)
    assert await stored(real, made) == found  # and not shifted once more


async def test_what_others_change_meanwhile(make_store):
    """Timers that a user or the engine changed after the action did are counted, and left alone."""
    real, clock = await make_store(), FakeClock()
    made = await put_timers(real, 4, execute_at=LATER)
    action, was_killed = await killed_at(real, clock, 3, "after", "shift")
    assert was_killed
    desk = Desk(real, clock)
    caller = action.caller
    await desk.service.fire(caller, made[0].id)
    await desk.service.cancel(caller, made[1].id)
    [third] = await stored(real, made[2:3])
    await real.apply([Change(third, model.claim(third, "n", clock.now(), 1_000))])
    found = await stored(real, made)
    await desk.take_over()
    assert counts(await desk.see(action)) == (4, 4, 0, 0)
    assert await stored(real, made) == found
