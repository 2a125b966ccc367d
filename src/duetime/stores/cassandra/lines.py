"""Lines of the audit: a partition for each hour of a tenant's, and a list of the hours with some.

They are written without a condition, since a place says all: written again, a line is the same. An
hour is put on the list before its lines, and stays there for longer than they live.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

from duetime import ids
from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.stores.cassandra.pieces import time_to_live
from duetime.stores.cassandra.session import Session, Step
from duetime.stores.codec import decode_line, to_json
from duetime.stores.portions import portions

_HOUR: Millis = 3_600_000
# A line may be written later than it was made, and lives on from then. Its hour must be found until
# it has ended; but one whose lines have ended is looked into in vain.
_LONGER: Millis = 24 * _HOUR

_HEAVIEST = 512 * 1024  # bytes in a batch, more or less
_LONGEST = 200  # lines in a batch
_AT_ONCE = 8  # batches
_LISTED = 200  # hours that are read of the list at once
_MOST_HOURS = 16  # that are read at once
_MOST_KNOWN = 10_000

_PUT = "INSERT INTO duetime.lines (tenant, hour, id, body) VALUES (?, ?, ?, ?) USING TTL ?"
_LIST = "INSERT INTO duetime.hours (tenant, hour, kept_for) VALUES (?, ?, ?) USING TTL ?"
_HOURS = (
    "SELECT hour FROM duetime.hours WHERE tenant = ? AND hour > ? "
    "ORDER BY hour ASC, kept_for ASC LIMIT ?"
)
_HOURS_DOWN = (
    "SELECT hour FROM duetime.hours WHERE tenant = ? AND hour < ? "
    "ORDER BY hour DESC, kept_for DESC LIMIT ?"
)
_READ = (
    "SELECT id, body FROM duetime.lines WHERE tenant = ? AND hour IN ? AND id > ? "
    "PER PARTITION LIMIT ?"
)
_READ_DOWN = (
    "SELECT id, body FROM duetime.lines WHERE tenant = ? AND hour IN ? AND id < ? "
    "ORDER BY id DESC PER PARTITION LIMIT ?"
)

_BEFORE_ALL, _BEHIND_ALL = -1, 2**31 - 1  # hours

_Hour = tuple[str, int]  # a tenant and a number, since 1970


class Lines:
    """Writes them and reads them in their order."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._known: set[tuple[_Hour, int]] = set()  # those that are surely on the list
        self._writing: set[asyncio.Task[None]] = set()

    async def write(self, lines: Sequence[AuditLine], keep_for: Millis | None) -> None:
        """Keep lines for so long. It goes on to its end though nobody waits any more."""
        task = asyncio.create_task(self._write(lines, keep_for))
        self._writing.add(task)
        task.add_done_callback(self._has_ended)
        await asyncio.shield(task)

    async def idle(self) -> None:
        """Return when nothing is under way."""
        while self._writing:
            await asyncio.wait(self._writing)

    def _has_ended(self, task: asyncio.Task[None]) -> None:
        self._writing.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be left to hear of it

    async def _write(self, lines: Sequence[AuditLine], keep_for: Millis | None) -> None:
        by_hour: dict[_Hour, list[Step]] = {}
        lives = time_to_live(keep_for)
        for line in lines:
            hour = (line.tenant, _hour_of(line.id))
            step = (_PUT, (*hour, line.id, to_json(line), lives))
            by_hour.setdefault(hour, []).append(step)
        listed = {(hour, lives) for hour in by_hour} - self._known
        longer = time_to_live(None if keep_for is None else keep_for + _LONGER)
        await self._run([[(_LIST, (*hour, lives, longer))] for hour, _ in listed])
        if len(self._known) + len(listed) > _MOST_KNOWN:
            self._known.clear()
        self._known |= listed
        await self._run(
            [
                part
                for steps in by_hour.values()
                for part in portions(steps, _weight, heaviest=_HEAVIEST, longest=_LONGEST)
            ]
        )

    async def _run(self, batches: Sequence[Sequence[Step]]) -> None:
        """Run batches, each of one partition; when it raises, none is under way any more."""

        async def run(steps: Sequence[Step]) -> None:
            async with self._room:
                await self._session.run_batch(steps)

        for answer in await asyncio.gather(*map(run, batches), return_exceptions=True):
            if answer is not None:
                raise answer

    async def read(
        self, tenant: str, after: str | None, limit: int, *, descending: bool
    ) -> list[AuditLine]:
        """A tenant's lines in the order of their ids, behind a place."""
        behind = None if after is None else ids.bound(after)
        place = behind or ("~" if descending else "")
        found: list[AuditLine] = []
        statement = _READ_DOWN if descending else _READ
        async for hours in self._hours(tenant, behind, descending=descending):
            if len(found) >= limit:
                break
            left = limit - len(found)
            rows = await self._session.run(statement, (tenant, hours, place, left))
            rows.sort(reverse=descending)
            found += [decode_line(body) for _, body in rows[:left]]
        return found

    async def _hours(
        self, tenant: str, behind: str | None, *, descending: bool
    ) -> AsyncIterator[list[int]]:
        """The hours that may have lines there, in order: first one, then more and more at once.

        A page is mostly of one hour; and where it is not, hours have few lines each.
        """
        statement = _HOURS_DOWN if descending else _HOURS
        if behind is None:
            place = _BEHIND_ALL if descending else _BEFORE_ALL
        else:
            place = _hour_of(behind) + (1 if descending else -1)
        at_once = 1
        while True:
            rows = await self._session.run(statement, (tenant, place, _LISTED))
            hours = list(dict.fromkeys(hour for (hour,) in rows))
            if not hours:
                return
            place = hours[-1]
            while hours:
                yield hours[:at_once]
                hours = hours[at_once:]
                at_once = min(2 * at_once, _MOST_HOURS)


def _hour_of(line: str) -> int:
    return ids.time_of(line) // _HOUR


def _weight(step: Step) -> int:
    _, (*_, body, _) = step
    return len(body)
