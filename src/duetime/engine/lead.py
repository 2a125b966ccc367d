"""The lead: how long before timers are due their claims are written, so that they leave in time.

A claim must be on the disk before anything is sent, which takes milliseconds, now and then many. So
what is about to be due is claimed that much earlier, and waits for its moment with its claim won.
Nobody can cancel it meanwhile, so the lead is as long as the last claims took, or as a disk takes
every now and then, and never long.

Whoever is claimed takes along those that follow closely: a write for each of them would keep the
disk busy, and make others wait for it.
"""

import math

from duetime.clock import Millis

LEAST: Millis = 10
MOST: Millis = 40
ALONG: Millis = 10  # who is due so much later is claimed along

SHARE = 16  # of the difference, that a claim which took less takes off what is expected


class Lead:
    """Learns how long claims take."""

    def __init__(self) -> None:
        self._expected = 0.0  # milliseconds

    @property
    def millis(self) -> Millis:
        """How much earlier to claim; not at all before a claim has taken any time."""
        return max(math.ceil(self._expected), LEAST) if self._expected else 0

    def until(self, now: Millis, next_at: Millis | None) -> Millis:
        """Up to when to claim what is due, if the next one is then."""
        lead = self.millis
        is_time = lead > 0 and next_at is not None and next_at <= now + lead
        return now + lead + ALONG if is_time else now

    def learn(self, seconds: float) -> None:
        """Take note of how long a claim took: at once if it was long, bit by bit if it was not."""
        took = min(1000 * seconds, MOST)  # a store that stood still for once is soon forgotten
        self._expected = max(took, self._expected + (took - self._expected) / SHARE)
