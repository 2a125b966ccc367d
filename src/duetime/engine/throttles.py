"""Throttles: every limit of callbacks that holds on this node, and which part of it is this node's.

What nodes tell each other with their heartbeats is how many callbacks each could begin: those that
wait for their turn, and as many as it began in a second. Each takes that share of every limit;
docs/tenants.md says how exact that is. Who has no limits is not looked at at all.
"""

from collections.abc import Callable, Mapping
from heapq import nlargest

from duetime.clock import Clock
from duetime.engine.throttle import ANY, Throttle
from duetime.nodes import NodeRecord
from duetime.tenancy.limits import Limits
from duetime.tenancy.rules import Rules
from duetime.tenancy.shares import Part, rate_share, seats
from duetime.tenancy.waiting import MOST_TOLD

# Of each rate, this part is shared evenly, so that a node that had nothing to begin so far can. It
# is small: where it is not needed, it is lost.
EVEN_PART = 0.03


class Throttles:
    """The throttles of this node, by the names of the records that set limits."""

    def __init__(self, node: str, clock: Clock, rules: Rules | None = None) -> None:
        self._node = node
        self._clock = clock
        self._rules = rules
        self._limits: Mapping[str, Limits] = {}  # as the rules said when they were last looked at
        self._throttles: dict[str, Throttle] = {}
        self._others: dict[str, NodeRecord] = {}
        self.waiting: Callable[[], Mapping[str, int]] = dict  # how many wait, for each

    @property
    def is_shared(self) -> bool:
        """Tell whether there is more than one tenant."""
        return self._rules is not None and self._rules.is_shared

    def have_changed(self) -> bool:
        """Tell whether there are other limits than the last time, and go by them."""
        if self._rules is None or self._rules.bounded is self._limits:
            return False
        self._limits, now = self._rules.bounded, self._clock.monotonic()
        for name in [name for name in self._throttles if name not in self._limits]:
            del self._throttles[name]
        for name, throttle in self._throttles.items():
            if throttle.limits != self._limits[name]:
                throttle.go_by(self._limits[name], self._part(name, throttle.told), now)
        return True

    def find(self, name: str) -> Throttle | None:
        """The throttle of a tenant, group or target, if it has limits."""
        if not self._limits or (limits := self._limits.get(name)) is None:
            return None
        throttle = self._throttles.get(name)
        if throttle is None:
            throttle = Throttle(limits, self._part(name, 0.0), self._clock.monotonic())
            self._throttles[name] = throttle
        return throttle

    def now(self) -> float:
        """The time by which tokens come."""
        return self._clock.monotonic()

    # What nodes tell each other ---------------------------------------------------------------

    def hear(self, others: dict[str, NodeRecord]) -> None:
        """Take note of what the other nodes tell, and share all limits anew."""
        self._others = others
        if not self._throttles:
            return
        now = self._clock.monotonic()
        self._measure(now)
        for name, throttle in self._throttles.items():
            throttle.share(self._part(name, throttle.told), now)

    def demand(self) -> dict[str, float]:
        """How many callbacks this node could begin in a second, for each that is limited."""
        return {name: each.told for name, each in self._throttles.items() if each.told}

    def _measure(self, now: float) -> None:
        """Find out how much could be begun here; it is told with the heartbeat that follows."""
        waiting = self.waiting()
        asked = {
            name: throttle.demand(waiting.get(name, 0), now)
            for name, throttle in self._throttles.items()
        }
        told = frozenset(nlargest(MOST_TOLD, asked, key=asked.__getitem__))
        for name, throttle in self._throttles.items():
            throttle.told = round(asked[name], 2) if name in told else 0.0

    def _part(self, name: str, mine: float) -> Part:
        """The part of a limit that is this node's."""
        asked = {node: other.callbacks.get(name, 0.0) for node, other in self._others.items()}
        rate = rate_share(mine, asked.values(), EVEN_PART)
        concurrency = self._limits[name].concurrency
        if concurrency is None:
            return Part(rate, ANY)
        return Part(rate, seats(concurrency, self._node, {**asked, self._node: mine}))
