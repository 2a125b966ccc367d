"""Timers that are created as their group is deleted: none is left behind in a group that is gone.

Each create is put at its very point by a store that makes it there, on a node that goes by what it
knew of the group before.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from duetime import model
from duetime.batcher import LONGEST_WRITE
from duetime.bulk.emptying import LONGEST
from duetime.errors import Unanswered
from duetime.nodes import NODE_KIND, NodeRecord
from duetime.requests import CreateTimer
from duetime.service import Service
from duetime.stores import Change, Insert, Query, Record
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.tenancy.requests import PutGroup
from duetime.testing import FakeClock, FlakyStore, RecordingSender
from duetime.timer import Status, Timer
from tests.bulk.desk import Desk, counts, put_timers, stored
from tests.factories import insert, make_timer
from tests.waiting import settle

BODY = {
    "group": "g",
    "delay": "1h",
    "timer_id": "late",
    "callback": {"type": "http", "url": "https://a.example/"},
}


class Between:
    """A store in which something happens right before, or right after, a group is deleted."""

    def __init__(self, store: Any, when: str, happen: Callable[[], Awaitable[object]]) -> None:
        self.store = store
        self.traits = store.traits
        self._when = when
        self._happen: Callable[[], Awaitable[object]] | None = happen

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def put_record(self, old: Record | None, new: Record | None) -> bool:
        is_deletion = new is not None and new.kind == "group" and b"deleted_at" in new.data
        happen = self._happen if is_deletion else None
        if happen is not None:
            self._happen = None  # once
        if happen is not None and self._when == "before":
            await happen()
        is_written = await self.store.put_record(old, new)
        if happen is not None and self._when == "after":
            await happen()
        return is_written


class Gate:
    """A store whose inserts are under way until they are let through."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.traits = store.traits
        self.has_begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.is_last = False  # its process is killed when they are written

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def insert(self, inserts: list[Insert]) -> list[Timer | None]:
        self.has_begun.set()
        await self.may_end.wait()
        answer = await self.store.insert(inserts)
        if self.is_last:
            await asyncio.Event().wait()
        return answer


async def create(desk: Desk, **fields: Any) -> Timer:
    timer, is_new = await desk.service.create(OPERATOR, msgspec.convert(BODY | fields, CreateTimer))
    assert is_new
    return timer


async def create_many(desk: Desk) -> Timer:
    bodies = [msgspec.convert(BODY, CreateTimer)]
    [answer] = await desk.service.create_many(OPERATOR, bodies, count=1, size=100)
    assert isinstance(answer, tuple)
    return answer[0]


async def put_anew(desk: Desk) -> Timer:
    """Give the key of a timer that was canceled new content."""
    timer, is_new = await desk.service.put(OPERATOR, msgspec.convert(BODY, CreateTimer))
    assert not is_new
    return timer


async def group_names(store: Any, clock: FakeClock) -> list[str]:
    return [group.name for group in await Desk(store, clock).service.groups.list(OPERATOR)]


async def made(store: Any, clock: FakeClock) -> Desk:
    """A node that knows of the group, in which there are three timers."""
    desk = Desk(store, clock)
    await desk.service.groups.put(OPERATOR, "g", PutGroup(title="mine"))
    await put_timers(store, 3, group="g")
    return desk


@pytest.mark.parametrize("when", ["before", "after"])
async def test_between_the_last_pass_and_the_deletion(store, clock: FakeClock, when: str):
    """It is canceled like the others, and the group is deleted."""
    other = await made(store, clock)
    late: list[Timer] = []

    async def happen() -> None:
        late.append(await create(other))

    desk = Desk(Between(store, when, happen), clock)
    action = await desk.service.delete_group(OPERATOR, "g", cancel=True)
    await desk.work()
    [after] = await stored(store, late)
    assert after.status is Status.CANCELED
    assert await group_names(store, clock) == ["default"]
    done = await desk.see(action)
    assert (done.state, counts(done)) == ("done", (4, 4, 0, 0))


