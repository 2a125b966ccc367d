"""The appetite: how many timers are read at once, by what those weighed that came before.

A store gives timers whole, and says only then how heavy they are. So whoever reads many begins with
few, and reads more at a time as long as they are light. Only where heavy ones follow upon many
light ones, one portion of them is heavier than it should be.
"""

from collections.abc import Sequence

from duetime.timer import Timer


class Appetite:
    """How many timers to read next."""

    def __init__(self, first: int, heaviest: int, growth: int = 2) -> None:
        self.most = first
        self._heaviest = heaviest  # bytes of timers at once, more or less
        self._growth = growth

    def learn(self, timers: Sequence[Timer]) -> None:
        """See what these weighed, so that the next ones are neither too heavy nor too few."""
        weight = sum(timer.weight for timer in timers)
        if weight:
            fitting = self._heaviest * len(timers) // weight
            self.most = max(min(self._growth * self.most, fitting), 1)
