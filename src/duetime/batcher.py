"""A batcher lets calls that arrive together share one write.

Nobody waits while few writes are under way: what has arrived in one turn of the event loop goes
out at once. Only when so many are under way that the store is the slower side, whatever arrives
gathers and goes out together as soon as one of them has ended.

More than one write is under way so that the store always has the next at hand: a busy event loop
may take some milliseconds to notice that one has ended.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar, cast

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Batcher(Generic[Item, Answer]):
    """Gathers single items into batches for a function that takes many."""

    def __init__(
        self,
        write: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        largest: int = 1000,
        at_once: int = 8,
    ) -> None:
        self._write = write
        self._largest = largest
        self._at_once = at_once
        self._waiting: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._writers: set[asyncio.Task[None]] = set()
        self._is_starting = False  # one of them, in the next turn of the event loop

    async def submit(self, item: Item) -> Answer:
        """Write one item, and answer when its batch has been written."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if not self._is_starting and len(self._writers) < self._at_once:
            self._is_starting = True
            self._writers.add(asyncio.create_task(self._write_all()))
        return await answer

    async def _write_all(self) -> None:
        self._is_starting = False
        try:
            while self._waiting:
                count = min(len(self._waiting), self._largest)
                batch = [self._waiting.popleft() for _ in range(count)]
                await self._write_batch(batch)
        finally:
            # Before anyone else runs: an item must not wait for a writer that has just ended.
            self._writers.remove(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _write_batch(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._write([item for item, _ in batch])
            answered = list(zip(batch, answers, strict=True))
        except BaseException as error:
            for _, waiter in batch:
                if not waiter.done():
                    waiter.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, waiter), answer in answered:
            if not waiter.done():  # its caller may have gone away
                waiter.set_result(answer)