async def test_by_a_node_that_has_not_heard_of_it(clock: FakeClock):
    """The action ends only when every node knows, and cancels what these have created till then."""
    store = MemoryStore()
    other = await made(store, clock)
    behind = Record(kind=NODE_KIND, name="n", data=msgspec.json.encode(NodeRecord(rules=1)))
    assert await store.put_record(None, behind)
    desk = Desk(store, clock)
    action = await desk.service.delete_group(OPERATOR, "g", cancel=True)
    for _ in range(30):
        clock.advance(100)
        pause = await desk.step()
    assert 0 < pause <= 0.1
    assert await group_names(store, clock) == ["default"]
    late = await create(other)  # it has not heard of that
    assert (await desk.see(action)).state == "running"
    obeys = msgspec.json.encode(NodeRecord(rules=99, makes_by=99))
    assert await store.put_record(behind, Record(kind=NODE_KIND, name="n", version=2, data=obeys))
    clock.advance(100)
    await desk.work()
    [after] = await stored(store, [late])
    assert after.status is Status.CANCELED
    assert (await desk.see(action)).state == "done"
    assert await group_names(store, clock) == ["default"]


async def test_by_a_node_that_is_killed_right_after_it_was_written(clock: FakeClock):
    """A create that began before is waited for, and what it has left behind is canceled."""
    store = MemoryStore()
    await made(store, clock)
    gate = Gate(store)
    dying = Desk(gate, clock)
    await dying.service.rules.look()

    async def creating() -> None:
        with dying.service.rules.making():
            await create(dying)

    task = asyncio.ensure_future(creating())
    await gate.has_begun.wait()
    first = Record(kind=NODE_KIND, name="n", data=msgspec.json.encode(NodeRecord()))
    assert await store.put_record(None, first)
    desk = Desk(store, clock)
    clock.advance(1)
    action = await desk.service.delete_group(OPERATOR, "g", cancel=True)
    while await group_names(store, clock) != ["default"]:
        await desk.step()
    rules = dying.service.rules
    await rules.look()
    about = NodeRecord(rules=rules.revision, makes_by=rules.makes_by())
    last = Record(kind=NODE_KIND, name="n", version=2, data=msgspec.json.encode(about))
    assert await store.put_record(first, last)
    await desk.watch(9)
    assert (await desk.see(action)).state == "running"
    gate.is_last = True
    gate.may_end.set()
    await settle()
    [late] = (await store.search(Query(tenant="default", status=Status.PENDING))).timers
    await desk.watch(30)
    await desk.work()
    [after] = await stored(store, [late])
    assert after.status is Status.CANCELED
    assert (await desk.see(action)).state == "done"
    task.cancel()


