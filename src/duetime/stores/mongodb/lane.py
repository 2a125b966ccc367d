"""A lane to the database: so many may ask at once, and each has so long.

The driver's pool is shared by all lanes, and is large enough for all of them together: whoever has
a place in a lane finds a connection. So heartbeats, in a lane of their own, wait for nobody.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pymongo

from duetime.stores.mongodb.errors import translated
from duetime.stores.turns import Turns

T = TypeVar("T")

# Seconds.
FREE_WITHIN = 5.0  # a place, when all are taken
MARGIN = 2.0  # on top of what the driver allows itself


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
            return await self.run_bare(work)

    async def run_bare(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do some work; the driver's own error if it fails."""
        async with self._turns.taken_within(FREE_WITHIN):
            # The driver ends whatever it does in time, and tells the server how long that is.
            with pymongo.timeout(self._within):
                async with asyncio.timeout(self._within + MARGIN):
                    return await work()

    async def close(self) -> None:
        """Let nobody in any more, and wait for those who are."""
        await self._turns.close()
