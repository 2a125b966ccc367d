"""Merging: events that lie in order in each shard, read as one list in order.

Nobody knows how many of the first ones lie in which shard. So each is asked for about its part, and
then only those are asked for more that may have some before the end of the list. They are asked
from the beginning again: if they went on behind what was read, an event that became visible there
meanwhile would be passed over, and a later one of its timer would not.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import chain
from typing import TypeAlias

from duetime.timer import Event

FEWEST = 16  # that a shard is asked for: a question costs more than these

Read: TypeAlias = Callable[[Sequence[int], int], Awaitable[Sequence[Sequence[Event]]]]


async def merged(shards: Collection[int], read: Read, limit: int) -> list[Event]:
    """The first events of these shards; ``read`` reads so many of each of some of them."""
    found: list[Event] = []
    parts: dict[int, Sequence[Event]] = {}
    asked = list(shards)
    portion = min(limit, max(2 * limit // max(len(asked), 1), FEWEST))
    while asked and portion > 0:
        parts.update(zip(asked, await read(asked, portion), strict=True))
        found = sorted(chain.from_iterable(parts.values()), key=_id)[:limit]
        end = found[-1].id if len(found) == limit else None
        asked = [
            shard
            for shard in asked
            if len(parts[shard]) == portion and (end is None or parts[shard][-1].id < end)
        ]
        portion = min(4 * portion, limit)
    return found


def _id(event: Event) -> str:
    return event.id
