"""An action that is asked for again, because its answer was lost, is done once."""

import asyncio

import pytest

from duetime.bulk.archive import KEEP_FOR
from duetime.errors import Conflict
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR, Caller
from duetime.testing import FakeClock
from tests.api.gated import GatedStore
from tests.bulk.desk import Crash, CrashingStore, Desk, counts, put_timers, stored, under_way

HOUR = 3_600_000
LATER = 1_750_000_000_000 + 24 * HOUR

pytestmark = pytest.mark.promise("bulk-counts")


async def times(store, made) -> set[int]:
    """By how many hours the timers were put off."""
    return {(timer.execute_at - LATER) // HOUR for timer in await stored(store, made)}


async def test_the_same_key(desk: Desk):
    """The first one is answered, while it is under way and after it has ended."""
    made = await put_timers(desk.store, 9, execute_at=LATER)
    first = await desk.ask("shift", by="1h", key="k")
    assert await desk.ask("shift", by="1h", key="k") == first
    await desk.work()
    done = await desk.ask("shift", by="1h", key="k")
    assert (done.id, done.state, counts(done)) == (first.id, "done", (9, 9, 0, 0))
    await desk.work()
    assert await times(desk.store, made) == {1}
    assert [each.id for each in await desk.service.actions.of(OPERATOR)] == [first.id]


async def test_other_keys_and_none(desk: Desk):
    """Each key is an action of its own, and so is each request without one."""
    made = await put_timers(desk.store, 5, execute_at=LATER)
    for key in ("a", "b", None, None):
        await desk.ask("shift", by="1h", key=key)
    await desk.ask("shift", by="1h", key="a", caller=Caller("another"))
    await desk.work()
    assert await times(desk.store, made) == {4}


@pytest.mark.parametrize("has_ended", [False, True])
async def test_other_content(desk: Desk, *, has_ended: bool):
    """It is refused."""
    await desk.ask("shift", by="1h", key="k")
    if has_ended:
        await desk.work()
    for verb, more in (
        ("shift", {"by": "2h"}),
        ("shift", {"by": "1h", "dry_run": True}),
        ("cancel", {}),
        ("shift", {"by": "1h", "wanted": {"tags": ["a"]}}),
    ):
        with pytest.raises(Conflict, match="Idempotency-Key: was given with other content"):
            await desk.ask(verb, key="k", **more)


@pytest.mark.promise("tenants-apart")
async def test_who_sees_other_groups_has_other_keys(desk: Desk):
    """Nobody is told by a refusal that one of another group has used the same one."""
    made = [
        *await put_timers(desk.store, 3, execute_at=LATER, group="g"),
        *await put_timers(desk.store, 3, execute_at=LATER, group="h"),
    ]
    asked = []
    for groups in ({"g"}, {"h"}, {"g", "h"}, None):
        who = Caller("default", groups=None if groups is None else frozenset(groups))
        asked.append(await desk.ask("shift", by="1h", key="k", caller=who))
        assert (await desk.ask("shift", by="1h", key="k", caller=who)).id == asked[-1].id
    assert len({action.id for action in asked}) == 4
    await desk.work()
    assert await times(desk.store, made) == {3}


async def test_how_it_is_written_does_not_matter(desk: Desk):
    """Content is what is said."""
    first = await desk.ask("update", key="k", update={"name": "a", "tags": ["b"]})
    again = await desk.ask("update", key="k", update={"tags": ["b"], "name": "a"})
    assert again.id == first.id


async def test_a_repeat_that_would_be_refused_by_now(desk: Desk, clock: FakeClock):
    """What was accepted stays so, though its time has passed and twenty others are under way."""
    body = {"update": {"execute_at": "2025-06-15T16:00:00Z"}}
    first = await desk.ask("update", key="k", **body)
    for _ in range(19):
        await desk.ask("cancel")
    clock.advance(48 * HOUR)
    assert (await desk.ask("update", key="k", **body)).id == first.id


async def test_two_at_once(store, clock: FakeClock):
    """On two nodes at the same time, whoever comes first."""
    made = await put_timers(store, 5, execute_at=LATER)
    gated = GatedStore(store, "put_record")
    one, other = Desk(gated, clock), Desk(store, clock)
    asking = asyncio.create_task(one.ask("shift", by="1h", key="k"))
    await gated.begun.acquire()  # it found none, and is about to write its own
    second = await other.ask("shift", by="1h", key="k")
    await other.work()
    assert (await other.see(second)).state == "done"
    gated.gate.set()
    assert (await asking).id == second.id
    for desk in (one, other):
        await desk.watch(90)
    assert await under_way(store) == []
    assert await times(store, made) == {1}


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("is_soon", [True, False])
async def test_killed_at_every_write(clock: FakeClock, how: str, *, is_soon: bool):
    """Whoever is asked again, at once or later: the timers are shifted once."""
    for at in range(1, 100):
        store = MemoryStore()
        made = await put_timers(store, 5, execute_at=LATER)
        desk, other = Desk(CrashingStore(store, at, how), clock), Desk(store, clock)
        try:
            await desk.ask("shift", by="1h", key="k")
            await desk.work()
            was_killed = False
        except Crash:
            was_killed = True
        if not is_soon:
            await other.watch(90)
        again = await other.ask("shift", by="1h", key="k")
        await other.watch(15)
        await other.work()
        assert await under_way(store) == [], at
        assert await times(store, made) == {1}, at
        assert counts(await other.see(again)) == (5, 5, 0, 0), at
        if not was_killed:
            break
    assert at > 8


async def test_a_key_is_free_again_when_its_action_is_forgotten(desk: Desk, clock: FakeClock):
    """After thirty days, also before anybody has tidied up."""
    first = await desk.ask("cancel", key="k")
    await desk.work()
    clock.advance(KEEP_FOR)
    second = await desk.ask("cancel", key="k")
    assert second.id != first.id
    await desk.service.actions._clerk.step()
    while await under_way(desk.store):
        await desk.service.actions._clerk.step()
    assert [each.id for each in await desk.service.actions.of(OPERATOR)] == [second.id]


async def test_what_has_a_key_can_be_canceled(desk: Desk):
    """As any other."""
    await put_timers(desk.store, 20)
    action = await desk.ask("cancel", key="k")
    await desk.step()
    await desk.service.actions.cancel(OPERATOR, action.id)
    await desk.work()
    assert (await desk.see(action)).state == "canceled"
