"""A lane to the database: so many may ask at once, and each has so long.

The driver's pool is shared by all lanes, and is large enough for all of them together: whoever has
a place in a lane finds a connection. So heartbeats, in a lane of their own, wait for nobody.

What has begun goes on to its end, though its caller leaves: the driver forgets a connection that it
is making when it is cancelled, and nobody would ever close it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pymongo

from duetime.stores.mongodb.errors import translated
from duetime.stores.turns import Turns

T = TypeVar("T")

# Seconds.
FREE_WITHIN = 5.0  # a place, when all are taken
MARGIN = 2.0  # on top of what the driver allows itself


@asynccontextmanager
async def limited(seconds: float) -> AsyncIterator[None]:
    """So long the driver may take: it ends what it does by itself, and tells the server."""
    with pymongo.timeout(seconds):
        async with asyncio.timeout(seconds + MARGIN):
            yield


class Lane:
    """Places, and how long one may be held."""

    def __init__(self, size: int, within: float) -> None:
        self._within = within
        self._turns = Turns(
            size,
            f"all {size} connections to MongoDB were in use for {{within:.0f}} s: "
            "raise pool_size, or look for what keeps it busy",
        )

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do some work; StoreUnavailable if it fails or takes too long."""
        with translated():
            return await self.in_turn(lambda: self.in_time(work))

    async def in_turn(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do some work in a place of the lane, to its end; the driver's own error if it fails."""
        return await self._turns.run(work, FREE_WITHIN)

    async def in_time(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do some work within the time that the lane allows."""
        async with limited(self._within):
            return await work()

    async def close(self) -> None:
        """Let nobody in any more, and wait for those who are."""
        await self._turns.close()
