"""The limit: the highest rate of timers that a node keeps, found step by step."""

from collections.abc import Awaitable, Callable

import msgspec

from duetime.benching.gauge import Busy

LATEST = 100.0  # milliseconds within which 99 of 100 timers must be, for a rate to hold
SLACK = 1.05  # times as long as planned may creating take,
GRACE = 0.25  # and so many seconds more, in which the last ones are answered
LEAST = 1


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one rate."""

    rate: int  # timers a second that were asked for
    seconds: float  # for so long
    took: float  # so long it took until all were created
    p50: float  # milliseconds
    p99: float
    refused: int = 0  # creates that were not answered with a timer
    busy: Busy | None = None

    @property
    def why_not(self) -> str:
        """What did not hold, in words; nothing if the rate held."""
        if self.refused:
            return f"{self.refused:,} creates were refused"
        if self.took > self.seconds * SLACK + GRACE:
            reached = self.rate * self.seconds / self.took
            return f"creates did not keep up: {reached:,.0f} a second"
        if self.p99 > LATEST:
            return f"lateness p99 was {self.p99:,.0f} ms"
        return ""

    @property
    def holds(self) -> bool:
        """Tell whether the rate was kept."""
        return not self.why_not


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Where the limit is: between the highest rate that held and the lowest that did not."""

    held: Step | None = None  # None: not even the lowest did
    failed: Step | None = None  # None: the highest that was to be tried held as well
    steps: list[Step] = []  # all that were tried, in order


async def find_limit(
    measure: Callable[[int], Awaitable[Step]], first: int, most: int, precision: float
) -> Found:
    """Double the rate until it does not hold, then halve the gap until it is small.

    ``precision`` is how large the gap may be in the end, as a share of the rate that held. A rate
    that does not hold is tried once more: one bad moment of a shared machine says little.
    """
    steps: list[Step] = []
    held: Step | None = None
    failed: Step | None = None
    rate: int | None = min(first, most)
    while rate is not None:
        steps.append(await measure(rate))
        if not steps[-1].holds:
            steps.append(await measure(rate))
        if steps[-1].holds:
            held = steps[-1]
        else:
            failed = steps[-1]
        rate = _next(held, failed, most, precision)
    return Found(held=held, failed=failed, steps=steps)


def _next(held: Step | None, failed: Step | None, most: int, precision: float) -> int | None:
    """The rate to try next; None if it is known well enough."""
    if failed is None:
        return min(2 * held.rate, most) if held is not None and held.rate < most else None
    if held is None:
        return failed.rate // 2 if failed.rate > LEAST else None
    is_close = failed.rate - held.rate <= max(held.rate * precision, LEAST)
    return None if is_close else (held.rate + failed.rate) // 2
