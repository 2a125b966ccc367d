"""A wish is which events somebody wants to hear of, and may."""

from typing import NamedTuple

from duetime.events.feed import Told


class Wish(NamedTuple):
    """Which events; what is None or empty asks for nothing in particular."""

    tenant: str
    groups: frozenset[str] | None = None  # the only ones that there are for who asks
    group: str | None = None
    types: frozenset[str] = frozenset()
    timer: str | None = None
    tags: frozenset[str] = frozenset()  # all of these

    def wants(self, told: Told) -> bool:
        """Tell whether this event is one of them."""
        return (
            told.tenant == self.tenant
            and (self.groups is None or told.group in self.groups)
            and (self.group is None or told.group == self.group)
            and (not self.types or told.type in self.types)
            and (self.timer is None or told.timer == self.timer)
            and (not self.tags or self.tags.issubset(told.tags))
        )
