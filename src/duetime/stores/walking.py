"""Walking: a search in an engine that has no index for it, by reading along in the order of ids.

Ids begin with the time of creation, so their order is the order of creation. Each shard is read in
that order, a part at a time, and the shards are merged. Who has looked at many timers and found too
few gives up: the page says where, and the next one goes on from there.

A scan reads along too, one shard after the other.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import NamedTuple

from duetime import ids
from duetime.clock import Millis
from duetime.errors import UnsupportedQuery
from duetime.stores import Page, Query
from duetime.stores.matching import matches
from duetime.timer import Timer

MOST_SEEN = 10_000  # timers that one search looks at
_LONGEST = 200  # timers that are read of a shard at once
_SHORTEST = 8


class Part(NamedTuple):
    """Some timers of a shard in the order asked for; there may be fewer than the limit.

    There may be none, though it is not the last: those that were there have gone meanwhile.
    """

    timers: list[Timer]
    is_last: bool  # there is nothing behind them


# From a shard, the place to go on behind (None: from the end that comes first), whether it goes
# downwards, and a limit. The place is compared like an id, but need not be one.
Read = Callable[[int, str | None, bool, int], Awaitable[Part]]


async def walk(
    query: Query, shards: Collection[int], read: Read, most_seen: int = MOST_SEEN
) -> Page:
    """Answer a search by looking at the timers of these shards."""
    if query.limit <= 0:
        return Page([])
    found: list[Timer] = []
    left_out, seen = query.offset, 0
    async for timer in _merged(query, shards, read):
        if _is_past(timer, query):
            break
        seen += 1
        if matches(timer, query):
            if left_out:
                left_out -= 1
            else:
                found.append(timer)
            if len(found) == query.limit:
                break
        if seen >= most_seen and left_out:  # nobody could say from where to go on
            raise UnsupportedQuery(
                f"offset: so many matches were not found among {most_seen:,} timers; bound the "
                "search by created_after and created_before, or go on with cursor instead"
            )
        if seen >= most_seen:
            return Page(found, stopped_at=(timer.created_at, timer.id))
    return Page(found)


async def scan_shards(
    after: str | None, limit: int, shards: Collection[int], read: Read, heaviest: int
) -> list[Timer]:
    """Timers in the order of (shard, id), behind an id: so many, or until they have this weight.

    None are the end: so a part without any is read again, until there is something behind it.
    """
    first = ids.shard_of(after) if after is not None and ids.is_id(after) else 0
    found: list[Timer] = []
    weight = 0
    for shard in sorted(shard for shard in shards if shard >= first):
        place, is_over = (after if shard == first else None), False
        while not is_over and len(found) < limit and weight < heaviest:
            part = await read(shard, place, False, limit - len(found))
            is_over = part.is_last
            if part.timers:
                place = part.timers[-1].id
                found += part.timers
                weight += sum(timer.weight for timer in part.timers)
    return found


def place_of(after: tuple[Millis, str]) -> str:
    """Where a walk goes on that ended there: a text between the ids before and those behind it."""
    made_at, id_ = after
    if ids.is_id(id_):
        return id_
    digits = f"{max(made_at, 0):012x}"
    start = f"{digits[:-4]}-{digits[-4:]}"
    return start if id_ <= start else f"{start}~"  # before, or behind, all that were made then


def _first_place(query: Query) -> str | None:
    """Where the walk begins: behind the page before, and not before the times asked for."""
    places = [] if query.after is None else [place_of(query.after)]
    if query.descending and query.created_before is not None:
        places.append(place_of((query.created_before, "")))
    if not query.descending and query.created_after is not None:
        places.append(place_of((query.created_after, "")))
    if not places:
        return None
    return min(places) if query.descending else max(places)


def _is_past(timer: Timer, query: Query) -> bool:
    """Tell whether no timer from here on can be of the times asked for."""
    if query.descending:
        return query.created_after is not None and ids.time_of(timer.id) < query.created_after
    return query.created_before is not None and ids.time_of(timer.id) >= query.created_before


async def _merged(query: Query, shards: Collection[int], read: Read) -> AsyncIterator[Timer]:
    """The timers of all shards, in the order of their ids."""
    place = _first_place(query)
    # Nobody knows which shard has the next ones: an even share of the page, and some more.
    share = (query.offset + query.limit) // max(len(shards), 1) + _SHORTEST
    lines = [
        _Line(shard, place, min(share, _LONGEST), is_descending=query.descending)
        for shard in shards
    ]
    await asyncio.gather(*(line.refill(read) for line in lines))
    heads = [_Head(line) for line in lines if line.timers]
    heapq.heapify(heads)
    while heads:
        line = heads[0].line
        yield line.timers.pop()
        if not line.timers:
            await line.refill(read)
        if line.timers:
            heapq.heapreplace(heads, _Head(line))
        else:
            heapq.heappop(heads)


class _Line:
    """One shard, as far as it has been read."""

    def __init__(self, shard: int, place: str | None, size: int, *, is_descending: bool) -> None:
        self.is_descending = is_descending
        self.timers: list[Timer] = []  # the next one at the end
        self._shard = shard
        self._place = place
        self._size = size
        self._is_over = False

    async def refill(self, read: Read) -> None:
        """Read the next part, until there is something or nothing is left."""
        while not self.timers and not self._is_over:
            part = await read(self._shard, self._place, self.is_descending, self._size)
            self._is_over = part.is_last
            self._size = min(self._size * 2, _LONGEST)  # who comes again will want more
            if part.timers:
                self._place = part.timers[-1].id
                self.timers = part.timers[::-1]


class _Head:
    """The next timer of a line, compared in the direction of the walk."""

    def __init__(self, line: _Line) -> None:
        self.line = line
        self.id = line.timers[-1].id

    def __lt__(self, other: "_Head") -> bool:
        return self.id > other.id if self.line.is_descending else self.id < other.id
