"""Inserting: what is not written is somebody else's by its key or its id, or is tried again.

One that lost to a timer which is gone when it is looked for is free by then. That may happen
again, but not for ever.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from duetime.errors import StoreUnavailable
from duetime.stores import Insert, Key
from duetime.timer import Timer

Placed: TypeAlias = tuple[int, Insert]  # an insert, and its place in the batch

# Writes those of the inserts whose key and id are free, and tells the places of those it wrote.
Way: TypeAlias = Callable[[list[Placed]], Awaitable[Collection[int]]]
Owners: TypeAlias = Callable[[list[Timer]], Awaitable[Sequence[Timer | None]]]


async def insert_all(
    inserts: Sequence[Insert], ways: Iterable[Way], owners: Owners, engine: str
) -> list[Timer | None]:
    """Per timer None, or the one that was there. The ways are tried one after the other."""
    answers: list[Timer | None] = [None] * len(inserts)
    left = list(enumerate(inserts))
    for way in ways:
        written = await way(left)
        left = [placed for placed in left if placed[0] not in written]
        if not left:
            return answers
        found = await owners([insert.timer for _, insert in left])
        for (place, _), owner in zip(left, found, strict=True):
            answers[place] = owner
        left = [placed for placed in left if answers[placed[0]] is None]
        if not left:
            return answers
    raise StoreUnavailable(f"{engine}: timers with the same keys come and go all the time")


async def owners_of(
    timers: Sequence[Timer],
    get: Callable[[list[str]], Awaitable[list[Timer | None]]],
    get_by_key: Callable[[list[Key]], Awaitable[list[Timer | None]]],
) -> list[Timer | None]:
    """Per timer the one that has its key or its id, as far as there is one.

    The questions are asked one after the other, as on one connection they must be.
    """
    by_key = await get_by_key([Key.of(timer) for timer in timers])
    by_id = await get([timer.id for timer in timers])
    return [first or second for first, second in zip(by_key, by_id, strict=True)]
