"""Receipts are what the sink has seen: how many callbacks, how late, and any broken promise."""

import msgspec


class Receipts(msgspec.Struct, kw_only=True):
    """Everything that arrived since the sink was last told to forget."""

    count: int = 0
    distinct: int = 0  # different timers
    early: int = 0  # arrived before they were due
    duplicates: int = 0  # the same attempt of the same timer once more
    first_ns: int = 0
    last_ns: int = 0
    arrived_ns: list[int] = []  # when each arrived,
    lateness_ms: list[float] = []  # and how late that was

    @property
    def per_second(self) -> float:
        """Callbacks a second, from the first to the last."""
        seconds = (self.last_ns - self.first_ns) / 1e9
        return (self.count - 1) / seconds if seconds > 0 else 0.0

    def percentile(self, share: float) -> float:
        """The lateness that this share of the callbacks stays within."""
        ordered = sorted(self.lateness_ms)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0

    @property
    def repeats(self) -> int:
        """Further attempts of timers whose first one had arrived."""
        return self.count - self.duplicates - self.distinct

    def broken(self, expected: int) -> list[str]:
        """Every promise that was broken, in words."""
        found = (
            (self.early, "early"),
            (self.duplicates, "duplicated"),
            (max(expected - self.distinct, 0), "lost"),
            (max(self.distinct - expected, 0), "more than were made"),
        )
        return [f"{number:,} of {expected:,} {what}" for number, what in found if number]

    def violations(self, expected: int) -> list[str]:
        """The same, and what a node does only if it has stalled: nobody wants that measured."""
        again = f"{self.repeats:,} of {expected:,} attempted again for no reason"
        return self.broken(expected) + ([again] if self.repeats else [])
