"""The sweep: a slow walk through the whole table, for what nobody else has told when to go.

How far it has come is a record, so that it goes on wherever a node of any name takes it up. It is
done once a month, and anew after the table was opened by somebody without a retention. A table that
was just made for somebody with one has nothing to be found, and its first month is left out.

It shall be in nobody's way. So it reads a page at a time, of a megabyte at most, of what may be a
second old, at half the price; it does a few things at once, in the order of the page; and when its
time is over, it stops there, and the next step goes on behind the last item that was dealt with.
"""

from collections.abc import AsyncIterator, Sequence
from itertools import islice

import msgspec

from duetime.clock import Clock, Millis
from duetime.errors import StoreUnavailable
from duetime.stores import Record
from duetime.stores.dynamodb import leftovers, records
from duetime.stores.dynamodb.calls import Calls, Item
from duetime.stores.dynamodb.expiry import Expiry
from duetime.stores.dynamodb.keys import Place
from duetime.stores.dynamodb.leftovers import Leftovers
from duetime.stores.portions import parts

KIND = "sweep"
EVERY: Millis = 30 * 86_400_000
STEP_WITHIN = 3.0  # seconds after which a step begins nothing more
WIDTH = 4  # writes at once: others need the table more

_NAME = "table"
_AT_ONCE = 20  # items whose timers are read together


class _Stand(msgspec.Struct, frozen=True, omit_defaults=True):
    after: dict[str, dict[str, str]] | None = None  # the item that it has come to
    ended_at: Millis | None = None  # None: it is under way
    is_of_new_table: bool = False  # it is at its end, and the next step notes the time


class Sweep:
    """Walks, and has tidied up what it meets.

    ``calls`` must be patient for longer than a step lasts: who fails later than that was throttled
    all the time, or not heard, and is no trouble of the sweep's own.
    """

    def __init__(self, calls: Calls, quick: Calls, expiry: Expiry, clock: Clock) -> None:
        self._calls = calls
        self._quick = quick
        self._leftovers = Leftovers(calls, expiry)
        self._clock = clock

    async def is_needed(self) -> None:
        """Say that it must begin anew: from now on, somebody may write without dates."""
        await records.overwrite(self._quick, KIND, _NAME, _encode(_Stand()))

    async def is_not_needed(self) -> None:
        """Say that the table was just made, unless somebody has said anything since."""
        stand = _Stand(is_of_new_table=True)
        await records.put(self._quick, None, _record(stand))

    async def step(self, now: Millis, limit: int) -> int:
        """Go on, at most for a page of so many items; how many were dated or removed."""
        over_at = self._clock.monotonic() + STEP_WITHIN
        record = next(iter(await records.read(self._quick, KIND)), None)
        before = msgspec.json.decode(record.data, type=_Stand) if record else _Stand()
        if before.is_of_new_table:
            await self._note(record, _Stand(ended_at=now))
            return 0
        if before.ended_at is not None and now < before.ended_at + EVERY:
            return 0
        done = 0
        stand = before
        try:
            page, end = await self._page(before.after, limit)
            async for last, count in self._tidied(page, now):
                done += count
                stand = _Stand(after=Place.of(last).key)
                if self._clock.monotonic() >= over_at:
                    break
            else:
                stand = _Stand(after=end) if end else _Stand(ended_at=now)
        except StoreUnavailable:
            if self._clock.monotonic() < over_at:
                raise
        if stand != before:
            await self._note(record, stand)
        return done

    async def _note(self, record: Record | None, stand: _Stand) -> None:
        # If it fails, somebody else sweeps too, or it must begin anew: the next step will see.
        await records.put(self._quick, record, _record(stand, record.version + 1 if record else 1))

    async def _page(self, after: Item | None, limit: int) -> tuple[list[Item], Item | None]:
        where = {"ExclusiveStartKey": after} if after else {}
        answer = await self._calls.ask("Scan", Limit=max(limit, 1), **leftovers.FILTER, **where)
        return list(filter(leftovers.is_one, answer["Items"])), answer.get("LastEvaluatedKey")

    async def _tidied(self, page: Sequence[Item], now: Millis) -> AsyncIterator[tuple[Item, int]]:
        """Deal with a few items after the other: the last of them, and how many were changed."""
        owners: dict[str, Item] = {}
        for part in parts(page, _AT_ONCE):
            owners |= await self._leftovers.owners(part)
            left = iter(part)
            while few := list(islice(left, WIDTH)):
                yield few[-1], await self._leftovers.tidy(few, owners, now)


def _record(stand: _Stand, version: int = 1) -> Record:
    return Record(kind=KIND, name=_NAME, version=version, data=_encode(stand))


_encode = msgspec.json.encode
