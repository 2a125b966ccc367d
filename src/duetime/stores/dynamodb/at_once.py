"""At once: many pieces of work, but never more than there are connections for them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from duetime.errors import StoreUnavailable, gravest

T = TypeVar("T")
R = TypeVar("R")

BATCH_WITHIN = 60.0  # seconds after which no more pieces are begun


async def each(things: Sequence[T], work: Callable[[T], Awaitable[R]], width: int) -> list[R]:
    """Do the work for each thing, and answer in their order.

    When one fails, no more are begun. Those under way are waited for, so that all is over when this
    raises; and if one of them may not be, it raises Unanswered.
    """
    results: dict[int, R] = {}
    failures: list[StoreUnavailable] = []
    left = iter(enumerate(things))
    loop = asyncio.get_running_loop()
    stop_at = loop.time() + BATCH_WITHIN

    async def worker() -> None:
        for place, thing in left:
            if not failures and loop.time() > stop_at:
                failures.append(StoreUnavailable(_TOO_SLOW))
            if failures:
                return
            try:
                results[place] = await work(thing)
            except StoreUnavailable as error:
                failures.append(error)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(width, len(things))):
            group.create_task(worker())
    if failures:
        raise gravest(failures)
    return [results[place] for place in range(len(things))]


_TOO_SLOW = f"DynamoDB: the whole batch was not written within {BATCH_WITHIN:.0f} s"
