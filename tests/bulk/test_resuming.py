"""Groups that are resumed: what fell due while they were paused is fired, or not, by their rule."""

import pytest

from duetime.bulk import resuming
from duetime.bulk.resuming import MOST_CANDIDATES
from duetime.errors import Conflict, NotFound
from duetime.requests import UpdateTimer
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR, Caller
from duetime.tenancy.requests import PutGroup
from duetime.tenancy.role import Role
from duetime.testing import FakeClock
from duetime.timer import Status
from tests.bulk.desk import Crash, CrashingStore, Desk, counts, put_timers, stored, under_way
from tests.bulk.paused_group import MINUTE, TIMERS, PausedGroup
from tests.factories import insert, make_spec, make_timer


@pytest.mark.parametrize("rule", ["all", "latest", "none"])
async def test_rules(store, clock: FakeClock, rule: str):
    """All that fell due fire, or the one that was due last, or none; the others are canceled."""
    group = await PausedGroup(store, clock, rule).make()
    resumed = await group.desk.service.resume_group(OPERATOR, "g")
    assert resumed.resuming is not None
    await group.desk.work()
    assert await group.outcome() == group.expected()
    [action] = await group.desk.service.actions.of(OPERATOR)
    assert counts(action) == (TIMERS + 1, TIMERS + 1, 0, 0)
    after = await group.desk.service.groups.get(OPERATOR, "g")
    assert (after.is_paused, after.resuming) == (False, None)
    skipped = [t for t in await stored(store, group.caught) if t.status is Status.CANCELED]
    assert {t.progress.last_error for t in skipped} <= {"its group was paused when it was due"}


@pytest.mark.parametrize("is_asleep", [True, False])
@pytest.mark.parametrize("rule", ["latest", "none"])
async def test_a_story_is_told_whatever_the_rule(store, clock: FakeClock, rule, is_asleep):
    """It is neither canceled, nor the one that was due last."""
    group = await PausedGroup(store, clock, rule).make()
    due = group.paused_at + 30 * MINUTE + TIMERS * MINUTE
    story = make_timer(group="g", execute_at=due, spec=make_spec(tells_of=group.early.id))
    await insert(store, story)
    if is_asleep:
        await group.hold(story)
    resumed = await group.desk.service.resume_group(OPERATOR, "g")
    if not is_asleep:
        assert not resumed.holds(story)
    await group.desk.work()
    assert await group.outcome() == group.expected()
    [told] = await stored(store, [story])
    assert (told.status, told.wake_at) == (Status.PENDING, due)


@pytest.mark.promise("bulk-counts")
@pytest.mark.parametrize("how", ["before", "after", "half way"])
@pytest.mark.parametrize("rule", ["all", "latest", "none"])
async def test_killed_at_every_write(clock: FakeClock, rule: str, how: str):
    """From the first write of the resume to the last: others bring it to the same end."""
    for at in range(1, 100):
        store = MemoryStore()
        group = await PausedGroup(store, clock, rule).make()
        crashing = Desk(CrashingStore(store, at, how), clock)
        try:
            await crashing.service.resume_group(OPERATOR, "g")
            await crashing.work()
            was_killed = False
        except Crash:
            was_killed = True
        other = Desk(store, clock)
        for _ in range(30):  # also one that nobody has let begin
            clock.advance(3_000)
            await other.step()
        await other.work()
        assert await under_way(store) == []
        if (await other.service.groups.get(OPERATOR, "g")).is_paused:
            resumed = await other.service.resume_group(OPERATOR, "g")  # it was never resumed
            assert resumed.resuming is not None
            await other.work()
        assert await group.outcome() == group.expected(), at
        after = await other.service.groups.get(OPERATOR, "g")
        assert (after.is_paused, after.resuming) == (False, None)
        if not was_killed:
            break
    assert at > 10


@pytest.mark.parametrize("last", [1, 4, 10])
async def test_the_latest_that_can_still_fire(store, clock: FakeClock, last: int):
    """Not one whose deadline has passed: then nothing would fire."""
    deadline = dict.fromkeys(range(last + 1, TIMERS + 1), MINUTE).get
    group = await PausedGroup(store, clock, "latest", deadline).make()
    [group.latest] = [
        each for each in group.caught if each.execute_at - group.paused_at == last * MINUTE
    ]
    await group.desk.service.resume_group(OPERATOR, "g")
    await group.desk.work()
    assert await group.outcome() == group.expected()


async def test_none_of_them_can_still_fire(store, clock: FakeClock):
    """All are canceled, and the action comes to its end."""
    group = await PausedGroup(store, clock, "latest", lambda _minute: MINUTE).make()
    await group.desk.service.resume_group(OPERATOR, "g")
    await group.desk.work()
    assert {each.status for each in await stored(store, group.caught)} == {Status.CANCELED}
    [action] = await group.desk.service.actions.of(OPERATOR)
    assert (action.state, counts(action)) == ("done", (TIMERS + 1, TIMERS + 1, 0, 0))


