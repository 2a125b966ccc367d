"""Merging: events that lie in order in each shard, read as one list in order.

Nobody knows how many of the first ones lie in which shard. So each is asked for about its part, and
then only those are asked for more that may have some before the end of the list.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeAlias

from duetime.timer import Event

FEWEST = 16  # that a shard is asked for: a question costs more than these

# A shard, and the id behind which to go on.
Place: TypeAlias = tuple[int, str | None]
Read: TypeAlias = Callable[[Sequence[Place], int], Awaitable[Sequence[Sequence[Event]]]]


async def merged(shards: Collection[int], read: Read, after: str | None, limit: int) -> list[Event]:
    """The first events of these shards behind an id; ``read`` reads some of each shard in order."""
    found: list[Event] = []
    places: list[Place] = [(shard, after) for shard in shards]
    portion = min(limit, max(2 * limit // max(len(places), 1), FEWEST))
    while places and portion > 0:
        parts = await read(places, portion)
        found = sorted((*found, *(event for part in parts for event in part)), key=_id)[:limit]
        end = found[-1].id if len(found) == limit else None
        places = [
            (shard, part[-1].id)
            for (shard, _), part in zip(places, parts, strict=True)
            if len(part) == portion and (end is None or part[-1].id < end)
        ]
        portion = min(4 * portion, limit)
    return found


def _id(event: Event) -> str:
    return event.id
