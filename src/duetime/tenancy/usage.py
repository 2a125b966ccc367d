"""Usage: how many timers a tenant has, beside how many it may have."""

from collections import Counter

import msgspec

from duetime.clock import Millis
from duetime.model import FINISHED
from duetime.tenancy.quotas import Quotas


class GroupUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What one group has."""

    timers: dict[str, int]  # by status
    asked_for: float | None  # per second, by all nodes; None: nobody measures that
    quotas: Quotas

    @property
    def pending(self) -> int:
        """Those that count against the quota: they wait, are paused, or are being delivered."""
        return sum(count for status, count in self.timers.items() if status not in FINISHED)


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant has, in all its groups."""

    tenant: str
    counted_at: Millis
    groups: dict[str, GroupUsage]
    asked_for: float | None
    quotas: Quotas

    @property
    def timers(self) -> dict[str, int]:
        """How many there are by status."""
        counts = Counter[str]()
        for group in self.groups.values():
            counts.update(group.timers)
        return dict(counts)

    @property
    def pending(self) -> int:
        """Those that count against the quota."""
        return sum(group.pending for group in self.groups.values())
