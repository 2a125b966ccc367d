"""Turns: so many may use an engine at once, and the others wait for so long, in order."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from duetime.errors import StoreUnavailable

T = TypeVar("T")


class Turns:
    """A bounded number of places; whoever leaves passes his on to the one who waits longest."""

    def __init__(self, size: int, full: str) -> None:
        """``full`` is what to tell one who waited in vain; {within} in it is for how long."""
        self._size = size
        self._full = full
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._all_left = asyncio.Event()
        self._all_left.set()
        self._is_closed = False

    @property
    def taken(self) -> int:
        """How many places are in use."""
        return self._taken

    async def enter(self, within: float) -> None:
        """Take a place, or raise StoreUnavailable if none was free for so many seconds."""
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
        if self._taken < self._size:
            self._taken += 1
            self._all_left.clear()
        else:
            await self._wait(within)

    def leave(self) -> None:
        """Give a place back."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._taken -= 1
        if self._taken == 0:
            self._all_left.set()

    @asynccontextmanager
    async def taken_within(self, seconds: float) -> AsyncIterator[None]:
        """A place for as long as the block lasts; StoreUnavailable if none was free in time."""
        await self.enter(seconds)
        try:
            yield
        finally:
            self.leave()

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]], within: float) -> T:
        """Do some work in a place of its own, which goes on to its end though its caller leaves.

        So whatever it has its hands on is in order afterwards.
        """
        await self.enter(within)
        task = asyncio.create_task(work())
        task.add_done_callback(lambda _: self.leave())
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Let nobody in any more, and wait until all have left."""
        self._is_closed = True
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(StoreUnavailable("the store is closed"))
        await self._all_left.wait()

    async def _wait(self, within: float) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(within):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave()  # it came just when we gave up
            if isinstance(error, TimeoutError):
                raise StoreUnavailable(self._full.format(within=within)) from error
            raise
