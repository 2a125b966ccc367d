"""A batcher lets calls that arrive together share one write.

Nobody waits when nothing is under way: the first call goes out at once, alone. Whatever arrives
while a write is under way goes out together as the next one, so batches grow by themselves
exactly when the store is the slower side.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Batcher(Generic[Item, Answer]):
    """Gathers single items into batches for a function that takes many."""

    def __init__(
        self,
        write: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        largest: int = 1000,
    ) -> None:
        self._write = write
        self._largest = largest
        self._waiting: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._writer: asyncio.Task[None] | None = None

    async def submit(self, item: Item) -> Answer:
        """Write one item, and answer when its batch has been written."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all())
        return await answer

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                count = min(len(self._waiting), self._largest)
                batch = [self._waiting.popleft() for _ in range(count)]
                await self._write_batch(batch)
        finally:
            self._writer = None

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
