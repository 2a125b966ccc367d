"""Groups that are deleted with their timers: nothing of them is still to come after that."""

import msgspec
import pytest
from msgspec.structs import replace

from duetime import model
from duetime.bulk.emptying import LONGEST
from duetime.errors import NotFound, Unavailable
from duetime.requests import CreateTimer
from duetime.retry import RetryPolicy
from duetime.searching import MOST_PAGES
from duetime.stores import Change, Page
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.tenancy.requests import PutGroup
from duetime.testing import FakeClock
from duetime.timer import Kind, Outcome, Status
from tests.bulk.desk import Crash, CrashingStore, Desk, counts, put_timers, stored, under_way
from tests.factories import insert, make_spec, make_timer

RETRIED = Outcome(kind=Kind.TIMEOUT, error="e", retryable=True)


async def names(desk: Desk) -> list[str]:
    return [group.name for group in await desk.service.groups.list(OPERATOR)]


@pytest.fixture
async def group(desk: Desk) -> Desk:
    """A desk with a group of nine timers."""
    await desk.service.groups.put(OPERATOR, "g", PutGroup())
    await put_timers(desk.store, 9, group="g")
    return desk


async def executing(desk: Desk):
    """A timer of the group that is being delivered, with another attempt to come."""
    policy = RetryPolicy(max_attempts=3, initial_interval=60_000)
    timer = make_timer(group="g", spec=make_spec(retry_policy=policy))
    await insert(desk.store, timer)
    busy = model.claim(timer, "n", desk.clock.now(), 30_000)
    assert await desk.store.apply([Change(timer, busy)]) == [True]
    return busy


async def test_what_is_being_delivered_is_waited_for(group: Desk, clock: FakeClock):
    """And its retry is canceled; only then the group is deleted."""
    busy = await executing(group)
    action = await group.service.delete_group(OPERATOR, "g", cancel=True)
    await group.watch(60)
    assert await names(group) == ["default", "g"]
    assert counts(await group.see(action)) == (9, 9, 0, 0)
    retry = model.finish(busy, RETRIED, clock.now(), 0.5)
    assert retry.status is Status.PENDING
    assert await group.store.apply([Change(busy, retry)]) == [True]
    await group.watch(3)
    await group.work()
    assert await names(group) == ["default"]
    [after] = await stored(group.store, [busy])
    assert after.status is Status.CANCELED
    done = await group.see(action)
    assert (done.state, counts(done)) == ("done", (10, 10, 0, 0))


async def test_others_do_not_take_it_up_while_it_waits(group: Desk):
    """Its record moves; and the clerk rests between two looks."""
    await executing(group)
    other = Desk(group.store, group.clock)
    await group.service.delete_group(OPERATOR, "g", cancel=True)
    for _ in range(20):
        group.clock.advance(1_000)
        for _ in range(20):
            pause = await group.step()
        assert pause == pytest.approx(1.0, abs=0.01)
        await other.step()
        assert [each.node for each in await under_way(group.store)] == [group.name]


