"""The meter: how much of its quotas each tenant and group has used, in the whole cluster.

Nobody asks the store for each timer. Each node tells the others with its heartbeats how many timers
per second are asked of it, and takes that share of the limit; and by how much the timers that wait
have grown through it. So the limits of a cluster are kept within what can happen between two
heartbeats; docs/tenants.md says how much that is.

Who has no quota is not metered at all.
"""

import math
from heapq import nlargest
from random import random

from duetime.clock import Clock
from duetime.errors import Forbidden, TooManyRequests
from duetime.nodes import NodeRecord
from duetime.stores import Store
from duetime.tenancy.bucket import Bucket
from duetime.tenancy.group import name_of
from duetime.tenancy.quotas import UNLIMITED, Quotas, whose
from duetime.tenancy.rules import Rules
from duetime.tenancy.shares import rate_share
from duetime.tenancy.waiting import MOST_TOLD, Tally, Waiting
from duetime.timer import FINISHED, Timer

# Of each limit, this part is shared evenly, so that a node of which nothing was asked so far can
# begin; the rest goes by what is asked of each.
EVEN_PART = 0.1

# Seconds that the write of an attempt that has ended took at most: nobody says when it began.
LONGEST_END = 1.0

# Who is refused so many times in a second gets the next answers so many seconds late, or up to
# twice that: whoever asks again as soon as they are refused would else keep a node busy with it.
MOST_REFUSALS = 10
HOLD_FOR = 0.5


