"""The clock: the only place that reads the time.

Wall-clock times are whole milliseconds since 1970 in UTC. ``now`` rounds down, so that
``clock.now() >= due`` can only be true once the time has really come.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol, TypeAlias, TypeVar, cast

Millis: TypeAlias = int

T = TypeVar("T")


class Alarm(Protocol):
    """Something that will be done at a time to come."""

    def cancel(self) -> object:
        """Do not do it."""


class Clock(Protocol):
    """What tells the time, and what waits for it to pass."""

    def now(self) -> Millis:
        """The wall clock. It may step in either direction."""

    def monotonic(self) -> float:
        """Seconds that only ever grow, from an arbitrary start."""

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Wait for the event, at most so long; tell whether it came."""

    def alarm(self, seconds: float, ring: Callable[[], None]) -> Alarm:
        """Call this after so long, unless it is cancelled by then."""


# Linux has a clock that goes on while the machine is suspended. A node's claims do not wait for it.
_SINCE_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """The machine's own clock."""

    def now(self) -> Millis:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic() if _SINCE_BOOT is None else time.clock_gettime(_SINCE_BOOT)

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        if event.is_set():
            return True
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await event.wait()
        except TimeoutError:
            return event.is_set()
        return True

    def alarm(self, seconds: float, ring: Callable[[], None]) -> Alarm:
        return asyncio.get_running_loop().call_later(seconds, ring)


async def sleep(clock: Clock, seconds: float) -> None:
    """Let so much time pass."""
    await clock.wait(asyncio.Event(), seconds)


@asynccontextmanager
async def time_limit(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """End what is done in here with a TimeoutError, if it takes longer than this."""
    async with asyncio.timeout(None) as limit:
        alarm = clock.alarm(seconds, lambda: limit.reschedule(0))
        try:
            yield
        finally:
            alarm.cancel()


class SharedTimeLimit:
    """The same as ``time_limit``, for what is done very often: all of it shares one alarm."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._since: dict[asyncio.Task[Any], float] = {}  # the longest under way first
        self._late: set[asyncio.Task[Any]] = set()
        self._alarm: Alarm | None = None

    async def run(self, work: Awaitable[T]) -> T:
        """Await this, and end it with a TimeoutError if it takes too long."""
        task = cast("asyncio.Task[Any]", asyncio.current_task())  # whoever awaits is in one
        others = task.cancelling()
        self._since[task] = self._clock.monotonic()
        if self._alarm is None:
            self._alarm = self._clock.alarm(self._seconds, self._ring)
        try:
            return await work
        except asyncio.CancelledError:
            if task in self._late and task.uncancel() <= others:
                raise TimeoutError from None
            raise
        finally:
            del self._since[task]
            self._late.discard(task)

    def _ring(self) -> None:
        self._alarm = None
        now = self._clock.monotonic()
        for task, since in self._since.items():
            left = since + self._seconds - now
            if left > 0:
                self._alarm = self._clock.alarm(left, self._ring)
                return
            if task not in self._late:
                self._late.add(task)
                task.cancel()


@lru_cache(maxsize=1024)  # timers that are created or due together show the same times
def to_rfc3339(at: Millis) -> str:
    """Write a time as the API shows it: UTC, with milliseconds only where there are any."""
    seconds, millis = divmod(at, 1000)
    text = _to_the_second(seconds)
    return f"{text}.{millis:03d}Z" if millis else f"{text}Z"


@lru_cache(maxsize=1024)  # those of others lie close together
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)?", re.ASCII
)


@lru_cache(maxsize=1024)  # timers that are created together are often due together
def read_rfc3339(text: str) -> datetime:
    """Read a time as people write it, with its offset or without one; ValueError if it is none."""
    if _RFC3339.fullmatch(text) is None:
        raise ValueError('must be a time such as "2030-01-01T09:00:00Z"')
    return datetime.fromisoformat(text.upper())


def from_datetime(at: datetime) -> Millis:
    """Turn an aware datetime into milliseconds, rounded up so that nothing fires early."""
    delta = (at if at.tzinfo is UTC else at.astimezone(UTC)) - _EPOCH
    micros = (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    return -(-micros // 1000)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The last millisecond of the last year that can be written.
LATEST: Millis = from_datetime(datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC))
