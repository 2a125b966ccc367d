"""What a test needs to be the master of time, of failures and of answers.

Public: users test their own code against Duetime with these too.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import urlsplit

from duetime.clock import Alarm, Millis
from duetime.errors import StoreUnavailable
from duetime.stores import Store
from duetime.timer import Callback, HttpCallback, Kind, Outcome, Timer


class FakeClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: Millis = 1_750_000_000_000) -> None:
        self._now = now
        self._monotonic = 1000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._sequence = 0

    def now(self) -> Millis:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        alarm = self._set_alarm(seconds)
        came = asyncio.ensure_future(event.wait())
        waiting: set[asyncio.Future[Any]] = {came, alarm}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            came.cancel()
            alarm.cancel()
        return event.is_set()

    def alarm(self, seconds: float, ring: Callable[[], None]) -> Alarm:
        alarm = self._set_alarm(seconds)
        alarm.add_done_callback(lambda alarm: None if alarm.cancelled() else ring())
        return alarm

    def advance(self, millis: Millis) -> None:
        """Let time pass: both clocks move, and whoever waited that long wakes up."""
        self._now += millis
        self._monotonic += millis / 1000
        while self._sleepers and self._sleepers[0][0] <= self._monotonic:
            alarm = heapq.heappop(self._sleepers)[2]
            if not alarm.done():
                alarm.set_result(None)

    def step_wall_clock(self, millis: Millis) -> None:
        """Set the wall clock forward or back, as an operator or NTP would."""
        self._now += millis

    def _set_alarm(self, seconds: float) -> asyncio.Future[None]:
        self._sequence += 1
        alarm: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._monotonic + max(seconds, 0), self._sequence, alarm))
        return alarm


class RecordingSender:
    """A sender that keeps what it was given and answers as it was told to."""

    def __init__(self) -> None:
        self.sent: list[Timer] = []
        self.answers: deque[Outcome] = deque()
        self.answer = Outcome(kind=Kind.OK, status_code=200, latency_ms=1)
        self.hold: asyncio.Event | None = None  # while set to an Event, send waits for it

    def problem(self, callback: Callback) -> str | None:
        return None if isinstance(callback, HttpCallback) else "callback.type: must be http"

    def target(self, callback: Callback) -> str:
        return _host_and_port(callback.url) if isinstance(callback, HttpCallback) else "nats"

    async def send(self, timer: Timer, is_mine: Callable[[], bool]) -> Outcome:
        if not is_mine():
            return Outcome(kind=Kind.UNSENT, error="the claim ran out before it was sent")
        self.sent.append(timer)
        if self.hold is not None:
            await self.hold.wait()
        return self.answers.popleft() if self.answers else self.answer

    async def close(self) -> None:
        pass


@lru_cache(1024)
def _host_and_port(url: str) -> str:
    """What a URL leads to, as the real sender says it; the URL itself, if it leads nowhere."""
    try:
        parts = urlsplit(url)
        port = parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        return url
    return f"{parts.hostname}:{port}" if parts.hostname else url


class FlakyStore:
    """A store that fails on demand, before it does what was asked or after it did."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.traits = store.traits
        self.failing: Literal["before", "after"] | None = None
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)
        if name in {"migrate", "close", "listen"}:
            return method

        async def call(*args: Any, **named: Any) -> Any:
            self.calls.append(name)
            if self.failing == "before":
                raise StoreUnavailable(f"{name} failed before it was done, as told")
            answer = await method(*args, **named)
            if self.failing == "after":
                raise StoreUnavailable(f"{name} failed after it was done, as told")
            return answer

        return call