async def test_when_the_others_took_long(clock: FakeClock):
    """It is canceled also if the time that there is for a group was nearly over by then."""
    store = MemoryStore()
    other = await made(store, clock)
    timer = make_timer(group="g")
    busy = model.claim(timer, "n", clock.now(), 30_000)
    await insert(store, timer)
    assert await store.apply([Change(timer, busy)]) == [True]
    late: list[Timer] = []

    async def happen() -> None:
        late.append(await create(other))
        clock.advance(10_000)

    desk = Desk(Between(store, "before", happen), clock)
    action = await desk.service.delete_group(OPERATOR, "g", cancel=True)
    await desk.watch(LONGEST // 1000 - 6)
    assert await store.remove([busy]) == [True]
    await desk.watch(12)
    await desk.work()
    [after] = await stored(store, late)
    assert after.status is Status.CANCELED
    assert (await desk.see(action)).state == "done"


async def test_a_node_that_never_hears_of_it(clock: FakeClock):
    """One of an older version, say: it is waited for so long, and no longer."""
    store = MemoryStore()
    await made(store, clock)
    data = msgspec.json.encode(NodeRecord(rules=1))
    assert await store.put_record(None, Record(kind=NODE_KIND, name="n", data=data))
    desk = Desk(store, clock)
    action = await desk.service.delete_group(OPERATOR, "g", cancel=True)
    while await group_names(store, clock) != ["default"]:
        await desk.step()
    await desk.watch(27)
    assert (await desk.see(action)).state == "running"
    await desk.watch(6)
    await desk.work()
    assert (await desk.see(action)).state == "done"


@pytest.mark.parametrize("are_made_by_timers", [True, False])
@pytest.mark.parametrize("way", [create, create_many])
async def test_written_when_all_is_over(
    clock: FakeClock, way: Callable[[Desk], Awaitable[Timer]], *, are_made_by_timers: bool
):
    """A create that was let in before, and is written after the last pass, makes the group anew."""
    store = MemoryStore()
    await made(store, clock)
    gate = Gate(store)
    slow = Desk(gate, clock)
    slow.service = Service(
        gate, RecordingSender(), clock, are_groups_made_by_timers=are_made_by_timers
    )
    await slow.service.rules.look()
    creating = asyncio.ensure_future(way(slow))
    await gate.has_begun.wait()
    desk = Desk(store, clock)
    clock.advance(1)
    await desk.service.delete_group(OPERATOR, "g", cancel=True)
    await desk.work()
    assert await group_names(store, clock) == ["default"]
    await slow.service.rules.look()  # with its heartbeat, for which the action has waited
    gate.may_end.set()
    late = await creating
    [after] = await stored(store, [late])
    assert after.status is Status.PENDING
    assert await group_names(store, clock) == ["default", "g"]


@pytest.mark.parametrize("lands", [True, False])
@pytest.mark.parametrize("way", [create, create_many])
async def test_given_up_on_when_all_is_over(
    clock: FakeClock, way: Callable[[Desk], Awaitable[Timer]], *, lands: bool
):
    """A write that nobody waits for any more makes the group anew, if it lands."""
    store = MemoryStore()
    await made(store, clock)
    gate = Gate(store)
    slow = Desk(gate, clock)
    await slow.service.rules.look()
    creating = asyncio.ensure_future(way(slow))
    await gate.has_begun.wait()
    clock.advance(round(1000 * LONGEST_WRITE))
    with pytest.raises(Unanswered):
        await creating
    desk = Desk(store, clock)
    await desk.service.delete_group(OPERATOR, "g", cancel=True)
    await desk.work()
    await slow.service.rules.look()
    if not lands:
        gate.store = FlakyStore(store)
        gate.store.failing = "before"
    gate.may_end.set()
    await settle()
    assert await group_names(store, clock) == (["default", "g"] if lands else ["default"])


async def test_a_key_that_is_given_new_content_when_all_is_over(clock: FakeClock):
    """It is pending again, and so its group is there again."""
    store = MemoryStore()
    desk = await made(store, clock)
    slow = Desk(store, clock)
    await slow.service.rules.look()
    await create(desk)
    clock.advance(1)
    await desk.service.delete_group(OPERATOR, "g", cancel=True)
    await desk.work()
    real = slow.service._brake.slow

    async def heard_meanwhile(*args: Any) -> None:
        await real(*args)
        await slow.service.rules.look()

    slow.service._brake.slow = heard_meanwhile
    late = await put_anew(slow)
    assert late.status is Status.PENDING
    assert await group_names(store, clock) == ["default", "g"]


async def test_a_group_that_is_made_anew_during_the_last_pass(clock: FakeClock):
    """Its timers are its own: the action leaves them alone, though it finds them."""
    store = MemoryStore()
    await made(store, clock)
    desk, other = Desk(store, clock), Desk(store, clock)
    real, late = store.search, []

    async def search(query: Any) -> Any:
        if not late and await group_names(other.store, clock) == ["default"]:
            clock.advance(1)
            late.append(await create(other))
        return await real(query)

    store.search = search
    action = await desk.service.delete_group(OPERATOR, "g", cancel=True)
    await desk.work()
    [after] = await stored(store, late)
    assert after.status is Status.PENDING
    assert await group_names(store, clock) == ["default", "g"]
    done = await desk.see(action)
    assert (done.state, counts(done)) == ("done", (3, 3, 0, 0))
