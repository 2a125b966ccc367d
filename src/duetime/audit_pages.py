"""Pages of the audit: the lines that somebody asks for, a page or all of them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

import msgspec

from duetime import ids
from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.tenancy.caller import Caller

MOST_SEEN = 10_000  # lines that one page looks at
READ_AT_ONCE = 500

# From a place and a limit, the lines of one tenant behind it in the order asked for.
Read = Callable[[str | None, int], Awaitable[list[AuditLine]]]


class Lines(Protocol):
    """The lines of a tenant, as a store answers them."""

    async def __call__(
        self, tenant: str, after: str | None, limit: int, *, descending: bool
    ) -> list[AuditLine]: ...


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines; times are half-open: after <= t < before."""

    actor: str | None = None
    key: str | None = None
    action: str | None = None
    kind: str | None = None
    target: str | None = None
    group: str | None = None
    after: Millis | None = None
    before: Millis | None = None
    descending: bool = True


class AuditPage(msgspec.Struct, frozen=True):
    """Some lines, and where to go on; None: there is nothing behind them."""

    lines: list[AuditLine]
    next_place: str | None


async def page(
    read: Read, caller: Caller, wanted: AuditFilter, place: str | None, limit: int
) -> AuditPage:
    """A page of the lines that are wanted; it ends early where they are few among many."""
    found: list[AuditLine] = []
    seen = 0
    place = _first_place(wanted) if place is None else place
    while True:
        lines = await read(place, READ_AT_ONCE)
        for line in lines:
            if _is_past(line, wanted):
                return AuditPage(found, None)
            place = line.id
            if _matches(line, caller, wanted):
                found.append(line)
                if len(found) == limit:
                    return AuditPage(found, place)
        seen += len(lines)
        if len(lines) < READ_AT_ONCE:
            return AuditPage(found, None)
        if seen >= MOST_SEEN:
            return AuditPage(found, place)


async def all_lines(
    read: Read, caller: Caller, wanted: AuditFilter
) -> AsyncIterator[list[AuditLine]]:
    """Every line that is wanted, some at a time."""
    place: str | None = None
    while True:
        part = await page(read, caller, wanted, place, READ_AT_ONCE)
        if part.lines:
            yield part.lines
        place = part.next_place
        if place is None:
            return


def _first_place(wanted: AuditFilter) -> str | None:
    at = wanted.before if wanted.descending else wanted.after
    return None if at is None else ids.first_at(at)


def _is_past(line: AuditLine, wanted: AuditFilter) -> bool:
    if wanted.descending:
        return wanted.after is not None and line.at < wanted.after
    return wanted.before is not None and line.at >= wanted.before


def _matches(line: AuditLine, caller: Caller, wanted: AuditFilter) -> bool:
    # To those whose key is for some groups, there is nothing but what happened in one of these:
    # not what was done to timers of several groups at once, be they all theirs.
    if caller.groups is not None and line.group not in caller.groups:
        return False
    return all(
        asked is None or asked == had
        for asked, had in (
            (wanted.actor, line.actor),
            (wanted.key, line.key),
            (wanted.action, line.action),
            (wanted.kind, line.kind),
            (wanted.target, line.target),
            (wanted.group, line.group),
        )
    )


class AuditReader:
    """Reads the audit for callers."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    async def page(
        self, caller: Caller, wanted: AuditFilter, place: str | None, limit: int
    ) -> AuditPage:
        """Some of what was done in a tenant."""
        return await page(self._reading(caller, wanted), caller, wanted, place, limit)

    def all(self, caller: Caller, wanted: AuditFilter) -> AsyncIterator[list[AuditLine]]:
        """All of what was done in a tenant, some at a time."""
        return all_lines(self._reading(caller, wanted), caller, wanted)

    def _reading(self, caller: Caller, wanted: AuditFilter) -> Read:
        async def read(place: str | None, limit: int) -> list[AuditLine]:
            return await self._lines(caller.tenant, place, limit, descending=wanted.descending)

        return read
