"""What is read: each question goes to the partitions that it concerns, several at a time."""

import asyncio
import heapq
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, TypeVar

from duetime import ids
from duetime.clock import Millis
from duetime.stores import Count, Due, Key, Page, Query, Waking
from duetime.stores.cassandra.crowd import Crowd
from duetime.stores.cassandra.cuts import Cuts
from duetime.stores.cassandra.due_line import DueLine, read_lines
from duetime.stores.cassandra.floors import Floors
from duetime.stores.cassandra.lanes import Lanes
from duetime.stores.cassandra.rounds import Rounds
from duetime.stores.cassandra.rows import (
    BEGINNING,
    DUE,
    EVENT,
    FINISHED,
    LATE,
    TRUTH,
    Ended,
    key_of,
    number_of,
    to_attempts,
    to_counted,
    to_ended,
    to_timer,
)
from duetime.stores.cassandra.session import Row, Session
from duetime.stores.cassandra.shards import Shards
from duetime.stores.cassandra.stretch import Patience, Stretch
from duetime.stores.codec import decode_event
from duetime.stores.merging import merged
from duetime.stores.portions import parts
from duetime.stores.walking import Part, scan_shards, walk
from duetime.timer import Attempt, Event, Status, Timer

T = TypeVar("T")
ItemT = TypeVar("ItemT")

AT_ONCE = 16  # reads under way; what they read may be big
_LONGEST = 50  # timers in one answer
_PORTION = 16 * 1024 * 1024  # bytes in a part of a scan, more or less
_MOST_HEAVY = 4  # and heavy ones, which may have megabytes
_COUNTED = 1_000  # timers of a shard that are counted at once,
_COUNTED_SHARDS = 8  # and shards
_SHORTEST = 64  # lines that are read of a shard at least
_LIFETIMES_AT_ONCE = 100
_LINES_AT_ONCE = 200  # of a log

GET = (
    "SELECT id, state, spec, heavy FROM duetime.timers "
    "WHERE shard = ? AND kind = 0 AND at = 0 AND id IN ? AND n = 0"
)
GET_LIGHT = GET.replace(", heavy", "")
GET_STATES = (
    "SELECT state FROM duetime.timers WHERE shard = ? AND kind = 0 AND at = 0 AND id IN ? AND n = 0"
)
GET_KEYS = (
    "SELECT id, timer FROM duetime.timers "
    "WHERE shard = ? AND kind = 1 AND at = 0 AND id IN ? AND n = 0"
)
ATTEMPTS = (
    "SELECT body FROM duetime.timers "
    "WHERE shard = ? AND kind = 4 AND at = 0 AND id = ? AND n > ? LIMIT ?"
)
LIFETIMES = (
    "SELECT n, TTL(body) FROM duetime.timers "
    "WHERE shard = ? AND kind = 4 AND at = 0 AND id = ? AND n < ? "
    "ORDER BY kind DESC, at DESC, id DESC, n DESC LIMIT ?"
)
LINES = (
    "SELECT n, body FROM duetime.timers "
    "WHERE shard = ? AND kind = 4 AND at = 0 AND id = ? AND n IN ?"
)
# Those that are asked of many shards.
_BETWEEN = (
    "WHERE shard IN ? AND (kind, at, id) > (?, ?, ?) AND (kind, at, id) <= (?, ?, ?) "
    "PER PARTITION LIMIT ?"
)
WAKING = f"SELECT shard, at, id, version, weight, is_claimed FROM duetime.timers {_BETWEEN}"
UPWARDS = f"SELECT shard, at, id, state, spec FROM duetime.timers {_BETWEEN}"
DOWNWARDS = (
    "SELECT shard, at, id, state, spec FROM duetime.timers "
    "WHERE shard IN ? AND (kind, at, id) < (?, ?, ?) AND (kind, at, id) >= (?, ?, ?) "
    "ORDER BY kind DESC, at DESC, id DESC, n DESC PER PARTITION LIMIT ?"
)
EVENTS = f"SELECT shard, at, id, body FROM duetime.timers {_BETWEEN}"
STATES = f"SELECT shard, at, id, state FROM duetime.timers {_BETWEEN}"
ENDINGS = f"SELECT shard, at, id FROM duetime.timers {_BETWEEN}"

