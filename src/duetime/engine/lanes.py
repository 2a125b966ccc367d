"""Lanes: where timers wait. A lane is what one group of one tenant has waiting for one receiver."""

from collections import deque

from duetime.engine.throttle import Throttle
from duetime.timer import Timer


class Target:
    """One receiver, as one tenant calls it."""

    __slots__ = (
        "ahead",
        "answers",
        "blocked",
        "is_posted",
        "lanes",
        "looked_at",
        "most",
        "name",
        "places",
        "throttle",
        "under_way",
    )

    def __init__(
        self, name: str, places: int, throttle: Throttle | None, *, most: int, is_posted: bool
    ) -> None:
        self.name = name
        self.places = places  # that it has earned
        self.most = most  # that it can earn
        self.is_posted = is_posted  # nobody waits for its answers one by one
        self.under_way = 0  # claimed, or being claimed
        self.answers = 0  # since the last time that some were claimed
        self.ahead = 0  # how many may be claimed beyond the places that it has
        self.looked_at = 0  # the pass in which that was found
        self.throttle = throttle
        self.lanes: dict[str, Lane] = {}  # by group
        self.blocked: dict[Lane, None] = {}  # those that wait for it


class Party:
    """A tenant, or a group of one: of its own, those that could be served take turns."""

    __slots__ = ("groups", "lanes", "name", "parent", "throttle", "turns", "under_way")

    def __init__(self, name: str, parent: "Party | None", throttle: Throttle | None) -> None:
        self.name = name
        self.parent = parent  # of a group: its tenant
        self.throttle = throttle
        self.under_way = 0
        self.lanes = 0  # how many there are
        self.groups: dict[str, Party] = {}  # of a tenant
        self.turns: dict[str, Party | Lane] = {}


class Lane:
    """The timers of one group that wait for one receiver, and how many are under way."""

    __slots__ = (
        "group",
        "is_throttled",
        "name",
        "target",
        "tenant",
        "under_way",
        "waiting",
        "weight",
    )

    def __init__(self, target: Target, group: Party, tenant: Party) -> None:
        self.name = f"{target.name} {group.name}"
        self.target = target
        self.group = group
        self.tenant = tenant
        self.under_way = 0
        self.waiting: deque[Timer] = deque()
        self.weight = 0  # of those that wait
        self.is_throttled = False  # somebody has set limits that hold for it
        self.look_at_throttles()

    def look_at_throttles(self) -> None:
        """See whether there are limits; asked whenever these may have changed."""
        everybody = (self.target, self.group, self.tenant)
        self.is_throttled = any(each.throttle is not None for each in everybody)
