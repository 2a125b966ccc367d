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

    There may be none, though it is not the last: those that were there have gone meanwhile, or were
    left out. A store may leave out what is other tenants', and then says how far it has looked: a
    walk is bounded by what was looked at, not by what was found.
    """

    timers: list[Timer]
    is_last: bool  # there is nothing behind them
    left_out: int = 0  # that were looked at beside them
    place: str | None = None  # the id of the last that was looked at, where some were left out


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
    async for step in _merged(query, shards, read):
        if _is_past(step.place, query):
            break
        seen += step.seen
        timer = step.timer
        if timer is not None and matches(timer, query):
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
            return Page(found, stopped_at=(ids.time_of(step.place), step.place))
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


def _is_past(place: str, query: Query) -> bool:
    """Tell whether no timer from here on can be of the times asked for."""
    if query.descending:
        return query.created_after is not None and ids.time_of(place) < query.created_after
    return query.created_before is not None and ids.time_of(place) >= query.created_before


class _Step(NamedTuple):
    """A timer; or the place that a shard was looked through to, past some that were left out."""

    place: str
    timer: Timer | None
    seen: int


async def _merged(query: Query, shards: Collection[int], read: Read) -> AsyncIterator[_Step]:
    """The timers of all shards and what lies between them, in the order of ids."""
    place = _first_place(query)
    # Nobody knows which shard has the next ones: an even share of the page, and some more.
    share = (query.offset + query.limit) // max(len(shards), 1) + _SHORTEST
    lines = [
        _Line(shard, place, min(share, _LONGEST), is_descending=query.descending)
        for shard in shards
    ]
    await asyncio.gather(*(line.refill(read) for line in lines))
    heads = [_Head(line) for line in lines if line.has_more]
    heapq.heapify(heads)
    while heads:
        line = heads[0].line
        yield line.take()
        await line.refill(read)
        if line.has_more:
            heapq.heapreplace(heads, _Head(line))
        else:
            heapq.heappop(heads)


class _Line:
    """One shard, as far as it has been read."""

    def __init__(self, shard: int, place: str | None, size: int, *, is_descending: bool) -> None:
        self.is_descending = is_descending
        self._timers: list[Timer] = []  # the next one at the end
        self._left_out = 0  # up to the place, to be told behind the timers
        self._shard = shard
        self._place = place
        self._size = size
        self._is_over = False

    @property
    def has_more(self) -> bool:
        """Whether there is something to take."""
        return bool(self._timers or self._left_out)

    @property
    def head(self) -> str:
        """The place of what is next."""
        return self._timers[-1].id if self._timers else self._place or ""

    def take(self) -> _Step:
        """What is next."""
        if self._timers:
            timer = self._timers.pop()
            return _Step(timer.id, timer, 1)
        step = _Step(self.head, None, self._left_out)
        self._left_out = 0
        return step

    async def refill(self, read: Read) -> None:
        """If all was taken, read the next part, until there is something or nothing is left."""
        while not self.has_more and not self._is_over:
            part = await read(self._shard, self._place, self.is_descending, self._size)
            self._is_over = part.is_last
            self._size = min(self._size * 2, _LONGEST)  # who comes again will want more
            if part.timers:
                self._place = part.timers[-1].id
                self._timers = part.timers[::-1]
            if part.place is not None:
                self._place = part.place
                self._left_out = part.left_out


class _Head:
    """The next timer of a line, compared in the direction of the walk."""

    def __init__(self, line: _Line) -> None:
        self.line = line
        self.place = line.head

    def __lt__(self, other: "_Head") -> bool:
        mine, others = self.place, other.place
        return mine > others if self.line.is_descending else mine < others
