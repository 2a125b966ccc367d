"""Armed claims were written before their timers are due, and wait for that moment, to be sent then.

Their time comes by the wall clock, which is looked at again before any of them leaves: an alarm may
ring early, and a clock may be set back.
"""

import heapq
from collections.abc import Callable
from itertools import count

from duetime.clock import Alarm, Clock, Millis
from duetime.engine.claim import Claim

SHORTEST = 0.0005  # seconds until the clock is looked at again, where it is not yet time
INSTANT = 1e-6  # seconds: by less than that, what was added up may be off


class Armed:
    """Those that wait. ``depart`` is given each with its receiver when its time has come."""

    def __init__(self, clock: Clock, depart: Callable[[str, Claim], None]) -> None:
        self._clock = clock
        self._depart = depart
        self._waiting: list[tuple[Millis, int, float, str, Claim]] = []  # a heap
        self._sequence = count()
        self._alarm: Alarm | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, at: Millis, name: str, claim: Claim) -> None:
        """Let a claim depart at a time that is still to come."""
        since = self._clock.monotonic()
        heapq.heappush(self._waiting, (at, next(self._sequence), since, name, claim))
        if self._waiting[0][-1] is claim:
            self._set_alarm()

    def take_back(self, since: float) -> list[tuple[str, Claim]]:
        """Take out those that have waited since then, on the monotonic clock: it was set back."""
        taken = [(name, claim) for _, _, at, name, claim in self._waiting if at <= since]
        if taken:
            self._waiting = [each for each in self._waiting if each[2] > since]
            heapq.heapify(self._waiting)
            self._set_alarm()
        return taken

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._waiting:
            seconds = (self._waiting[0][0] - self._clock.now()) / 1000
            self._alarm = self._clock.alarm(max(seconds - INSTANT, SHORTEST), self._ring)

    def _ring(self) -> None:
        self._alarm = None
        now = self._clock.now()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, _, name, claim = heapq.heappop(self._waiting)
            self._depart(name, claim)
        self._set_alarm()