async def test_not_for_ever(group: Desk):
    """The group stays, and the action says why."""
    await executing(group)
    action = await group.service.delete_group(OPERATOR, "g", cancel=True)
    await group.watch(LONGEST // 1000 + 30)
    failed = await group.see(action)
    assert (failed.state, counts(failed)) == ("failed", (9, 9, 0, 0))
    assert failed.error == "group: 1 of its timers are still being delivered; it stays"
    assert await names(group) == ["default", "g"]
    assert await under_way(group.store) == []


async def test_what_is_created_meanwhile(group: Desk, clock: FakeClock):
    """It is canceled as well, also if its key was canceled before."""
    body = {
        "group": "g",
        "timer_id": "mine",
        "delay": "1h",
        "callback": {"type": "http", "url": "https://a.example/"},
    }
    mine, _ = await group.service.put(OPERATOR, msgspec.convert(body, CreateTimer))
    action = await group.service.delete_group(OPERATOR, "g", cancel=True)
    for _ in range(100):
        await group.step()
        [now] = await stored(group.store, [mine])
        if now.status is Status.CANCELED:
            break
    clock.advance(10)
    again, is_new = await group.service.put(OPERATOR, msgspec.convert(body, CreateTimer))
    assert (again.id, is_new) == (mine.id, False)
    made = await put_timers(group.store, 3, group="g", created_at=clock.now())
    await group.work()
    after = await stored(group.store, [mine, *made])
    assert {timer.status for timer in after} == {Status.CANCELED}
    assert await names(group) == ["default"]
    assert counts(await group.see(action)) == (9 + 1 + 1 + 3, 9 + 1 + 1 + 3, 0, 0)


async def test_somebody_who_never_stops(group: Desk):
    """Who creates timers again and again keeps the group, and hears of it."""
    action = await group.service.delete_group(OPERATOR, "g", cancel=True)
    while await under_way(group.store):
        await put_timers(group.store, 1, group="g", created_at=group.clock.now())
        group.clock.advance(1_000)
        await group.step()
    failed = await group.see(action)
    assert failed.error == "group: timers are created in it again and again; it stays"
    assert await names(group) == ["default", "g"]


async def test_others_who_change_the_group(group: Desk, monkeypatch):
    """As long as they do it is tried again; nothing is called done that is not."""
    real, conflicts = group.store.put_record, 0

    async def contested(old, new):
        nonlocal conflicts
        if new is not None and new.kind == "group" and b"deleted_at" in new.data and conflicts < 12:
            conflicts += 1
            return False
        return await real(old, new)

    monkeypatch.setattr(group.store, "put_record", contested)
    action = await group.service.delete_group(OPERATOR, "g", cancel=True)
    for _ in range(20):
        await group.step()
    assert (await group.see(action)).state == "running"
    assert await names(group) == ["default", "g"]
    await group.watch(15)
    await group.work()
    assert (await group.see(action)).state == "done"
    assert await names(group) == ["default"]


@pytest.mark.parametrize("how", ["before", "after"])
async def test_a_group_that_was_made_again(clock: FakeClock, how: str):
    """Whenever the process is killed: a group that is made after that is another, and stays."""
    for at in range(2, 100):
        store = MemoryStore()
        desk = Desk(CrashingStore(store, 0, how), clock)
        await desk.service.groups.put(OPERATOR, "g", PutGroup())
        await put_timers(store, 5, group="g")
        desk.store.writes, desk.store._at = 0, at
        try:
            await desk.service.delete_group(OPERATOR, "g", cancel=True)
            await desk.work()
            was_killed = False
        except Crash:
            was_killed = True
        other = Desk(store, clock)
        clock.advance(1_000)
        had_been_deleted = "g" not in await names(other)
        if had_been_deleted:
            await other.service.groups.put(OPERATOR, "g", PutGroup())
            made = await put_timers(store, 2, group="g", created_at=clock.now())
        await other.take_over()
        assert await under_way(store) == []
        assert ("g" in await names(other)) == had_been_deleted, at
        if had_been_deleted:
            assert {each.status for each in await stored(store, made)} == {Status.PENDING}, at
        if not was_killed:
            break
    assert at > 8


async def test_two_who_delete_the_same(group: Desk, clock: FakeClock):
    """The slower one leaves alone what was made after the group was gone."""
    busy = await executing(group)
    slow = Desk(group.store, clock)
    await slow.service.delete_group(OPERATOR, "g", cancel=True)
    for _ in range(20):
        await slow.step()
    await group.service.delete_group(OPERATOR, "g", cancel=True)
    assert await group.store.remove([busy]) == [True]
    await group.work()
    assert await names(group) == ["default"]
    clock.advance(1_000)
    await group.service.groups.put(OPERATOR, "g", PutGroup())
    made = await put_timers(group.store, 2, group="g", created_at=clock.now())
    await slow.watch(9)
    await slow.work()
    assert await under_way(group.store) == []
    assert await names(slow) == ["default", "g"]
    assert {each.status for each in await stored(group.store, made)} == {Status.PENDING}


async def test_more_than_can_be_looked_through(desk: Desk, monkeypatch):
    """Where a store has no index and gives up page by page: refused, as is a number of shards."""
    read = []

    async def given_up(query):
        read.append(query.after)
        return Page([], stopped_at=(len(read), "x"))

    await desk.service.groups.put(OPERATOR, "g", PutGroup())
    monkeypatch.setattr(desk.store, "search", given_up)
    monkeypatch.setattr(desk.store, "traits", replace(desk.store.traits, counts=False))
    with pytest.raises(Unavailable, match="cancel=true goes through them in the background"):
        await desk.service.delete_group(OPERATOR, "g", cancel=False)
    assert read == [None, *((place, "x") for place in range(1, MOST_PAGES))]
    with pytest.raises(Unavailable, match="num_shards: there are so many timers"):
        await desk.service.groups.put(OPERATOR, "h", PutGroup(num_shards=7))


async def test_only_the_one_that_is_meant_is_deleted(desk: Desk, clock: FakeClock):
    """Also if it is made again in the very moment between the last look and the write."""
    groups = desk.service.groups
    first, _ = await groups.put(OPERATOR, "g", PutGroup())
    await groups.delete(OPERATOR, "g", created_at=first.created_at)
    clock.advance(1)
    await groups.put(OPERATOR, "g", PutGroup())
    with pytest.raises(NotFound):
        await groups.delete(OPERATOR, "g", created_at=first.created_at)
    assert await names(desk) == ["default", "g"]
