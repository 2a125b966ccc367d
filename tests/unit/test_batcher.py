"""Calls that arrive together share one write."""

import asyncio
from collections.abc import Sequence

import pytest

from duetime.batcher import Batcher


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


async def submitted(batcher: Batcher[int, str], *items: int) -> list[asyncio.Task[str]]:
    tasks = [asyncio.create_task(batcher.submit(item)) for item in items]
    await asyncio.sleep(0)
    return tasks


async def test_first_goes_out_alone_and_at_once():
    """Nobody waits for others to come."""
    writing = Writing()
    [first] = await submitted(Batcher(writing), 1)
    await writing.begun.acquire()
    assert writing.batches == [[1]]
    writing.gate.release()
    assert await first == "1"


async def test_those_that_arrive_meanwhile_go_together():
    """What arrives while all writes are under way is the next write, in the order of arrival."""
    writing = Writing()
    batcher = Batcher(writing, at_once=2)
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
    tasks = await submitted(Batcher(writing), 1, 2, 3)
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

    batcher = Batcher(write, at_once=1)

    async def call_again_and_again(pause: int) -> None:
        for item in range(100):
            assert await batcher.submit(item) == str(item)
            for _ in range(pause):
                await asyncio.sleep(0)

    async with asyncio.timeout(10):
        await asyncio.gather(*(call_again_and_again(pause) for pause in range(7)))
        for item in range(100):  # and alone, when nobody comes after it
            assert await batcher.submit(item) == str(item)


async def test_largest():
    """A batch has a largest size; the rest follows."""
    writing = Writing()
    tasks = await submitted(Batcher(writing, largest=2), *range(5))
    for _ in range(3):
        writing.gate.release()
    assert await asyncio.gather(*tasks) == ["0", "1", "2", "3", "4"]
    assert [len(batch) for batch in writing.batches] == [2, 2, 1]


async def test_failure_is_told_to_all_of_its_batch_only():
    """A write that fails fails for all that shared it; the next one is not concerned."""
    writing = Writing()
    batcher = Batcher(writing)
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
    gone, stays = await submitted(Batcher(writing), 1, 2)
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

    tasks = await submitted(Batcher(forgetful), 1, 2)
    async with asyncio.timeout(5):
        for task in tasks:
            with pytest.raises(ValueError, match="shorter"):
                await task


async def test_works_again_after_a_rest():
    """After everything was written, the next call starts a write again."""
    writing = Writing()
    batcher = Batcher(writing)
    for item in (1, 2):
        writing.gate.release()
        assert await batcher.submit(item) == str(item)
    assert writing.batches == [[1], [2]]
