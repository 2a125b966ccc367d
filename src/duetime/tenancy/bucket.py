"""A bucket of tokens: so many come with every second, and each timer that is made takes one.

Or each callback that is begun, for the limits of these.
"""

import math

# How much the newest measurement of what is asked for counts beside all before it.
_WEIGHT = 0.8

SHORTEST = 0.5  # seconds over which it is measured: less would be chance


LONGEST_WAIT = 3600.0  # seconds that anybody is told to wait: by then the share may be another

_ROUNDING = 1e-9  # a token that is there but for this much was lost in a sum


class Bucket:
    """Tokens for this node's share of a limit, at most as many as come in a second, or a burst."""

    __slots__ = (
        "_at",
        "_burst",
        "_measured_at",
        "_most",
        "_refused",
        "_refused_since",
        "_share",
        "_tokens",
        "asked",
        "rate",
    )

    def __init__(self, most: float, now: float, burst: float | None = None) -> None:
        self._most = most  # per second, in the whole cluster
        self._burst = burst  # at most so many at once; None: as many as come in a second
        self._share = 1.0
        self._tokens = self._capacity
        self._at = now
        self._measured_at = now
        self.asked = 0  # timers, since it was last measured
        self.rate = 0.0  # timers that are asked for per second
        self._refused = 0
        self._refused_since = now

    @property
    def _capacity(self) -> float:
        return max((self._most if self._burst is None else self._burst) * self._share, 1.0)

    @property
    def count(self) -> int:
        """How many tokens there are."""
        return math.floor(self._tokens + _ROUNDING)

    def fill(self, most: float, now: float, burst: float | None = None) -> None:
        """Add what has come since; the limit may be another one by now."""
        self._most, self._burst = most, burst
        came = (now - self._at) * most * self._share
        self._tokens = min(self._tokens + came, self._capacity)
        self._at = now

    def share(self, part: float, now: float) -> None:
        """Be this part of the limit from now on."""
        self.fill(self._most, now, self._burst)
        self._share = part
        self._tokens = min(self._tokens, self._capacity)

    def wait(self) -> float:
        """After how many seconds there is a token, or may be; 0: now."""
        missing, pace = max(1 - self._tokens, 0.0), self._most * self._share
        if missing <= _ROUNDING:
            return 0.0
        return LONGEST_WAIT if missing > LONGEST_WAIT * pace else missing / pace

    def take(self) -> None:
        """Take one that is there."""
        self._tokens -= 1

    def give_back(self, count: int) -> None:
        """Put so many back that were not used."""
        self._tokens = min(self._tokens + count, self._capacity)

    def refuse(self, now: float) -> int:
        """Count a refusal: the how-many-eth it is within about a second."""
        if now - self._refused_since >= 1:
            self._refused, self._refused_since = 0, now
        self._refused += 1
        return self._refused

    def demand(self, now: float) -> float:
        """Measure how many timers are asked for per second."""
        elapsed = now - self._measured_at
        if elapsed >= SHORTEST:
            self.rate = (1 - _WEIGHT) * self.rate + _WEIGHT * self.asked / elapsed
            if self.rate < 0.01:  # noqa: PLR2004 - nobody asks any more
                self.rate = 0.0
            self.asked, self._measured_at = 0, now
        return self.rate
