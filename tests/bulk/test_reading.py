"""Who asks for actions: many as they are, they take little of the store, and hear the truth."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from duetime.admission import Marks
from duetime.bulk import action as actions
from duetime.bulk.archive import kind_of
from duetime.errors import Conflict, NotFound, StoreUnavailable, Unavailable
from duetime.searching import EVERYTHING
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR, Caller
from duetime.tenancy.requests import PutGroup
from duetime.testing import FakeClock
from tests.bulk.desk import Desk
from tests.waiting import settle


class SlowStore:
    """A store whose reads of records wait until a test lets them go on, one after the other."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.traits = store.traits
        self.is_slow = False
        self.fails = False
        self.reading: list[tuple[str, asyncio.Event]] = []
        self.kinds: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def records(self, kind: str) -> Any:
        found = await self.store.records(kind)
        if self.is_slow:
            self.kinds.append(kind)
            gate = asyncio.Event()
            self.reading.append((kind, gate))
            await gate.wait()
            if self.fails:
                raise StoreUnavailable("as told")
        return found

    async def answer(self) -> None:
        """Let the oldest read go on."""
        self.reading.pop(0)[1].set()
        await settle()


@pytest.fixture
def desk(clock: FakeClock) -> Desk:
    return Desk(MemoryStore(), clock)


@pytest.fixture
def slow(desk: Desk) -> Iterator[SlowStore]:
    store = SlowStore(desk.store)
    actions = desk.service.actions
    for part in (actions._reads, actions._looks, actions._counts):
        part._store = store
    yield store
    assert store.reading == []


async def asked(*calls: Any) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.create_task(call) for call in calls]
    await settle()
    return tasks


async def test_those_who_ask_at_once_share_a_read(desk: Desk, slow: SlowStore):
    """Twenty lists are as many reads as one."""
    action = await desk.ask("cancel")
    slow.is_slow = True
    lists = await asked(*(desk.service.actions.of(OPERATOR, most=9) for _ in range(20)))
    await slow.answer()
    await slow.answer()
    assert [each.id for task in lists for each in await task] == [action.id] * 20
    assert slow.kinds == [actions.KIND, kind_of("default")]


async def test_nobody_is_told_what_is_older_than_their_question(desk: Desk, slow: SlowStore):
    """Whoever asks while a read is under way waits for the next one."""
    slow.is_slow = True
    [first] = await asked(desk.service.actions.of(OPERATOR))
    slow.is_slow = False
    action = await Desk(desk.store, desk.clock).ask("cancel")
    later = await asked(*(desk.service.actions.of(OPERATOR) for _ in range(5)))
    await slow.answer()
    assert await first == []
    assert [each.id for task in later for each in await task] == [action.id] * 5


async def test_one_at_a_time(desk: Desk, slow: SlowStore):
    """Also where many tenants ask, each for its own."""
    slow.is_slow = True
    lists = await asked(*(desk.service.actions.of(Caller(f"t{n}")) for n in range(10)))
    for _ in range(11):
        assert len(slow.reading) == 1
        await slow.answer()
    assert [await task for task in lists] == [[]] * 10
    assert len(set(slow.kinds)) == len(slow.kinds) == 11


async def test_a_rest_after_each_read(desk: Desk, slow: SlowStore, clock: FakeClock):
    """In proportion to what it took: two thirds of the time belong to others."""
    slow.is_slow = True
    lists = await asked(desk.service.actions.of(OPERATOR))
    clock.advance(300)
    await slow.answer()
    for _ in range(6):
        assert slow.reading == []
        clock.advance(100)
        await settle()
    await slow.answer()
    assert await lists[0] == []


async def test_those_who_begin_at_once_share_a_read(desk: Desk, slow: SlowStore):
    """None of them waits for another, of whichever tenant; and each tenant has twenty at most."""
    begin, new = desk.service.actions.start, desk.service.actions.new
    slow.is_slow = True
    callers = [Caller("a")] * 23 + [Caller("b")] * 9
    tasks = await asked(*(begin(new(caller, "cancel", EVERYTHING)) for caller in callers))
    await slow.answer()
    assert all(task.done() for task in tasks)
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(answer, Conflict) for answer in answers) == 3
    names = [record.name for record in await desk.store.records(actions.KIND)]
    assert Counter(name[0] for name in names) == {"a": 20, "b": 9}
    assert slow.kinds == [actions.KIND]


async def test_who_comes_next_counts_those_before(desk: Desk, slow: SlowStore):
    """Those that are written by then, each once, and those that still wait for their read."""
    begin, new = desk.service.actions.start, desk.service.actions.new
    slow.is_slow = True
    first = await asked(*(begin(new(OPERATOR, "cancel", EVERYTHING)) for _ in range(15)))
    later = await asked(*(begin(new(OPERATOR, "cancel", EVERYTHING)) for _ in range(15)))
    await slow.answer()
    await slow.answer()
    assert all(task.done() for task in (*first, *later))
    answers = await asyncio.gather(*first, *later, return_exceptions=True)
    assert [isinstance(answer, Conflict) for answer in answers] == [False] * 20 + [True] * 10


