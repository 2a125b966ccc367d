"""A histogram of lateness: how many timers were how late, in steps that grow with it."""

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

_STEPS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
_DECADES = (0.1, 1.0, 10.0, 100.0, 1_000.0)

# Milliseconds at which one bucket ends and the next begins.
BOUNDS = (*(round(ten * step, 2) for ten in _DECADES for step in _STEPS), 10_000.0)


class Bucket(msgspec.Struct, frozen=True):
    """So many timers were at least ``since`` and less than ``until`` milliseconds late."""

    since: float
    until: float | None  # None: or more
    count: int

    @property
    def label(self) -> str:
        """What it holds, in words."""
        if self.until is None:
            return f"{self.since:,g} ms or more"
        if self.since == 0:
            return f"less than {self.until:,g} ms"
        return f"{self.since:,g} to {self.until:,g} ms"


def histogram(lateness_ms: Sequence[float]) -> list[Bucket]:
    """Buckets without a gap, from the first that has something in it to the last."""
    counts = [0] * (len(BOUNDS) + 1)
    for late in lateness_ms:
        counts[bisect_right(BOUNDS, late)] += 1
    filled = [place for place, count in enumerate(counts) if count]
    if not filled:
        return []
    edges = (0.0, *BOUNDS, None)
    return [
        Bucket(edges[place] or 0.0, edges[place + 1], counts[place])
        for place in range(filled[0], filled[-1] + 1)
    ]


def rates(lateness_ms: Sequence[float], every_ms: int) -> list[int]:
    """How many timers that were due at one instant came in each stretch of time after it."""
    if not lateness_ms:
        return []
    counts = [0] * (int(max(lateness_ms)) // every_ms + 1)
    for late in lateness_ms:
        counts[max(int(late), 0) // every_ms] += 1
    return counts
