"""The differences between two stores, looked for once their checksums have shown that there are.

An engine that drops by itself what is old goes on doing so while it is copied. What the source has
dropped since then is no difference to worry about: the target has it still. Nor is what the target
has dropped already, since it came with the time when it was to go.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import aclosing
from typing import NamedTuple

from duetime import ids
from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.moving.contents import Contents, TimerWithLog
from duetime.timer import FINISHED, Event, Timer

FROM, TO = "FROM", "TO"  # what users call the two sides


class Differences(NamedTuple):
    """What was found."""

    named: list[str]  # a few words for each
    dropped: Counter[str]  # of how many timers, logs and lines each side has dropped something


class Expiry(NamedTuple):
    """What a target that drops by itself may have dropped by now."""

    now: Millis
    keep_lines_for: Millis | None

    def is_over_for_timer(self, timer: Timer) -> bool:
        return timer.drop_at is not None and timer.drop_at <= self.now

    def is_over_for_line(self, line: AuditLine) -> bool:
        keep_for = self.keep_lines_for
        return keep_for is not None and ids.time_of(line.id) + keep_for <= self.now


class _Difference(NamedTuple):
    words: str
    dropped_by: str | None = None  # the side that may have, if it drops by itself


async def differences(
    source: Contents, target: Contents, most: int, *, droppers: Collection[str], expiry: Expiry
) -> Differences:
    """What differs, named no more than so often; ``droppers`` are the sides that drop things."""
    named: list[str] = []
    dropped: Counter[str] = Counter()
    async with aclosing(_differences(source, target, expiry)) as differing:
        async for difference in differing:
            side = difference.dropped_by
            if side is not None and side in droppers:
                dropped[side] += 1
                continue
            named.append(difference.words)
            if len(named) == most:
                break
    return Differences(named, dropped)


async def _differences(
    source: Contents, target: Contents, expiry: Expiry
) -> AsyncGenerator[_Difference]:
    for each in (
        _in_timers(source, target, expiry),
        _in_records(source, target),
        _in_events(source, target),
        _in_lines(source, target, expiry),
    ):
        async with aclosing(each) as differing:
            async for difference in differing:
                yield difference


async def _in_timers(
    source: Contents, target: Contents, expiry: Expiry
) -> AsyncGenerator[_Difference]:
    after: str | None = None
    while part := await source.timers(after):
        others = await target.get([one.timer.id for one in part])
        for one, other in zip(part, others, strict=True):
            by_target = TO if expiry.is_over_for_timer(one.timer) else None
            if other is None:
                yield _Difference(f"{one.timer.id} is missing in the target", by_target)
            elif other != one:
                by_target = by_target if _has_fewer_attempts(other, one) else None
                dropped_by = FROM if _has_fewer_attempts(one, other) else by_target
                yield _Difference(f"{one.timer.id} differs in the target", dropped_by)
        after = part[-1].timer.id
    after = None
    while part := await target.timers(after):
        others = await source.get([one.timer.id for one in part])
        for one, other in zip(part, others, strict=True):
            if other is None:
                words = f"{one.timer.id} is in the target only"
                yield _Difference(words, FROM if one.timer.status in FINISHED else None)
        after = part[-1].timer.id


async def _in_records(source: Contents, target: Contents) -> AsyncGenerator[_Difference]:
    for kind in dict.fromkeys(await source.kinds() + await target.kinds()):
        old = {record.name: record for record in await source.records(kind)}
        new = {record.name: record for record in await target.records(kind)}
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                where = _where(is_old=name in old, is_new=name in new)
                yield _Difference(f"the record of {kind} {name} {where}")


async def _in_events(source: Contents, target: Contents) -> AsyncGenerator[_Difference]:
    old, new = await _events(source), await _events(target)
    if old != new:
        is_dropped = old.items() <= new.items() and not await _is_any_there(
            source, (new[id_].timer for id_ in new.keys() - old.keys())
        )
        words = "the events that wait to be published differ"
        yield _Difference(words, FROM if is_dropped else None)


async def _in_lines(
    source: Contents, target: Contents, expiry: Expiry
) -> AsyncGenerator[_Difference]:
    for tenant in sorted({*await source.tenants(), *await target.tenants()}):
        async with aclosing(_pairs(source, target, tenant)) as pairs:
            async for id_, old, new in pairs:
                if old == new:
                    continue
                dropped_by = FROM if old is None else None
                if old is not None and new is None and expiry.is_over_for_line(old):
                    dropped_by = TO
                where = _where(is_old=old is not None, is_new=new is not None)
                yield _Difference(f"the line {id_} of the audit of {tenant} {where}", dropped_by)


class _Pair(NamedTuple):
    id: str
    old: AuditLine | None
    new: AuditLine | None


async def _pairs(source: Contents, target: Contents, tenant: str) -> AsyncGenerator[_Pair]:
    """A tenant's lines of both sides in their order, as no store is asked for a line by its id."""
    async with aclosing(_lines(source, tenant)) as olds, aclosing(_lines(target, tenant)) as news:
        old, new = await anext(olds, None), await anext(news, None)
        while old is not None or new is not None:
            id_ = min(line.id for line in (old, new) if line is not None)
            has_old = old is not None and old.id == id_
            has_new = new is not None and new.id == id_
            yield _Pair(id_, old if has_old else None, new if has_new else None)
            if has_old:
                old = await anext(olds, None)
            if has_new:
                new = await anext(news, None)


async def _lines(contents: Contents, tenant: str) -> AsyncGenerator[AuditLine]:
    async with aclosing(contents.all_lines(tenant)) as parts:
        async for part in parts:
            for line in part:
                yield line


def _where(*, is_old: bool, is_new: bool) -> str:
    if is_old and is_new:
        return "differs in the target"
    return "is missing in the target" if is_old else "is in the target only"


def _has_fewer_attempts(one: TimerWithLog, other: TimerWithLog) -> bool:
    return one.timer == other.timer and all(line in other.attempts for line in one.attempts)


async def _events(contents: Contents) -> dict[str, Event]:
    return {event.id: event async for part in contents.events() for event in part}


async def _is_any_there(contents: Contents, timers: Iterable[str]) -> bool:
    return any(await contents.get(list(set(timers))))
