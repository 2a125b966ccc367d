"""Places: how many attempts may be under way, to a receiver, of a tenant or group, and in all.

How many places a receiver has, it earns: a few at first, one more with every answer up to its
limit, and half as many after every attempt that timed out. So it takes hundreds of receivers that
hang to fill a node, and one that recovers is back to its limit in moments.

A receiver that takes callbacks quickly may have some claimed ahead: twice as many as it has
answered since the last ones were claimed, but for the first. They are claimed by the dozen then,
not one by one.

A receiver whose callbacks are posted (``delivery/__init__.py`` ``Post``) answers for hundreds of
them at once, after a moment. It need not earn its places, and each is a part of one only.
"""

from collections.abc import Sequence

from duetime.engine.gates import Gates
from duetime.engine.lanes import Lane, Party, Target
from duetime.engine.throttle import ANY
from duetime.engine.throttles import Throttles
from duetime.timer import Kind, Timer

# How many times the places of a receiver may be claimed ahead.
MOST_AHEAD = 3

POSTED_IN_ONE = 4  # callbacks that are posted and take one place of the node together

FIRST_PLACES = 8  # so few that a node with 1000 holds a hundred receivers that hang
LEAST_PLACES = 4  # one that times out keeps these, to earn more by answering

# Where there are several tenants, each may have so many times under way what is left to all. One
# that takes all it can takes four fifths of a node, and two take four ninths each.
MOST_OF_FREE = 4

_ANSWERS = frozenset({Kind.OK, Kind.HTTP})

# For the memory of a node: large timers fill it before their number does.
MOST_BYTES_UNDER_WAY = 256 * 1024 * 1024


class Places:
    """Counts what is under way."""

    def __init__(self, *, per_target: int, total: int, throttles: Throttles, gates: Gates) -> None:
        self._gates = gates
        self._per_target = per_target
        self._total = total
        self._throttles = throttles
        self._load = 0  # the weight of what is under way
        self._posted = 0  # of what is under way
        self.under_way = 0

    @property
    def free(self) -> int:
        """How many more attempts this node may have under way."""
        if self._load >= MOST_BYTES_UNDER_WAY:
            return 0
        shared = self._posted - self._posted // POSTED_IN_ONE
        return self._total - self.under_way + shared

    def most(self, *, is_posted: bool) -> int:
        """How many places a receiver can earn."""
        return self._total * POSTED_IN_ONE if is_posted else self._per_target

    def may_begin(self, lane: Lane) -> bool:
        """Tell whether one more of a lane may be under way, if it is its turn."""
        target, free = lane.target, self.free
        if free <= 0 or target.under_way >= self._of(target, free):
            return False
        if not lane.is_throttled:
            return not self._throttles.is_shared or self.allowance(lane.tenant) > 0
        return all(self.allowance(each) > 0 for each in (lane.target, lane.group, lane.tenant))

    def allowance(self, each: Party | Target) -> int:
        """How many more somebody may have under way: their limits say so, or there are others."""
        tokens = self.tokens(each)
        if not self._throttles.is_shared or isinstance(each, Target) or each.parent is not None:
            return tokens
        # Not more than MOST_OF_FREE times what is left when it has taken them.
        fair = (MOST_OF_FREE * self.free - each.under_way) // (MOST_OF_FREE + 1)
        return min(tokens, fair if each.under_way else max(fair, 1))

    def tokens(self, each: Party | Target) -> int:
        """How many more somebody may have under way by their limits."""
        if each.throttle is None:
            return ANY
        return each.throttle.room(each.under_way, self._throttles.now())

    def of(self, target: Target) -> int:
        """How many a receiver may have now: what it has earned, or a part of what is left to all.

        So receivers that answered quickly and then hang do not take the last places of a node.
        """
        return self._of(target, self.free)

    def _of(self, target: Target, free: int) -> int:
        places = self._gates.places(target.name, target.under_way)
        if places is not None:  # what was claimed ahead would have to be handed back
            target.answers = target.ahead = 0
            return places
        left = max(free * POSTED_IN_ONE if target.is_posted else free // 4, 1)
        return min(target.places, left)

    def is_shut(self, target: Target) -> bool:
        """Tell whether a receiver has no places at all: it is paused, or keeps failing."""
        return self._gates.is_shut(target.name)

    def room(self, target: Target) -> int:
        """How many more a receiver may have under way, with those that are claimed ahead."""
        places = self.of(target)  # which may end that some are claimed ahead
        return places + target.ahead - target.under_way

    def look_ahead(self, target: Target) -> None:
        """Find out how many of a receiver's may be claimed ahead, by how quickly it answers."""
        is_roomy = self.free > self._total // 2  # none is claimed ahead at the cost of others
        most = MOST_AHEAD * self._per_target if is_roomy and not target.is_posted else 0
        target.ahead = max(min(2 * (target.answers - 1), most), 0)
        target.answers = 0

    def earn(self, target: Target, kind: Kind, count: int) -> None:
        """Take note of how so many attempts have ended."""
        if kind in _ANSWERS:
            target.answers += count
            target.places = min(target.places + count, target.most)
        elif kind is Kind.TIMEOUT:
            target.answers = target.ahead = 0
            target.places = max(target.places >> count, min(LEAST_PLACES, target.most))

    def occupy(self, lane: Lane, timer: Timer) -> None:
        """Take a place."""
        target, group, tenant = lane.target, lane.group, lane.tenant
        lane.under_way += 1
        target.under_way += 1
        group.under_way += 1
        tenant.under_way += 1
        self.under_way += 1
        self._posted += target.is_posted
        self._load += timer.weight
        if lane.is_throttled:
            for each in (target, group, tenant):
                if each.throttle is not None:
                    each.throttle.take()
        self._gates.begun(target.name, timer.id)

    def vacate(self, lane: Lane, timers: Sequence[Timer], *, was_sent: bool) -> None:
        """Give places back, and what their limits gave for them if they were not used."""
        target, group, tenant = lane.target, lane.group, lane.tenant
        count = len(timers)
        lane.under_way -= count
        target.under_way -= count
        group.under_way -= count
        tenant.under_way -= count
        self.under_way -= count
        self._posted -= count * target.is_posted
        self._load -= sum([timer.weight for timer in timers])
        self._gates.left(target.name, timers)
        if lane.is_throttled and not was_sent:
            for each in (target, group, tenant):
                if each.throttle is not None:
                    each.throttle.give_back(count)