class Meter:
    """Measures this node's part, and adds what the others tell."""

    def __init__(self, rules: Rules, store: Store, clock: Clock) -> None:
        self._rules = rules
        self._clock = clock
        self._waiting = Waiting(rules, store, clock)
        self._buckets: dict[str, Bucket] = {}
        self._others: dict[str, NodeRecord] = {}

    # Before a timer is made -------------------------------------------------------------------

    @property
    def has_limits(self) -> bool:
        """Tell whether anybody has quotas."""
        return bool(self._rules.limited)

    def check_batch(self, tenant: str, group: str | None, count: int) -> None:
        """Refuse a request with too many timers of a tenant, or of one of its groups."""
        if not self._rules.limited:
            return
        name = tenant if group is None else name_of(tenant, group)
        most = self._rules.limited.get(name, UNLIMITED).batch_size
        if most is not None and count > most:
            raise Forbidden(
                f"timers: {whose(name)} may create {most} in one request; these are more"
            )

    def check_payload(self, timer: Timer) -> None:
        """Refuse a timer that carries too much."""
        size = timer.spec.payload_size
        for name, quotas in self._limits(timer.tenant, timer.group):
            if quotas.payload_bytes is not None and size > quotas.payload_bytes:
                raise Forbidden(
                    f"callback.payload: {whose(name)} may send {quotas.payload_bytes} bytes, "
                    f"and these are {size}"
                )

    def check_pace(self, tenant: str) -> None:
        """Refuse a request before it is even looked at, if not one timer of it could be made."""
        most = self._rules.limited.get(tenant, UNLIMITED).creates_per_second
        if most is not None:
            now = self._clock.monotonic()
            bucket = self._bucket(tenant, most, now)
            if bucket.wait() > 0:
                bucket.asked += 1
                raise _too_fast(tenant, most, bucket, now)

    async def admit(self, timer: Timer, old: Timer | None = None) -> None:
        """Let a timer be made, in the place of an old one or of none; or say which quota says no.

        If that makes one more that waits, it has a place among them from here on, which is given
        back when it is ``made``, or by ``withdraw``.
        """
        limits = self._limits(timer.tenant, timer.group)
        if not limits:
            return
        self.check_payload(timer)
        most: list[tuple[str, int]] = []
        if old is None or old.status in FINISHED:
            most = [(name, each.pending) for name, each in limits if each.pending is not None]
            await self._waiting.check(most)
        # From here on nothing is waited for: what was free a moment ago still is.
        self._take(limits)
        if most:
            self._waiting.take_places(timer, [name for name, _ in most])

    def made(self, timer: Timer) -> None:
        """Note that a timer that was let in is written."""
        if self._rules.limited:
            self._grow(timer, 1, self._clock.monotonic())
        self.withdraw(timer)

    def withdraw(self, *timers: Timer) -> None:
        """Give back the places of timers: they were there, or something failed, or is done."""
        if self._waiting.has_places:
            for timer in timers:
                self._waiting.leave_places(timer)

    def _take(self, limits: list[tuple[str, Quotas]]) -> None:
        now = self._clock.monotonic()
        buckets = [
            (name, quotas.creates_per_second, self._bucket(name, quotas.creates_per_second, now))
            for name, quotas in limits
            if quotas.creates_per_second is not None
        ]
        for _, _, bucket in buckets:
            bucket.asked += 1
        slowest = max(buckets, key=lambda each: each[2].wait(), default=None)
        if slowest is not None and slowest[2].wait() > 0:
            raise _too_fast(*slowest, now)
        for _, _, bucket in buckets:
            bucket.take()

    # As timers come and go --------------------------------------------------------------------

    def changed(self, old: Timer, new: Timer, since: float) -> None:
        """Note that a timer has changed, by a write that was begun then: as many wait, or not."""
        if self._rules.limited:
            self._grow(new, (new.status not in FINISHED) - (old.status not in FINISHED), since)

    def ended(self, timer: Timer) -> None:
        """Note that an attempt has ended, and perhaps its timer.

        What ends without an attempt is noticed when timers are counted anew.
        """
        if self._rules.limited and timer.status in FINISHED:
            self._grow(timer, -1, self._clock.monotonic() - LONGEST_END)

    def removed(self, timer: Timer, since: float) -> None:
        """Note that a timer is gone that may have waited, by a write that was begun then."""
        if self._rules.limited and timer.status not in FINISHED:
            self._grow(timer, -1, since)

    def _grow(self, timer: Timer, by: int, since: float) -> None:
        for name, quotas in self._limits(timer.tenant, timer.group) if by else ():
            if quotas.pending is not None:
                self._waiting.grow(name, by, since)

    # What nodes tell each other ---------------------------------------------------------------

    def demand(self) -> dict[str, float]:
        """How many timers per second are asked of this node, for each that is limited."""
        now = self._clock.monotonic()
        rates = {name: bucket.demand(now) for name, bucket in self._buckets.items()}
        busiest = nlargest(MOST_TOLD, rates, key=rates.__getitem__)
        return {name: rates[name] for name in busiest if rates[name] > 0}

    def growth(self) -> dict[str, int]:
        """By how much those that wait have grown through this node since it came."""
        return self._waiting.growth()

    def hear(self, others: dict[str, NodeRecord]) -> None:
        """Take note of what the other nodes tell."""
        self._others = others
        self._waiting.hear(others)
        now = self._clock.monotonic()
        for name, bucket in self._buckets.items():
            bucket.share(self._share(name), now)

    def _share(self, name: str) -> float:
        """The part of a limit that is this node's."""
        others = [other.demand.get(name, 0.0) for other in self._others.values()]
        return rate_share(self._buckets[name].rate, others, EVEN_PART)

    async def step(self) -> float:
        """Count anew where that is due, and forget what is not limited any more."""
        for name in [name for name in self._buckets if self.asked_for(name) is None]:
            del self._buckets[name]
        return await self._waiting.step()

    # What it shows ----------------------------------------------------------------------------

    def asked_for(self, name: str) -> float | None:
        """How many timers per second are asked of all nodes, where that is limited."""
        if self._rules.limited.get(name, UNLIMITED).creates_per_second is None:
            return None
        own = self._buckets[name].rate if name in self._buckets else 0.0
        return own + sum(other.demand.get(name, 0.0) for other in self._others.values())

    async def tally(self, tenant: str) -> Tally:
        """How many timers a tenant has, by group and status."""
        return await self._waiting.tally(tenant)

    def _bucket(self, name: str, most: float, now: float) -> Bucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = Bucket(most, now)
            bucket.share(self._share(name), now)
        bucket.fill(most, now)
        return bucket

    def _limits(self, tenant: str, group: str) -> list[tuple[str, Quotas]]:
        limited = self._rules.limited
        if not limited:
            return []
        names = (tenant, name_of(tenant, group))
        return [(name, limited[name]) for name in names if name in limited]


def _too_fast(name: str, most: float, bucket: Bucket, now: float) -> TooManyRequests:
    wait = bucket.wait()
    return TooManyRequests(
        f"creates_per_second: {whose(name)} may create {most:g} timers per second; "
        f"try again in {max(math.ceil(wait), 1)} s",
        wait,
        # At a time of its own each, so that they do not come back all at once.
        hold_for=HOLD_FOR * (1 + random()) if bucket.refuse(now) > MOST_REFUSALS else 0.0,  # noqa: S311
    )