@pytest.mark.parametrize("most", [2, 3, MOST_CANDIDATES])
@pytest.mark.parametrize("minutes", [0, 3, 8, 30])
async def test_deadlines_that_pass_meanwhile(
    store, clock: FakeClock, monkeypatch, minutes: int, most: int
):
    """The action may take long: the latest is chosen of those that can be fired when it ends."""
    monkeypatch.setattr(resuming, "MOST_CANDIDATES", most)
    # The one of minute 10 can be fired for a minute yet, that of 9 for two, and the first for ever.
    left = {minute: 60 * MINUTE + (11 - 2 * minute) * MINUTE for minute in range(2, TIMERS + 1)}
    group = await PausedGroup(store, clock, "latest", left.get).make()
    await group.desk.service.resume_group(OPERATOR, "g")
    while not any(action.has_seen_all for action in await under_way(store)):
        await group.desk.step()
    assert len((await under_way(store))[0].candidates) == min(most, TIMERS)  # records are small
    clock.advance(minutes * MINUTE)
    await group.desk.work()
    in_time = [
        each
        for each in group.caught
        if each.spec.deadline is None or clock.now() <= each.execute_at + each.spec.deadline
    ]
    fired = [each for each in await stored(store, group.caught) if each.status is Status.PENDING]
    assert len(fired) == 1
    assert fired[0].id in {each.id for each in in_time}
    if most == MOST_CANDIDATES:
        assert fired[0].id == max(in_time, key=lambda each: each.execute_at).id
    [action] = await group.desk.service.actions.of(OPERATOR)
    assert counts(action) == (TIMERS + 1, TIMERS + 1, 0, 0)


@pytest.mark.parametrize("how", ["cancel", "pause", "update"])
@pytest.mark.parametrize("count", [1, resuming.RUNNERS_UP])
async def test_the_latest_are_canceled_meanwhile(store, clock: FakeClock, count: int, how: str):
    """Or wait for something else: the next of them is fired, and the others are canceled."""
    group = await PausedGroup(store, clock, "latest").make()
    await group.desk.service.resume_group(OPERATOR, "g")
    while not any(action.has_seen_all for action in await under_way(store)):
        await group.desk.step()
    by_time = sorted(group.caught, key=lambda timer: timer.execute_at, reverse=True)
    for timer in by_time[:count]:
        change = getattr(group.desk.service, how)
        more = [UpdateTimer(delay="5h")] if how == "update" else []
        await change(OPERATOR, timer.id, *more)
    await group.desk.work()
    found = await stored(store, by_time)
    assert [timer.wake_at for timer in found[count:]] == [by_time[count].execute_at] + [None] * (
        TIMERS - count - 1
    )
    assert {timer.status.value for timer in found[:count]} == {
        {"cancel": "canceled", "pause": "paused", "update": "pending"}[how]
    }


async def test_what_was_let_go_is_held_no_more(store, clock: FakeClock):
    """A timer that the action has seen to may start, though the group is still being resumed."""
    group = await PausedGroup(store, clock, "all").make()
    resumed = await group.desk.service.resume_group(OPERATOR, "g")
    before = await stored(store, group.caught)
    assert all(resumed.holds(timer) for timer in before)
    await group.desk.work()
    assert not any(resumed.holds(timer) for timer in await stored(store, group.caught))


async def test_a_group_that_is_not_paused(desk: Desk):
    """It cannot be resumed, and no action is left behind."""
    await desk.service.groups.put(OPERATOR, "g", PutGroup())
    with pytest.raises(Conflict, match="it is not paused"):
        await desk.service.resume_group(OPERATOR, "g")
    assert await under_way(desk.store) == []


async def test_it_cannot_be_canceled(store, clock: FakeClock):
    """Timers would be held that nobody lets go."""
    group = await PausedGroup(store, clock, "all").make()
    resumed = await group.desk.service.resume_group(OPERATOR, "g")
    with pytest.raises(Conflict, match="must be done to its end"):
        await group.desk.service.actions.cancel(OPERATOR, resumed.resuming)


async def test_deleting_a_group(desk: Desk):
    """Refused while timers are to come; with cancel, they are canceled first."""
    service = desk.service
    await service.groups.put(OPERATOR, "g", PutGroup())
    made = await put_timers(desk.store, 9, group="g")
    with pytest.raises(Conflict, match="9 of its timers are still to come"):
        await service.delete_group(OPERATOR, "g", cancel=False)
    action = await service.delete_group(OPERATOR, "g", cancel=True)
    assert action is not None  # nobody works on it yet
    assert [group.name for group in await service.groups.list(OPERATOR)] == ["default", "g"]
    await desk.work()
    assert {timer.status for timer in await stored(desk.store, made)} == {Status.CANCELED}
    assert [group.name for group in await service.groups.list(OPERATOR)] == ["default"]
    await service.groups.put(OPERATOR, "g", PutGroup())
    assert await service.delete_group(OPERATOR, "g", cancel=False) is None


@pytest.mark.parametrize("how", ["before", "after"])
async def test_deleting_a_group_is_killed(clock: FakeClock, how: str):
    """Whoever takes the action up deletes the group as well, once."""
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
            await Desk(store, clock).take_over()
        groups = await Desk(store, clock).service.groups.list(OPERATOR)
        assert [group.name for group in groups] == ["default"], at
        if not was_killed:
            break
    assert at > 8


async def test_who_may_see_only_the_group_sees_its_actions(desk: Desk):
    """Those whose keys are for the group, and nobody whose keys are for others."""
    service = desk.service
    mine, theirs = (
        Caller("default", Role.ADMIN, name, groups=frozenset({name})) for name in ("g", "h")
    )
    both = Caller("default", Role.ADMIN, "both", groups=frozenset({"g", "h"}))
    await service.groups.put(OPERATOR, "g", PutGroup())
    await service.groups.pause(OPERATOR, "g")
    resumed = await service.resume_group(mine, "g")
    await put_timers(desk.store, 3, group="g")
    deleted = await service.delete_group(both, "g", cancel=True)
    for id_ in (resumed.resuming, deleted.id):
        for caller in (mine, both, OPERATOR):
            assert (await service.actions.get(caller, id_)).id == id_
        with pytest.raises(NotFound):
            await service.actions.get(theirs, id_)


async def test_the_default_group(desk: Desk):
    """It is always there."""
    with pytest.raises(Conflict, match="always there"):
        await desk.service.delete_group(OPERATOR, "default", cancel=True)
