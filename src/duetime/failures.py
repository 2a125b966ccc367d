"""Failures: timers that have failed, and of which somebody is still to be told, in memory.

The engine comes across them like everything that wakes, and whoever tells takes them from here. It
is a hint, and bounded: what finds no room is a row that is awake, and is found again.
"""

from collections.abc import Callable

from duetime.timer import Timer

MOST = 2_000
MOST_BYTES = 32 * 1024 * 1024


class Failures:
    """What is to be told, in the order in which it was found."""

    def __init__(self) -> None:
        self.wake: Callable[[], None] = lambda: None  # calls whoever tells
        self._timers: dict[str, Timer] = {}
        self._weight = 0

    def __len__(self) -> int:
        return len(self._timers)

    def add(self, timer: Timer) -> None:
        """Have a failure told, unless too many wait for that."""
        self.forget(timer)
        has_room = len(self._timers) < MOST and self._weight + timer.weight <= MOST_BYTES
        if has_room and timer.id not in self._timers:
            self._timers[timer.id] = timer
            self._weight += timer.weight
            self.wake()

    def first(self, limit: int) -> list[Timer]:
        """So many of those that have waited longest; they stay until they are forgotten."""
        return [timer for _, timer in zip(range(limit), self._timers.values(), strict=False)]

    def forget(self, timer: Timer) -> None:
        """Take a timer out, unless it has failed once more since."""
        kept = self._timers.get(timer.id)
        if kept is not None and kept.version <= timer.version:
            del self._timers[timer.id]
            self._weight -= kept.weight

    def has(self, id_: str, version: int) -> bool:
        """Tell whether a timer waits here, as it is now or newer."""
        timer = self._timers.get(id_)
        return timer is not None and timer.version >= version
