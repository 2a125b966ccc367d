"""A brake holds back creates that are due at once while this node's engine is behind.

Each of them is one more for an engine that has too much to do already: it waits a moment, the
longer the further the engine is behind, and beyond a mark it is refused. Timers that are due later
cost the engine nothing now, and pass.

Behind is what came up in time and was not taken off the agenda since, because the event loop is
busy or claims are not written. A timer that waits for its receiver does not count, nor one that
waits for a place in a node that receivers have filled, nor a backlog that was late when it was
found. These wait as rows or in bounded queues, and a receiver that hangs must never keep creates
out.
"""

from collections.abc import Callable

from duetime.clock import Clock, Millis, sleep
from duetime.errors import Unavailable

# What is due within this time goes straight onto the agenda, about.
NEAR: Millis = 5_000

# So far behind is a busy moment, and no reason for anything.
SLOW_FROM: Millis = 1_000

# So far behind, more would only be late too.
REFUSE_FROM: Millis = 10_000

# Each waits for this share of how far the engine is behind: so for less than a second.
SHARE = 0.1

# How many may wait so at once; they are in memory.
MOST_SLOWED = 1_000


class Brake:
    """Slows creates, and then refuses them."""

    def __init__(self, clock: Clock, lag: Callable[[], Millis]) -> None:
        self._clock = clock
        self._lag = lag
        self._slowed = 0

    async def slow(self, execute_at: Millis) -> None:
        """Let a create pass, now or in a moment, or refuse it."""
        if execute_at > self._clock.now() + NEAR or (lag := self._lag()) < SLOW_FROM:
            return
        if lag >= REFUSE_FROM or self._slowed >= MOST_SLOWED:
            raise Unavailable(
                f"this node is {lag / 1000:.0f} s behind with the timers that are due; "
                "nothing was written, try again, or at another node"
            )
        self._slowed += 1
        try:
            await sleep(self._clock, SHARE * lag / 1000)
        finally:
            self._slowed -= 1
