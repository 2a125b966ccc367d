"""So much at once, so much in line, and the rest is refused."""

import asyncio

import pytest

from duetime.admission import PATIENCE, Admission, Marks, hung_up
from duetime.errors import CallerGone, Unavailable
from duetime.testing import FakeClock
from tests.waiting import settle

MARKS = Marks(2, 100, 3, 100)
LONG = int(PATIENCE * 1000)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def admission(clock: FakeClock) -> Admission:
    return Admission("too much", clock, MARKS)


async def entering(admission: Admission, *sizes: tuple[int, int]) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(admission.enter(*size)) for size in sizes]
    await settle()
    return tasks


def done(tasks: list[asyncio.Task[None]]) -> list[bool]:
    return [task.done() for task in tasks]


async def test_in_order(admission: Admission):
    """Who comes first is let in first, as room becomes free."""
    tasks = await entering(admission, (1, 1), (1, 1), (1, 1), (1, 1), (1, 1))
    assert done(tasks) == [True, True, False, False, False]
    admission.leave(1, 1)
    await settle()
    assert done(tasks) == [True, True, True, False, False]
    admission.leave(2, 2)
    await settle()
    assert all(done(tasks))


async def test_a_full_line_refuses(admission: Admission):
    """Beyond the line nobody waits, and the message says what to do."""
    await entering(admission, *[(1, 1)] * 4)
    admission.check()
    await entering(admission, (1, 1))
    with pytest.raises(Unavailable, match=r"^too much; nothing was written, try again$"):
        admission.check()
    with pytest.raises(Unavailable):
        await admission.enter(1, 1)


@pytest.mark.promise("bounded-memory")
async def test_bytes_count_too(admission: Admission):
    """A few heavy requests take as much room as many light ones."""
    tasks = await entering(admission, (1, 100), (1, 60), (1, 41), (1, 40))
    assert done(tasks) == [True, False, True, False]
    with pytest.raises(Unavailable):
        await tasks[2]
    with pytest.raises(Unavailable):
        admission.check()
    admission.leave(1, 100)
    await settle()
    assert all(done(tasks))
    admission.check()


async def test_patience_has_an_end(admission: Admission, clock: FakeClock):
    """Who has stood in line for too long is refused, each by their own time."""
    tasks = await entering(admission, (2, 1), (1, 1))
    clock.advance(1_000)
    tasks += await entering(admission, (1, 1))
    clock.advance(LONG - 1_000)
    await settle()
    assert done(tasks) == [True, True, False]
    with pytest.raises(Unavailable):
        await tasks[1]
    admission.leave(2, 1)
    await tasks[2]
    clock.advance(LONG)  # whoever was let in has nothing to fear any more
    await settle()


async def test_larger_than_the_marks(admission: Admission):
    """Something too large for the marks is let in when nothing else is, and nobody passes it."""
    tasks = await entering(admission, (1, 1), (50, 5_000), (1, 1))
    with pytest.raises(Unavailable):
        await tasks[2]  # the line is full
    assert done(tasks) == [True, False, True]
    admission.leave(1, 1)
    await tasks[1]
    assert not admission.lets_in(1, 1)
    admission.leave(50, 5_000)
    assert admission.lets_in(1, 1)


async def test_who_gives_up_holds_up_nobody(admission: Admission, clock: FakeClock):
    """When a large one leaves the line, those behind it that fit are let in at once."""
    tasks = await entering(admission, (1, 1), (2, 2))
    clock.advance(1_000)
    tasks += await entering(admission, (1, 1))
    assert done(tasks) == [True, False, False]
    clock.advance(LONG - 1_000)
    await tasks[2]


async def test_cancelled_in_line(admission: Admission):
    """A task that is cancelled leaves the line, and those behind it move up."""
    tasks = await entering(admission, (1, 1), (2, 2), (1, 1))
    tasks[1].cancel()
    await tasks[2]
    assert (admission._count, admission._count_in_line, admission._weight_in_line) == (2, 0, 0)


async def test_cancelled_when_its_turn_has_come(admission: Admission):
    """A task that is let in and cancelled in the same moment keeps no room."""
    tasks = await entering(admission, (2, 2), (2, 2))
    admission.leave(2, 2)
    tasks[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[1]
    assert (admission._count, admission._weight) == (0, 0)


async def test_cancelled_before_its_turn(admission: Admission):
    """Nor does one that was cancelled and has not noticed yet when its turn comes."""
    tasks = await entering(admission, (2, 2), (2, 2), (1, 1))
    tasks[1].cancel()
    admission.leave(2, 2)
    await tasks[2]
    assert (admission._count, admission._weight) == (1, 1)


async def test_hung_up(admission: Admission):
    """Nobody stands in line for a caller that is gone."""
    gone = asyncio.Event()

    async def wait() -> None:
        await gone.wait()

    await entering(admission, (2, 2))
    hung_up.set(wait)
    [waiting] = await entering(admission, (1, 1))
    hung_up.set(None)
    gone.set()
    with pytest.raises(CallerGone):
        await waiting
    assert admission._count_in_line == 0
