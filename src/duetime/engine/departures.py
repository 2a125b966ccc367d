"""Departures hold what is claimed already until its receiver has a place free.

A claim costs a commit, so while a receiver takes callbacks quickly they are claimed in batches,
somewhat ahead. What has not left after a moment is handed back, and can be cancelled again.
"""

from collections import deque
from collections.abc import Callable

from duetime.clock import Clock
from duetime.engine.committer import Claim

LONGEST_WAIT = 1.0  # seconds that a claim waits for a place


class Departures:
    """Starts attempts, at most so many at once to each receiver."""

    def __init__(
        self, clock: Clock, *, per_target: int, start: Callable[[str, Claim], None]
    ) -> None:
        self._clock = clock
        self._per_target = per_target
        self._start = start
        self._under_way: dict[str, int] = {}
        self._ready: dict[str, deque[tuple[float, Claim]]] = {}

    def depart(self, name: str, claim: Claim) -> None:
        """Start an attempt as soon as its receiver has a place free."""
        under_way = self._under_way.get(name, 0)
        if under_way < self._per_target:
            self._under_way[name] = under_way + 1
            self._start(name, claim)
        else:
            ready = self._ready.setdefault(name, deque())
            ready.append((self._clock.monotonic(), claim))

    def arrived(self, name: str) -> None:
        """Note that an attempt has ended, and start the next one in its place."""
        ready = self._ready.get(name)
        if ready:
            _, claim = ready.popleft()
            self._start(name, claim)
            return
        self._ready.pop(name, None)
        self._under_way[name] -= 1
        if self._under_way[name] == 0:
            del self._under_way[name]

    def take_back(self, waited: float = LONGEST_WAIT) -> list[tuple[str, Claim]]:
        """Take out what has waited for so long."""
        since = self._clock.monotonic() - waited
        taken: list[tuple[str, Claim]] = []
        for name, ready in list(self._ready.items()):
            while ready and ready[0][0] <= since:
                taken.append((name, ready.popleft()[1]))
            if not ready:
                del self._ready[name]
        return taken
