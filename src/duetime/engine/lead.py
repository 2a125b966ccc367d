"""The lead: how long before timers are due their claims are written, so that they leave in time.

A claim must be on the disk before anything is sent, which takes milliseconds, now and then many. So
what is about to be due is claimed that much earlier, and waits for its moment with its claim won.
Nobody can cancel it meanwhile, so the lead is no longer than the last claims took, and never long.
"""

import math

from duetime.clock import Millis

MOST: Millis = 20

SHARE = 16  # of the difference, that a claim which took less takes off what is expected


class Lead:
    """Learns how long claims take."""

    def __init__(self) -> None:
        self._expected = 0.0  # milliseconds

    @property
    def millis(self) -> Millis:
        """How much earlier to claim."""
        return math.ceil(self._expected)

    def learn(self, seconds: float) -> None:
        """Take note of how long a claim took: at once if it was long, bit by bit if it was not."""
        took = min(1000 * seconds, MOST)  # a store that stood still for once is soon forgotten
        self._expected = max(took, self._expected + (took - self._expected) / SHARE)
