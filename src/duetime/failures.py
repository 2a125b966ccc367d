"""Failures: timers that have failed, and of which somebody is still to be told: which, in memory.

The engine comes across them like everything that wakes, and whoever tells takes them from here. It
is a hint, and bounded: what finds no room is a row that is awake, and is found again. What they
carry is not kept, since they are read anew before they are told.
"""

from collections.abc import Callable
from typing import NamedTuple

from duetime.stores.portions import portions
from duetime.timer import Timer

MOST = 50_000
PORTION = 8 * 1024 * 1024  # bytes of timers that are read at once


class Failure(NamedTuple):
    """A timer that has failed: of which version, and how heavy it is to read."""

    id: str
    version: int
    weight: int


class Failures:
    """What is to be told, in the order in which it was found."""

    def __init__(self) -> None:
        self.wake: Callable[[], None] = lambda: None  # calls whoever tells
        self._waiting: dict[str, Failure] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < MOST

    def add(self, timer: Timer) -> None:
        """Have a failure told, unless too many wait for that."""
        if self.has_room and not self.has(timer.id, timer.version):
            self._waiting[timer.id] = Failure(timer.id, timer.version, timer.weight)
            self.wake()

    def first(self, limit: int) -> list[Failure]:
        """Some of those that have waited longest; they stay until they are forgotten."""
        waiting = iter(self._waiting.values())
        return next(portions(waiting, _weight, heaviest=PORTION, longest=limit), [])

    def forget(self, failure: Failure) -> None:
        """Take a timer out, unless it has failed once more since."""
        if self._waiting.get(failure.id) == failure:
            del self._waiting[failure.id]

    def has(self, id_: str, version: int) -> bool:
        """Tell whether a timer waits here, as it is now or newer."""
        kept = self._waiting.get(id_)
        return kept is not None and kept.version >= version


def _weight(failure: Failure) -> int:
    return failure.weight
