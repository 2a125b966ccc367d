"""Long works take turns: whoever is to end first goes on, and others are let in meanwhile."""

import asyncio

import pytest

from duetime.shifts import BREATH, Shifts


class Works:
    """Works that note which of them did what, in order."""

    def __init__(self) -> None:
        self.shifts = Shifts()
        self.done: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._awaited = 0
        self._is_reached = asyncio.Event()

    def begin(self, name: str, breaths: int, *, after: asyncio.Event | None = None) -> None:
        """Begin one, of so many breaths; it waits for something else before its second one."""
        self.tasks[name] = asyncio.create_task(self._work(name, breaths, after))

    async def _work(self, name: str, breaths: int, after: asyncio.Event | None) -> None:
        shift = self.shifts.begin(breaths * BREATH)
        for number in range(breaths):
            if after is not None and number == 1:
                await after.wait()
            self.done.append(name)
            if len(self.done) == self._awaited:
                self._is_reached.set()
            await shift.breathe()

    async def reach(self, count: int) -> None:
        """Wait until so much was done."""
        self._awaited = count
        async with asyncio.timeout(10):
            await self._is_reached.wait()

    async def end(self) -> str:
        """All that was done, in order."""
        async with asyncio.timeout(10):
            await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        return "".join(self.done)


@pytest.fixture
def works() -> Works:
    return Works()


async def test_who_began_first_ends_first(works: Works):
    """All begin, and then one goes on at a time: they do not all end at the same moment."""
    for name in "abc":
        works.begin(name, 4)
    assert await works.end() == "abc" + "aaa" + "bbb" + "ccc"


async def test_a_small_one_passes_a_large_one(works: Works):
    """Ten times as much is not in its way."""
    works.begin("L", 20)
    await works.reach(5)
    works.begin("s", 2)
    done = await works.end()
    assert done.rindex("s") <= 9
    assert done.count("L") == 20


async def test_a_large_one_is_not_passed_for_ever(works: Works):
    """Small ones that keep coming hold it up by as much as it has to do itself, and no longer."""
    works.begin("L", 10)

    async def keep_coming() -> None:
        for number in range(200):
            works.begin(f"s{number}", 2)
            await asyncio.sleep(0)

    coming = asyncio.create_task(keep_coming())
    await works.tasks["L"]
    others = len(works.done) - works.done.count("L")
    await coming
    await works.end()
    # Those that came before ten breaths were done, and of the rest the first bit of each, which
    # waits for nobody.
    assert others <= 30


async def test_others_are_let_in_at_each_breath(works: Works):
    """Something else that is to be done in each turn of the loop is done in between."""
    works.begin("a", 5)

    async def other() -> None:
        for _ in range(5):
            works.done.append(".")
            await asyncio.sleep(0)

    works.tasks["."] = asyncio.create_task(other())
    done = await works.end()
    assert "aa" not in done.rstrip("a")
    assert done.index(".") < 3


async def test_who_waits_for_something_else_holds_up_nobody(works: Works):
    """A store that does not answer one of them is not in the way of the others."""
    answer = asyncio.Event()
    works.begin("a", 4, after=answer)
    works.begin("b", 4)
    await works.tasks["b"]
    assert "".join(works.done) == "abbbb"
    answer.set()
    assert await works.end() == "abbbbaaa"


async def test_who_is_canceled_is_passed_over(works: Works):
    """Nobody waits for somebody who has gone."""
    works.begin("a", 50)
    works.begin("b", 4)
    await works.reach(1)
    works.tasks["a"].cancel()
    assert (await works.end()).count("b") == 4
    # And whoever comes later finds everything as it was.
    works.begin("c", 2)
    assert (await works.end()).endswith("cc")
