"""Groups whose resume was lost half way: an answer, a write, or the action itself."""

from typing import Any

import pytest

from duetime.errors import Conflict, StoreUnavailable, Unanswered
from duetime.model import HOLD_FOR
from duetime.stores import Record
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.tenancy.obedience import Watch
from duetime.testing import FakeClock
from tests.bulk.desk import Desk, FailingStore, stored, under_way
from tests.bulk.paused_group import MINUTE, PausedGroup
from tests.factories import insert, make_timer

pytestmark = pytest.mark.promise("group-pause-holds")


class LateStore:
    """A store in which the write of a group is under way for long, and still lands."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.traits = store.traits
        self.late: tuple[Record | None, Record | None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def put_record(self, old: Record | None, new: Record | None) -> bool:
        if new is not None and new.kind == "group" and self.late is None:
            self.late = old, new
            raise Unanswered("it is under way, as told")
        return await self.store.put_record(old, new)

    async def land(self) -> bool:
        assert self.late is not None
        return await self.store.put_record(*self.late)


class BrokenStore:
    """A store whose driver has an error that nobody has thought of."""

    def __init__(self, store: Any, method: str) -> None:
        self.store = store
        self.traits = store.traits
        self.is_broken = False
        self._method = method

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)
        if name != self._method or not self.is_broken:
            return method

        async def call(*args: Any) -> Any:
            # A record can still be written that says so, and be taken up.
            if name == "put_record" and (args[1] is None or b"cursor" not in args[1].data):
                return await method(*args)
            raise ZeroDivisionError

        return call


async def is_resumed(store: Any, clock: FakeClock) -> bool:
    """Tell whether the group is resumed and nothing is left to do, as a new node sees it."""
    group = await Desk(store, clock).service.groups.get(OPERATOR, "g")
    return (group.is_paused, group.resuming) == (False, None)


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("rule", ["all", "latest", "none"])
async def test_each_write_fails_once(clock: FakeClock, rule: str, how: str):
    """The same node brings it to the right end, whichever write of the resume has failed."""
    for at in range(1, 100):
        store = MemoryStore()
        group = await PausedGroup(store, clock, rule).make()
        failing = FailingStore(store, 0, how)
        desk = Desk(failing, clock)
        await desk.service.groups.get(OPERATOR, "g")
        failing.writes, failing._at = 0, at
        has_failed = False
        try:
            await desk.service.resume_group(OPERATOR, "g")
        except StoreUnavailable:
            has_failed = True
        failing._at = 0
        await desk.watch(90)
        await desk.work()
        assert await under_way(store) == [], at
        if not await is_resumed(store, clock):
            assert (await Desk(store, clock).service.groups.get(OPERATOR, "g")).is_paused, at
            await desk.service.resume_group(OPERATOR, "g")  # it never was
            await desk.work()
        assert await is_resumed(store, clock), at
        assert await group.outcome() == group.expected(), at
        if not has_failed:
            break
    assert at > 4


async def test_a_write_that_lands_late(store, clock: FakeClock):
    """The action is long gone when the group names it: it is made anew."""
    group = await PausedGroup(store, clock, "latest").make()
    late = LateStore(store)
    desk = Desk(late, clock)
    with pytest.raises(Unanswered):
        await desk.service.resume_group(OPERATOR, "g")
    await desk.watch(90)
    assert await under_way(store) == []
    assert await late.land()
    other = Desk(store, clock)
    await other.service.rules.look()
    for node in (desk, other):  # whoever sees it first
        await node.watch(66)
        await node.service.rules.look()
    await other.work()
    assert await under_way(store) == []
    assert await is_resumed(store, clock)
    assert await group.outcome() == group.expected()


async def test_a_write_that_lands_while_its_action_waits(store, clock: FakeClock):
    """Nothing is dropped as long as the write may land."""
    group = await PausedGroup(store, clock, "none").make()
    late = LateStore(store)
    desk = Desk(late, clock)
    with pytest.raises(Unanswered):
        await desk.service.resume_group(OPERATOR, "g")
    assert [action.state for action in await under_way(store)] == ["prepared"]
    await late.land()
    await desk.watch(66)
    await desk.work()
    assert await is_resumed(store, clock)
    assert await group.outcome() == group.expected()


async def test_what_others_still_do_is_not_made_anew(store, clock: FakeClock):
    """An action of another node that has just ended is gone for good, though the news are late."""
    group = await PausedGroup(store, clock, "all").make()
    desk, other = Desk(store, clock), Desk(store, clock)
    await desk.service.resume_group(OPERATOR, "g")
    await other.service.rules.look()
    await desk.work()
    assert other.service.rules.groups.find("default/g").resuming is not None  # it believes
    await other.watch(9)
    assert await under_way(store) == []
    [action] = await other.service.actions.of(OPERATOR)
    assert action.state == "done"
    assert await group.outcome() == group.expected()


async def test_a_refused_resume_leaves_nothing_behind(store, clock: FakeClock):
    """When the store has said that nothing was written, the action is dropped at once."""
    group = await PausedGroup(store, clock, "all").make()
    real = group.desk.service.groups.resumed

    async def raced(*args: Any) -> Any:
        await Desk(store, clock).service.resume_group(OPERATOR, "g")
        return await real(*args)

    group.desk.service.groups.resumed = raced
    with pytest.raises(Conflict):
        await group.desk.service.resume_group(OPERATOR, "g")
    assert len(await under_way(store)) == 1


async def test_what_a_node_held_that_had_not_heard_of_it(store, clock: FakeClock, monkeypatch):
    """Timers that were put to sleep after the resume, and created after it, are let go as well."""
    group = await PausedGroup(store, clock, "none").make()
    behind = []
    real = Watch.until_all_obey

    async def slow(*args: Any) -> bool:
        resumed_at = clock.now()
        for millis in (0, 1, 1_500):  # also one whose clock is ahead
            made = make_timer(
                group="g", created_at=resumed_at + millis + 100, execute_at=resumed_at + millis
            )
            await insert(store, made)
            behind.append(made)
        clock.advance(1_000)
        await group.hold(*behind)
        return await real(*args)

    monkeypatch.setattr(Watch, "until_all_obey", slow)
    await group.desk.service.resume_group(OPERATOR, "g")
    await group.desk.work()
    assert await group.outcome() == group.expected()
    after = [(timer.status.value, timer.wake_at) for timer in await stored(store, behind)]
    assert after == [("pending", timer.execute_at) for timer in behind]
    assert all(wake_at < clock.now() + HOLD_FOR - MINUTE for _, wake_at in after)


@pytest.mark.parametrize("write", ["apply", "search", "put_record"])
@pytest.mark.parametrize("rule", ["all", "latest", "none"])
async def test_an_action_that_fails_is_tried_again(clock: FakeClock, rule: str, write: str):
    """Whatever it failed of, and however often; until then the group is not resumed for good."""
    store = MemoryStore()
    group = await PausedGroup(store, clock, rule).make()
    broken = BrokenStore(store, write)
    desk, other = Desk(broken, clock), Desk(store, clock)
    await desk.service.resume_group(OPERATOR, "g")
    broken.is_broken = True
    await desk.work()
    await desk.watch(60)
    [action] = await under_way(store)
    assert (action.state, action.node) == ("running", None)
    assert action.error == "unexpected error: ZeroDivisionError; it is tried again"
    assert action.troubles > 1
    assert not await is_resumed(store, clock)
    await other.watch(60)
    await other.work()
    assert await under_way(store) == []
    assert await is_resumed(store, clock)
    assert await group.outcome() == group.expected()
    [ended] = await other.service.actions.of(OPERATOR)
    assert (ended.state, ended.error) == ("done", None)
    assert ended.tally.changed == ended.tally.matched == len(group.caught) + 1


async def test_a_timer_that_keeps_changing_is_let_go_in_the_end(store, clock: FakeClock):
    """Others write it whenever the action does: it is not counted as failed, and left asleep."""
    group = await PausedGroup(store, clock, "all").make()
    await group.desk.service.resume_group(OPERATOR, "g")
    restless = group.caught[3].id
    real, is_restless = store.apply, True

    async def apply(changes: Any) -> list[bool]:
        wanted = [each.old.id for each in changes]
        won = {each.old.id: each for each in changes}
        if is_restless:
            won.pop(restless, None)
        done = dict(zip(won, await real(list(won.values())), strict=True))
        return [done.get(id_, False) for id_ in wanted]

    store.apply = apply
    await group.desk.work()
    assert not await is_resumed(store, clock)
    is_restless = False
    await group.desk.watch(30)
    assert await is_resumed(store, clock)
    assert await group.outcome() == group.expected()
    [action] = await group.desk.service.actions.of(OPERATOR)
    assert (action.state, action.tally.failed, action.tally.changed) == ("done", 0, 11)
