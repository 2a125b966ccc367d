"""Waiting in tests: a few passes of the loop, or until something is so, with a deadline.

``until`` is for what is known in this process, ``eventually`` for what must be asked for.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

PATIENCE = 30.0  # seconds that anything may take on a busy machine

T = TypeVar("T")


async def settle(passes: int = 20) -> None:
    """Let every task that can run do so."""
    for _ in range(passes):
        await asyncio.sleep(0)


async def eventually(
    look: Callable[[], Awaitable[T]], what: str, *, within: float = PATIENCE, every: float = 0.05
) -> T:
    """Look again and again until there is something to see; give up at a deadline."""
    give_up_at = time.monotonic() + within
    while not (seen := await look()):
        assert time.monotonic() < give_up_at, f"waited {within} s for {what}"
        await asyncio.sleep(every)
    return seen


async def until(
    is_so: Callable[[], object], what: str = "it to be so", *, every: float = 0.05
) -> None:
    """Look again and again until it is so; give up at a deadline."""

    async def look() -> object:
        return is_so()

    await eventually(look, what, every=every)