_LAST = "~"  # behind every id
_NO_NUMBER = -1
_LAST_NUMBER = 2**63 - 1


class Reads:
    """The questions."""

    def __init__(self, session: Session, shards: Shards, lanes: Lanes) -> None:
        self._session = session
        self._shards = shards
        self._lanes = lanes
        self._floors = Floors(lanes, shards)
        self._room = asyncio.Semaphore(AT_ONCE)
        self._crowd = Crowd(session, self._room)
        self._cuts = {kind: Cuts() for kind in (TRUTH, DUE, LATE, EVENT, FINISHED)}
        self._rounds = Rounds(self._cuts[FINISHED])

    async def _run(self, statement: str, values: Sequence[Any]) -> list[Row]:
        async with self._room:
            return await self._session.run(statement, values)

    async def ping(self) -> None:
        """Ask for a sign of life."""
        await self._shards.read()

    # Timers -----------------------------------------------------------------------------------

    async def get(self, wanted: Sequence[str], tenant: str | None = None) -> list[Timer | None]:
        """Timers by id, of one tenant or of all, None where there is none."""
        by_shard = _by_shard([(ids.shard_of(id_), id_) for id_ in wanted if ids.is_id(id_)])
        found: dict[str, Timer] = {}

        async def read(shard: int, part: Sequence[str]) -> None:
            for id_, state, light, heavy in await self._run(GET, (shard, part)):
                if state is not None:
                    found[id_] = to_timer(state, heavy if light is None else light)

        async def read_own(shard: int, part: Sequence[str]) -> None:
            rows = await self._run(GET_LIGHT, (shard, part))
            own = [
                row for row in rows if row[1] is not None and to_counted(row[1]).tenant == tenant
            ]
            found.update(
                (id_, to_timer(state, spec)) for id_, state, spec in own if spec is not None
            )
            if heavy := [id_ for id_, _, spec in own if spec is None]:
                await read(shard, heavy)

        await _all(read if tenant is None else read_own, by_shard)
        return [found.get(id_) for id_ in wanted]

    async def get_by_key(self, keys: Sequence[Key]) -> list[Timer | None]:
        """Timers by key, None where there is none."""
        by_shard = _by_shard([(key.shard, key_of(key)) for key in keys])
        owners: dict[tuple[int, str], str] = {}

        async def read(shard: int, part: Sequence[str]) -> None:
            for key, timer in await self._run(GET_KEYS, (shard, part)):
                owners[shard, key] = timer

        await _all(read, by_shard)
        return await self.get([owners.get((key.shard, key_of(key)), "") for key in keys])

    # What is due ------------------------------------------------------------------------------

    async def due(
        self, shards: Collection[int], after: Due | None, before: Millis, limit: int
    ) -> list[Waking]:
        """Lines of what wakes until then, over all of these shards.

        Who goes on behind a place has begun without one, or will: the list of shards is read then.
        """
        heads = await (self._shards.read() if after is None else self._shards.read_once())
        asked = [shard for shard in heads if shard in shards]
        if limit <= 0 or not asked:
            return []
        lines, patience = [], Patience()
        for shard in asked:
            for kind in _kinds(heads[shard]):
                place = after or BEGINNING
                if kind == DUE and (head := heads[shard]) is not None:
                    self._cuts[DUE].forget(shard, head)
                    place = max(place, head)
                if place < (end := Due(before, _LAST)):
                    stretch = self._stretch(WAKING, kind, shard, place, end, patience=patience)
                    lines.append(DueLine(stretch))
        floors = {shard: self._floor(shard) for shard in asked}
        size = min(limit, 2 * limit // len(asked) + _SHORTEST)
        await read_lines(lines, size, limit)
        if after is None:
            await self._tell_floors(lines, floors)
        # One that was moved to the late ones meanwhile may have been found in both places.
        return heapq.nsmallest(limit, {waking for line in lines for waking in line.found})

    def _stretch(
        self,
        statement: str,
        kind: int,
        shard: int,
        place: Due,
        end: Due,
        *,
        patience: Patience | None = None,
    ) -> Stretch:
        return Stretch(
            self._crowd,
            self._cuts[kind],
            statement,
            kind=kind,
            shard=shard,
            place=place,
            end=end,
            patience=patience or Patience(),
        )

    def _floor(self, shard: int) -> Due | None:
        lane = self._lanes.known(shard)
        return None if lane is None else lane.ground.floor

    async def _tell_floors(self, lines: Sequence[DueLine], floors: dict[int, Due | None]) -> None:
        for line in lines:
            if line.stretch.kind == DUE:
                shard = line.stretch.shard
                await self._floors.saw(shard, line.beginning, floors[shard], line.found)

    # Walking ----------------------------------------------------------------------------------

    async def search(self, query: Query) -> Page:
        """A page of timers, found by reading along."""
        read = partial(self._part, tenant=query.tenant)
        return await walk(query, await self._shards.read(), read)

    async def scan(self, after: str | None, limit: int) -> list[Timer]:
        """Every timer there is, shard by shard."""
        return await scan_shards(after, limit, await self._shards.read(), self._part, _PORTION)

    async def _part(
        self,
        shard: int,
        place: str | None,
        is_descending: bool,  # noqa: FBT001 - as a walk asks
        limit: int,
        tenant: str | None = None,
    ) -> Part:
        """Some timers of a shard, of one tenant or of all; of the heavy ones only a few are read.

        It goes on until it has looked at something, or there is no more: heavy ones may have
        expired between the two reads. Of others' timers, no heavy one is read.
        """
        statement, first, last = (DOWNWARDS, _LAST, "") if is_descending else (UPWARDS, "", _LAST)
        begin = Due(0, first if place is None else place)
        stretch = self._stretch(statement, TRUTH, shard, begin, Due(0, last))
        rows: list[Row] = []
        while True:
            while not rows and not stretch.is_over:
                rows = await stretch.read(limit)
            strange = {id_ for _, id_, state, _ in rows if _is_strange(state, tenant)}
            heavy = [id_ for _, id_, _, spec in rows if spec is None and id_ not in strange]
            heavy = heavy[:_MOST_HEAVY]
            read = {timer.id: timer for timer in await self.get(heavy) if timer}
            timers: list[Timer] = []
            rest: list[Row] = []
            left_out, looked_to = 0, None
            for number, (_, id_, state, spec) in enumerate(rows):
                if id_ in strange:
                    left_out += 1
                elif spec is not None:
                    timers.append(to_timer(state, spec))
                elif id_ in read:
                    timers.append(read[id_])
                elif id_ not in heavy:
                    rest = rows[number:]  # which would be too much at once
                    break
                looked_to = id_
            is_last = not rest and stretch.is_over
            if timers or left_out or is_last:
                return Part(timers, is_last, left_out, looked_to)
            rows = rest

    async def count(self, tenant: str) -> list[Count]:
        """How many timers a tenant has, found by reading along, without what they carry."""
        found: Counter[tuple[str, Status]] = Counter()

        async def read(shard: int) -> None:
            stretch = self._stretch(STATES, TRUTH, shard, Due(0, ""), Due(0, _LAST))
            while not stretch.is_over:
                rows = await stretch.read(_COUNTED)
                timers = (to_counted(state) for *_, state in rows if state is not None)
                found.update((one.group, one.status) for one in timers if one.tenant == tenant)

        for part in parts(list(await self._shards.read()), _COUNTED_SHARDS):
            await asyncio.gather(*map(read, part))
        return [Count(group, status, timers) for (group, status), timers in found.items()]

    # The rest ---------------------------------------------------------------------------------

    async def attempts(
        self, timer: str, after: tuple[int, int] | None, limit: int
    ) -> list[Attempt]:
        """A timer's execution log."""
        if not ids.is_id(timer):
            return []
        number = _NO_NUMBER if after is None else number_of(*after)
        rows = await self._run(ATTEMPTS, (ids.shard_of(timer), timer, number, limit))
        return to_attempts([body for (body,) in rows])

    async def endless_lines(self, timer: str, limit: int) -> list[tuple[int, str]]:
        """Lines of a timer's log that have no time to live: their numbers and texts.

        Each end of the timer gives one to all that it finds, the oldest first. So those without are
        the newest, and what expired long ago is not stepped over.
        """
        shard = ids.shard_of(timer)
        numbers: list[int] = []  # from the newest on
        is_over = False
        while not is_over:
            last = numbers[-1] if numbers else _LAST_NUMBER
            rows = await self._run(LIFETIMES, (shard, timer, last, _LIFETIMES_AT_ONCE))
            endless = [number for number, _ in takewhile(_is_endless, rows)]
            numbers += endless
            is_over = len(endless) < _LIFETIMES_AT_ONCE
        oldest = numbers[-limit:]
        lines: list[tuple[int, str]] = []
        for part in parts(oldest, _LINES_AT_ONCE):
            lines += [(n, body) for n, body in await self._run(LINES, (shard, timer, part))]
        return lines

    async def events(self, shards: Collection[int], after: str | None, limit: int) -> list[Event]:
        """Events that were not published yet."""
        in_use = [shard for shard in await self._shards.read() if shard in shards]
        begin, end = Due(0, after or ""), Due(0, _LAST)

        async def some(shards: Sequence[int], portion: int) -> list[list[Event]]:
            found = await asyncio.gather(
                *(
                    self._rows(self._stretch(EVENTS, EVENT, shard, begin, end), portion)
                    for shard in shards
                )
            )
            return [[decode_event(body) for _, _, body in rows] for rows in found]

        return await merged(in_use, some, limit)

    async def ended(self, shards: Collection[int], before: Millis, limit: int) -> list[Ended]:
        """Some timers that ended before then, and that no time to live ends: others each time."""
        if limit <= 0:
            return []
        end = Due(before - 1, _LAST)
        stretches = [
            self._stretch(ENDINGS, FINISHED, shard, min(self._rounds.place(shard), end), end)
            for shard in await self._shards.read()
            if shard in shards
        ]
        found = await asyncio.gather(*(self._rows(stretch, limit) for stretch in stretches))
        doomed: list[str] = []
        for stretch, rows in zip(stretches, found, strict=True):
            taken = rows[: limit - len(doomed)]
            doomed += [id_ for _, id_ in taken]
            if len(taken) == len(rows):
                is_end = stretch.is_over
                self._rounds.came_to(stretch.shard, stretch.place, before, is_end=is_end)
            elif taken:
                self._rounds.came_to(stretch.shard, Due(*taken[-1]), before, is_end=False)
        return await self._states(doomed)

    async def _states(self, wanted: Sequence[str]) -> list[Ended]:
        """What is left of these timers, without what they carry."""
        found: list[Ended] = []

        async def read(shard: int, part: Sequence[str]) -> None:
            rows = await self._run(GET_STATES, (shard, part))
            found.extend(to_ended(state) for (state,) in rows if state is not None)

        await _all(read, _by_shard([(ids.shard_of(id_), id_) for id_ in wanted]))
        return found

    async def _rows(self, stretch: Stretch, limit: int) -> list[Row]:
        """So many rows of a stretch, or all of them."""
        rows: list[Row] = []
        while not stretch.is_over and len(rows) < limit:
            rows += await stretch.read(limit - len(rows))
        return rows


def _is_strange(state: str | None, tenant: str | None) -> bool:
    """Tell whether a timer is another tenant's than that of whom is asked; None: whosever."""
    return tenant is not None and state is not None and to_counted(state).tenant != tenant


def _is_endless(row: Row) -> bool:
    _, lives = row
    return lives is None


def _kinds(head: Due | None) -> tuple[int, ...]:
    """Nothing is late in a shard that has no head."""
    return (DUE,) if head is None else (DUE, LATE)


def _by_shard(items: Sequence[tuple[int, ItemT]]) -> list[tuple[int, Sequence[ItemT]]]:
    """Items by their shards, so many at a time."""
    by_shard: dict[int, dict[ItemT, None]] = {}
    for shard, item in items:
        by_shard.setdefault(shard, {})[item] = None
    return [(shard, part) for shard, own in by_shard.items() for part in parts(list(own), _LONGEST)]


async def _all(
    read: Callable[[int, Sequence[ItemT]], Awaitable[None]],
    by_shard: Sequence[tuple[int, Sequence[ItemT]]],
) -> None:
    await asyncio.gather(*(read(shard, part) for shard, part in by_shard))
