"""The differences between two stores, looked for once their checksums have shown that there are.

An engine that drops finished timers by itself goes on doing so while it is copied. What the source
has dropped since then is no difference to worry about: the target has it still.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import NamedTuple

from duetime.model import FINISHED, Event
from duetime.moving.contents import Contents, TimerWithLog


class Differences(NamedTuple):
    """What was found."""

    named: list[str]  # a few words for each
    dropped: int  # finished timers, and logs, of which the source has dropped something


class _Difference(NamedTuple):
    words: str
    may_be_dropped: bool = False


async def differences(source: Contents, target: Contents, most: int, *, drops: bool) -> Differences:
    """What differs, named no more than so often; ``drops`` says that the source may drop things."""
    named: list[str] = []
    dropped = 0
    async with aclosing(_differences(source, target)) as differing:
        async for difference in differing:
            if drops and difference.may_be_dropped:
                dropped += 1
                continue
            named.append(difference.words)
            if len(named) == most:
                break
    return Differences(named, dropped)


async def _differences(source: Contents, target: Contents) -> AsyncGenerator[_Difference]:
    after: str | None = None
    while part := await source.timers(after):
        others = await target.get([one.timer.id for one in part])
        for one, other in zip(part, others, strict=True):
            if other is None:
                yield _Difference(f"{one.timer.id} is missing in the target")
            elif other != one:
                words = f"{one.timer.id} differs in the target"
                yield _Difference(words, _has_fewer_attempts(one, other))
        after = part[-1].timer.id
    after = None
    while part := await target.timers(after):
        others = await source.get([one.timer.id for one in part])
        for one, other in zip(part, others, strict=True):
            if other is None:
                words = f"{one.timer.id} is in the target only"
                yield _Difference(words, one.timer.status in FINISHED)
        after = part[-1].timer.id
    if await source.records() != await target.records():
        yield _Difference("the records differ")
    old, new = await _events(source), await _events(target)
    if old != new:
        is_dropped = old.items() <= new.items() and not await _is_any_there(
            source, (new[id_].timer for id_ in new.keys() - old.keys())
        )
        yield _Difference("the events that wait to be published differ", is_dropped)


def _has_fewer_attempts(one: TimerWithLog, other: TimerWithLog) -> bool:
    return one.timer == other.timer and all(line in other.attempts for line in one.attempts)


async def _events(contents: Contents) -> dict[str, Event]:
    return {event.id: event async for part in contents.events() for event in part}


async def _is_any_there(contents: Contents, timers: Iterable[str]) -> bool:
    return any(await contents.get(list(set(timers))))
