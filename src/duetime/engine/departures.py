"""Departures hold what is claimed already until its receiver has a place free.

A claim costs a commit, so while a receiver takes callbacks quickly they are claimed in batches,
somewhat ahead. What has not left after a moment is handed back, and can be cancelled again.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from duetime.clock import Clock
from duetime.engine.committer import Claim

LONGEST_WAIT = 1.0  # seconds that a claim waits for a place


class Departures:
    """Delivers claims, to each receiver as many at once as it has places.

    Each place of a receiver is a task that delivers one claim after the other, as long as there
    are some: a task for each would cost more than all that the engine does for a timer.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        places: Callable[[str], int],
        deliver: Callable[[str, Claim], Awaitable[None]],
    ) -> None:
        self._clock = clock
        self._places_of = places
        self._deliver = deliver
        self._places: dict[str, int] = {}
        self._ready: dict[str, deque[tuple[float, Claim]]] = {}

    def depart(self, name: str, claim: Claim) -> None:
        """Deliver a claim as soon as its receiver has a place free."""
        ready = self._ready.get(name)
        if ready is None:
            ready = self._ready[name] = deque()
        ready.append((self._clock.monotonic(), claim))
        if self._places.get(name, 0) < self._places_of(name):
            self._start(name)

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

    def _start(self, name: str) -> None:
        # It is given its first claim at once: what a place was found for is not taken back.
        self._places[name] = self._places.get(name, 0) + 1
        _, claim = self._ready[name].popleft()
        claim.task = asyncio.create_task(self._work(name, claim))

    async def _work(self, name: str, claim: Claim) -> None:
        task = claim.task
        try:
            await self._deliver(name, claim)
            while ready := self._ready.get(name):
                places = self._places_of(name)
                if self._places[name] > places:
                    break  # it has lost some; there are others to go on
                if self._places[name] < places and len(ready) > 1:
                    self._start(name)
                _, claim = ready.popleft()
                claim.task = task
                await self._deliver(name, claim)
        finally:
            self._places[name] -= 1
            if self._places[name] == 0:
                del self._places[name]
                if not self._ready.get(name):
                    self._ready.pop(name, None)
