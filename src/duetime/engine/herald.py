"""The herald tells other nodes of timers in their shards that were just written and wake soon.

Lines that come while an announcement is under way go out together in the next one. News are hints:
what cannot be told, because there is too much of it or the store is failing, is found by the poll
of the node that looks after it.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress

from duetime.errors import StoreError
from duetime.stores import News, Store, Waking

MOST_WAITING = 10_000
LARGEST = 1_000  # lines in one announcement
IDLE = 60.0


class Herald:
    """Announces timers."""

    def __init__(self, store: Store, *, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake
        self._waiting: deque[Waking] = deque()

    def tell(self, line: Waking) -> None:
        """Announce a timer soon, unless too many wait for that already."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(line)
            if len(self._waiting) == 1:
                self._wake()

    async def step(self) -> float:
        """Announce what has gathered."""
        count = min(len(self._waiting), LARGEST)
        if count == 0:
            return IDLE
        await self._store.announce(News(tuple(self._waiting.popleft() for _ in range(count))))
        return 0 if self._waiting else IDLE

    async def tell_the_rest(self) -> None:
        """Announce all that has gathered, as long as the store does so: this node is stopping."""
        with suppress(StoreError):
            while await self.step() == 0:
                pass
