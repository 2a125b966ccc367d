"""A look that fails once a change is made: whoever asked hears that it was made."""

from typing import Any

import pytest

from duetime.bulk import action as actions
from duetime.errors import Conflict, NotFound, StoreUnavailable
from duetime.stores import Record
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.tenancy.requests import PutGroup
from duetime.testing import FakeClock
from tests.bulk.desk import Desk, put_timers, stored, under_way
from tests.bulk.paused_group import PausedGroup

HOUR = 3_600_000


class BlinkingStore:
    """A store that shows no actions from when one was written, until a test lets it."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.traits = store.traits
        self.is_watchful = False
        self.is_blind = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def put_record(self, old: Record | None, new: Record | None) -> bool:
        is_action = new is not None and new.kind == actions.KIND
        self.is_blind = self.is_blind or (self.is_watchful and is_action)
        return await self.store.put_record(old, new)

    async def records(self, kind: str) -> list[Record]:
        if kind == actions.KIND and self.is_blind:
            raise StoreUnavailable("connection reset, as told")
        return await self.store.records(kind)

    def watch(self) -> None:
        self.is_watchful = True

    def see_again(self) -> None:
        self.is_watchful = self.is_blind = False


@pytest.fixture
def blinking() -> BlinkingStore:
    return BlinkingStore(MemoryStore())


@pytest.mark.parametrize("key", [None, "k"])
async def test_an_action_that_was_written(blinking: BlinkingStore, clock: FakeClock, key):
    """It is the answer, and is done once."""
    desk = Desk(blinking, clock)
    at = clock.now() + HOUR
    made = await put_timers(blinking, 3, execute_at=at)
    blinking.watch()
    action = await desk.ask("shift", by="1h", key=key)
    assert action.state == "running"
    blinking.see_again()
    await desk.work()
    assert {timer.execute_at for timer in await stored(blinking, made)} == {at + HOUR}
    assert (await desk.see(action)).state == "done"


async def test_a_cancel_that_was_written(blinking: BlinkingStore, clock: FakeClock):
    """Whoever asked hears that it is being canceled."""
    desk = Desk(blinking, clock)
    await put_timers(blinking, 20)
    action = await desk.ask("pause")
    blinking.watch()
    assert (await desk.service.actions.cancel(OPERATOR, action.id)).is_canceling
    blinking.see_again()
    await desk.work()
    assert (await desk.see(action)).state == "canceled"


async def test_a_deletion_that_has_begun(blinking: BlinkingStore, clock: FakeClock):
    """The answer is its action."""
    desk = Desk(blinking, clock)
    await desk.service.groups.put(OPERATOR, "g", PutGroup())
    await put_timers(blinking, 2, group="g")
    blinking.watch()
    action = await desk.service.delete_group(OPERATOR, "g", cancel=True)
    assert action is not None
    blinking.see_again()
    await desk.work()
    assert (await desk.see(action)).state == "done"
    with pytest.raises(NotFound):
        await desk.service.groups.get(OPERATOR, "g")


async def test_a_resume_looks_for_nothing(blinking: BlinkingStore, clock: FakeClock):
    """Its action begins at once, whether or not anybody can look."""
    group = await PausedGroup(blinking, clock, "latest").make()
    blinking.watch()
    assert not (await group.desk.service.resume_group(OPERATOR, "g")).is_paused
    blinking.see_again()
    assert [action.state for action in await under_way(blinking)] == ["running"]
    await group.desk.work()
    assert await group.outcome() == group.expected()


async def test_a_resume_that_a_clerk_has_let_begin(
    blinking: BlinkingStore, clock: FakeClock, monkeypatch
):
    """It took so long that somebody else saw to it: the group is resumed, and is told so."""
    group = await PausedGroup(blinking, clock, "all").make()
    other = Desk(blinking.store, clock)
    real = group.desk.service.groups.resumed

    async def slow(*args: Any) -> Any:
        answer = await real(*args)
        await other.watch(90)
        return answer

    monkeypatch.setattr(group.desk.service.groups, "resumed", slow)
    blinking.watch()
    assert not (await group.desk.service.resume_group(OPERATOR, "g")).is_paused
    blinking.see_again()
    await other.work()
    await group.desk.work()
    assert await under_way(blinking) == []
    assert await group.outcome() == group.expected()


async def test_a_resume_that_is_refused(blinking: BlinkingStore, clock: FakeClock, monkeypatch):
    """Whoever asked hears why, and nothing is left behind."""
    group = await PausedGroup(blinking, clock, "all").make()

    async def refusing(*_args: Any) -> Any:
        raise Conflict("as told")

    monkeypatch.setattr(group.desk.service.groups, "resumed", refusing)
    blinking.watch()
    with pytest.raises(Conflict, match="as told"):
        await group.desk.service.resume_group(OPERATOR, "g")
    blinking.see_again()
    assert await under_way(blinking) == []


async def test_one_that_is_canceled_before_it_begins(clock: FakeClock, monkeypatch):
    """It has another record by then: it begins in that one, and ends."""
    desk = Desk(MemoryStore(), clock)
    await put_timers(desk.store, 20)
    beginning = desk.service.actions._beginning
    real = beginning.begun

    async def raced(action: Any) -> Any:
        await Desk(desk.store, clock).service.actions.cancel(OPERATOR, action.id)
        return await real(action)

    monkeypatch.setattr(beginning, "begun", raced)
    action = await desk.ask("cancel", key="k")
    assert (action.state, action.is_canceling) == ("running", True)
    await desk.work()
    assert (await desk.see(action)).state == "canceled"
