"""The stride: how many timers are claimed in one write.

A fuller write costs less for each timer, but none of them leaves before it is done. So the first of
many leave soon, in a small one; then they grow, as long as the store writes them in a moment.
"""

FIRST = 250
LARGEST = 1_000
LONGEST = 0.5  # seconds for one write, more or less; a busy disk alone may take a part of that


class Stride:
    """Learns from every write."""

    def __init__(self) -> None:
        self.most = FIRST

    def learn(self, count: int, seconds: float) -> None:
        """See how long the write of so many took."""
        if count < FIRST:
            self.most = FIRST  # there are not many any more
        elif seconds > LONGEST:
            self.most = max(self.most // 2, FIRST)
        elif count >= self.most:
            self.most = min(2 * self.most, LARGEST)
