"""Calls that arrive together share one write."""

import asyncio
from collections.abc import Sequence

import pytest

from duetime.admission import Admission, Marks, Room
from duetime.batcher import LONGEST_WAIT, LONGEST_WRITE, Batcher
from duetime.errors import Unanswered, Unavailable
from duetime.ledger import CREATES
from duetime.testing import FakeClock


class Writing:
    """A write that ends when a test lets it."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Semaphore(0)
        self.begun = asyncio.Semaphore(0)
        self.error: BaseException | None = None

    async def __call__(self, items: Sequence[int]) -> list[str]:
        self.batches.append(list(items))
        self.begun.release()
        await self.gate.acquire()
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return [str(item) for item in items]


def batching(write, clock=None, marks=CREATES, **options) -> Batcher[int, str]:
    clock = clock or FakeClock()
    admission = Admission("too much is to be written", clock, marks)
    return Batcher(write, clock, admission, **options)


async def submitted(batcher: Batcher[int, str], *items: int) -> list[asyncio.Task[str]]:
    tasks = [asyncio.create_task(batcher.submit(item, 10)) for item in items]
    await asyncio.sleep(0)
    return tasks


async def test_first_goes_out_alone_and_at_once():
    """Nobody waits for others to come."""
    writing = Writing()
    [first] = await submitted(batching(writing), 1)
    await writing.begun.acquire()
    assert writing.batches == [[1]]
    writing.gate.release()
    assert await first == "1"


async def test_those_that_arrive_meanwhile_go_together():
    """What arrives while all writes are under way is the next write, in the order of arrival."""
    writing = Writing()
    batcher = batching(writing, at_once=2)
    [first] = await submitted(batcher, 1)
    await writing.begun.acquire()
    [second] = await submitted(batcher, 2)
    await writing.begun.acquire()
    assert writing.batches == [[1], [2]]
    rest = [task for item in (3, 4, 5) for task in await submitted(batcher, item)]
    assert writing.batches == [[1], [2]]
    writing.gate.release()
    await writing.begun.acquire()
    assert writing.batches == [[1], [2], [3, 4, 5]]
    assert await first == "1"
    assert not any(task.done() for task in (second, *rest))
    writing.gate.release()
    writing.gate.release()
    assert await second == "2"
    assert await asyncio.gather(*rest) == ["3", "4", "5"]


async def test_those_that_arrive_in_one_turn_go_together():
    """Calls that are made at the same time are one write, also if more could be under way."""
    writing = Writing()
    tasks = await submitted(batching(writing), 1, 2, 3)
    writing.gate.release()
    assert await asyncio.gather(*tasks) == ["1", "2", "3"]
    assert writing.batches == [[1, 2, 3]]


async def test_nobody_waits_for_a_writer_that_has_just_ended():
    """A call made in the very turn in which the last write ends is written too."""
    turns = 0

    async def write(items: Sequence[int]) -> list[str]:
        nonlocal turns
        for _ in range(turns % 5):
            await asyncio.sleep(0)
        turns += 1
        return [str(item) for item in items]

    batcher = batching(write, at_once=1)

    async def call_again_and_again(pause: int) -> None:
        for item in range(100):
            assert await batcher.submit(item, 10) == str(item)
            for _ in range(pause):
                await asyncio.sleep(0)

    async with asyncio.timeout(10):
        await asyncio.gather(*(call_again_and_again(pause) for pause in range(7)))
        for item in range(100):  # and alone, when nobody comes after it
            assert await batcher.submit(item, 10) == str(item)


async def test_largest():
    """A batch has a largest size; the rest follows."""
    writing = Writing()
    tasks = await submitted(batching(writing, largest=2), *range(5))
    for _ in range(3):
        writing.gate.release()
    assert await asyncio.gather(*tasks) == ["0", "1", "2", "3", "4"]
    assert [len(batch) for batch in writing.batches] == [2, 2, 1]


async def test_failure_is_told_to_all_of_its_batch_only():
    """A write that fails fails for all that shared it; the next one is not concerned."""
    writing = Writing()
    batcher = batching(writing)
    failing = await submitted(batcher, 1, 2)
    await writing.begun.acquire()
    later = await submitted(batcher, 3)
    writing.error = RuntimeError("disk full")
    writing.gate.release()
    for task in failing:
        with pytest.raises(RuntimeError, match="disk full"):
            await task
    writing.gate.release()
    assert await later[0] == "3"


async def test_caller_that_goes_away():
    """A caller that is gone takes nothing from the others, and its item is still written."""
    writing = Writing()
    gone, stays = await submitted(batching(writing), 1, 2)
    await writing.begun.acquire()
    gone.cancel()
    writing.gate.release()
    assert await stays == "2"
    assert writing.batches == [[1, 2]]
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_write_with_too_few_answers():
    """A write that does not answer for each of its items fails for all; nobody waits for ever."""

    async def forgetful(items: Sequence[int]) -> list[str]:
        return [str(item) for item in items[1:]]

    tasks = await submitted(batching(forgetful), 1, 2)
    async with asyncio.timeout(5):
        for task in tasks:
            with pytest.raises(ValueError, match="1 answers to a write of 2"):
                await task


async def test_works_again_after_a_rest():
    """After everything was written, the next call starts a write again."""
    writing = Writing()
    batcher = batching(writing)
    for item in (1, 2):
        writing.gate.release()
        assert await batcher.submit(item, 10) == str(item)
    assert writing.batches == [[1], [2]]


async def test_what_waits_too_long_is_refused():
    """Items whose write does not begin in time are taken out: nothing of them is ever written."""
    writing, clock = Writing(), FakeClock()
    batcher = batching(writing, clock, at_once=1)
    [first] = await submitted(batcher, 1)
    await writing.begun.acquire()
    early = await submitted(batcher, 2)
    clock.advance(4_000)
    late = await submitted(batcher, 3)
    clock.advance(int(LONGEST_WAIT * 1000) - 4_000)
    with pytest.raises(Unavailable, match="nothing was written, try again"):
        await early[0]
    assert not late[0].done()
    clock.advance(4_000)
    with pytest.raises(Unavailable):
        await late[0]
    writing.gate.release()
    assert await first == "1"
    assert writing.batches == [[1]]
    assert (batcher._admission._count, batcher._admission._weight) == (0, 0)


async def test_a_write_that_does_not_answer_is_unknown():
    """Its callers are told so in time; it keeps its room until it has ended, as they can see."""
    writing, clock = Writing(), FakeClock()
    batcher = batching(writing, clock, Marks(1, 1000, 1, 1000))
    [first] = await submitted(batcher, 1)
    await writing.begun.acquire()
    clock.advance(int(LONGEST_WRITE * 1000) - 4_000)
    [second] = await submitted(batcher, 2)
    clock.advance(4_000)
    with pytest.raises(Unanswered, match="not known whether the change was made") as given_up:
        await first
    await asyncio.sleep(0)
    assert writing.batches == [[1]]  # there is still no room for the second
    assert not given_up.value.ended.done()
    writing.gate.release(), writing.gate.release()
    assert await second == "2"
    assert writing.batches == [[1], [2]]
    assert given_up.value.ended.done()


async def test_each_write_has_its_own_time():
    """A write that began later is given up later."""
    writing, clock = Writing(), FakeClock()
    batcher = batching(writing, clock)
    [first] = await submitted(batcher, 1)
    await writing.begun.acquire()
    clock.advance(10_000)
    [second] = await submitted(batcher, 2)
    await writing.begun.acquire()
    clock.advance(int(LONGEST_WRITE * 1000) - 10_000)
    with pytest.raises(Unanswered):
        await first
    assert not second.done()
    clock.advance(10_000)
    with pytest.raises(Unanswered):
        await second


async def test_many_are_written_apart():
    """A batch of a caller's own is one write, and leaves with all that was let in for it."""
    writing, clock = Writing(), FakeClock()
    batcher = batching(writing, clock, Marks(3, 1000, 1, 1000))
    assert batcher._admission.lets_in(3, 30)
    room = Room(batcher._admission, 3, 30)
    apart = asyncio.create_task(batcher.write_apart([1, 2], room))
    await writing.begun.acquire()
    [single] = await submitted(batcher, 3)
    assert writing.batches == [[1, 2]]
    writing.gate.release(), writing.gate.release()
    assert await apart == ["1", "2"]
    assert await single == "3"
