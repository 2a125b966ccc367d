"""A lane to the database: so many may ask at once, and each has so long.

The driver's pool is shared by all lanes, and is large enough for all of them together: whoever has
a place in a lane finds a connection. So heartbeats, in a lane of their own, wait for nobody.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pymongo

from duetime.errors import StoreUnavailable
from duetime.stores.mongodb.errors import translated

T = TypeVar("T")

# Seconds.
FREE_WITHIN = 5.0  # a place, when all are taken
MARGIN = 2.0  # on top of what the driver allows itself


class Lane:
    """Places, and how long one may be held."""

    def __init__(self, size: int, within: float) -> None:
        self._size = size
        self._within = within
        self._places = asyncio.Semaphore(size)
        self._taken = 0
        self._all_back = asyncio.Event()
        self._all_back.set()
        self._is_closed = False

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do some work; StoreUnavailable if it fails or takes too long."""
        with translated():
            return await self.run_bare(work)

    async def run_bare(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do some work; the driver's own error if it fails."""
        await self._take_place()
        try:
            # The driver ends whatever it does in time, and tells the server how long that is.
            with pymongo.timeout(self._within):
                async with asyncio.timeout(self._within + MARGIN):
                    return await work()
        finally:
            self._give_back()

    async def close(self) -> None:
        """Let nobody in any more, and wait for those who are."""
        self._is_closed = True
        await self._all_back.wait()

    async def _take_place(self) -> None:
        self._check_open()
        try:
            async with asyncio.timeout(FREE_WITHIN):
                await self._places.acquire()
        except TimeoutError as error:
            raise StoreUnavailable(
                f"all {self._size} connections to MongoDB were in use for "
                f"{FREE_WITHIN:.0f} s: raise pool_size, or look for what keeps it busy"
            ) from error
        if self._is_closed:
            self._places.release()
            self._check_open()
        self._taken += 1
        self._all_back.clear()

    def _give_back(self) -> None:
        self._places.release()
        self._taken -= 1
        if self._taken == 0:
            self._all_back.set()

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