async def test_a_group_waits_for_nobody_who_begins_an_action(desk: Desk, slow: SlowStore):
    """It is resumed while others wait to hear whether there is room for theirs."""
    await desk.service.groups.put(OPERATOR, "g", PutGroup())
    await desk.service.groups.pause(OPERATOR, "g")
    slow.is_slow = True
    others = await asked(*(desk.ask("cancel", caller=Caller(f"t{n}")) for n in range(5)))
    [resuming] = await asked(desk.service.resume_group(OPERATOR, "g"))
    assert resuming.done()
    assert not (await resuming).is_paused
    slow.is_slow = False
    while slow.reading:
        await slow.answer()
    await asyncio.gather(*others)


@pytest.mark.parametrize("took", [4_000, 3_600_000])
async def test_the_longest_rest(desk: Desk, slow: SlowStore, clock: FakeClock, took: int):
    """It is a few seconds, also if the machine has slept for an hour over a read."""
    slow.is_slow = True
    [first] = await asked(desk.service.actions.of(OPERATOR))
    clock.advance(took)
    await slow.answer()
    slow.is_slow = False
    [second] = await asked(desk.service.actions.of(OPERATOR))
    assert not second.done()
    clock.advance(3_000)
    await settle()
    assert second.done()
    assert await second == []
    await asyncio.gather(first, return_exceptions=True)


async def test_too_many_who_ask(desk: Desk, slow: SlowStore, monkeypatch):
    """They are refused at once, and a cancel gets through meanwhile."""
    action = await desk.ask("cancel")
    marks = Marks(2, 1, 2, 1)
    monkeypatch.setattr(desk.service.actions._reads._reads._admission, "_marks", marks)
    slow.is_slow = True
    lists = await asked(*(desk.service.actions.of(OPERATOR, most=1) for _ in range(4)))
    with pytest.raises(Unavailable, match="too slow for all that is to be read"):
        await desk.service.actions.get(OPERATOR, action.id)
    slow.is_slow = False
    assert (await desk.service.actions.cancel(OPERATOR, action.id)).is_canceling
    await slow.answer()
    assert [len(await task) for task in lists] == [1] * 4


async def test_a_new_action_waits_for_no_archive(desk: Desk, slow: SlowStore):
    """Whoever looks for one that has ended does not hold up those who begin one."""
    slow.is_slow = True
    unknown = "01977420-dc00-7000-8000-000000000000"
    [looking] = await asked(desk.service.actions.cancel(OPERATOR, unknown))
    await slow.answer()
    assert [kind for kind, _ in slow.reading] == [kind_of("default")]
    slow.is_slow = False
    new = desk.service.actions.new(OPERATOR, "cancel", EVERYTHING)
    [starting] = await asked(desk.service.actions.start(new))
    assert starting.done()
    await slow.answer()
    with pytest.raises(NotFound):
        await looking


async def test_a_read_that_fails(desk: Desk, monkeypatch):
    """All who shared it hear of that, and the next one is made anew."""

    async def failing(_kind: str) -> None:
        raise StoreUnavailable("as told")

    with monkeypatch.context() as patched:
        patched.setattr(desk.store, "records", failing)
        lists = await asked(*(desk.service.actions.of(OPERATOR) for _ in range(3)))
        for task in lists:
            with pytest.raises(Unavailable, match="did not answer"):
                await task
    assert await desk.service.actions.of(OPERATOR) == []


async def test_hardly_a_rest_after_a_failure(desk: Desk, slow: SlowStore, clock: FakeClock):
    """However long it took to fail: the store may be back."""
    slow.is_slow = True
    [first] = await asked(desk.service.actions.of(OPERATOR))
    clock.advance(15_000)
    slow.fails = True
    await slow.answer()
    with pytest.raises(Unavailable, match="did not answer"):
        await first
    slow.is_slow = slow.fails = False
    [second] = await asked(desk.service.actions.of(OPERATOR))
    clock.advance(500)
    await settle()
    assert second.done()
    assert await second == []


async def test_only_what_is_shown_is_read_whole(desk: Desk, clock: FakeClock, monkeypatch):
    """A page of a long list costs no more than its own actions."""
    for _ in range(10):
        await desk.ask("cancel")
        await desk.work()
        clock.advance(1)
    whole: list[str] = []
    real = actions.read

    def noting(record: Any) -> Any:
        whole.append(record.name)
        return real(record)

    monkeypatch.setattr(actions, "read", noting)
    page = await desk.service.actions.of(OPERATOR, most=2)
    assert whole == [each.name for each in page]
    whole.clear()
    assert (await desk.see(page[1])).id == page[1].id
    assert whole == [page[1].name]
