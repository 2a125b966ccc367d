"""Waiting for what is under way in a test: a few passes of the loop, and no time."""

import asyncio


async def settle(passes: int = 20) -> None:
    """Let every task that can run do so."""
    for _ in range(passes):
        await asyncio.sleep(0)
