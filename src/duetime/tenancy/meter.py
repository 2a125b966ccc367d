"""The meter: how much of its quotas each tenant and group has used, in the whole cluster.

Nobody asks the store for each timer. Each node tells the others with its heartbeats how many timers
per second are asked of it, and takes that share of the limit; and by how much the timers that wait
have grown through it, which is added to what was counted last. So the limits of a cluster are kept
within what can happen between two heartbeats; docs/tenants.md says how much that is.

Who has no quota is not metered at all.
"""

import asyncio
import math
from collections import Counter
from heapq import nlargest
from random import random
from typing import NamedTuple

from duetime.clock import Clock, time_limit
from duetime.errors import Forbidden, StoreUnavailable, TooManyRequests, Unavailable
from duetime.model import FINISHED, Timer
from duetime.nodes import NodeRecord
from duetime.stores import Store
from duetime.tenancy.bucket import Bucket
from duetime.tenancy.group import name_of
from duetime.tenancy.quotas import UNLIMITED, Quotas
from duetime.tenancy.rules import Rules

# Of each limit, this part is shared evenly, so that a node of which nothing was asked so far can
# begin; the rest goes by what is asked of each.
EVEN_PART = 0.1

# Timers are counted anew after so many seconds, and not before so many times what counting took.
COUNT_EVERY = 10.0
COUNT_REST = 50
SOONEST_REST = 20  # before a timer is refused, if counting took so little that it may be asked for

# Who is refused so many times in a second gets the next answers so many seconds late, or up to
# twice that: whoever asks again as soon as they are refused would else keep a node busy with it.
MOST_REFUSALS = 10
HOLD_FOR = 0.5

# Names of which a node tells the others: heartbeats must stay small, whoever sets however many
# quotas. Of those beyond, each node knows only its own part.
MOST_TOLD = 100

LONGEST_COUNT = 20.0  # seconds that anybody waits for a count
NEXT_LOOK = 5.0  # seconds after which timers that wait may have become fewer


class Counted(NamedTuple):
    """How many timers waited, and by how much each node had let them grow by then."""

    waiting: int
    growth: dict[str, int]  # by node; this one's own has the name ""
    at: float
    took: float


class Meter:
    """Measures this node's part, and adds what the others tell."""

    def __init__(self, rules: Rules, store: Store, clock: Clock) -> None:
        self._rules = rules
        self._store = store
        self._clock = clock
        self._buckets: dict[str, Bucket] = {}
        self._others: dict[str, NodeRecord] = {}
        self._growth: dict[str, int] = {}
        self._counted: dict[str, Counted] = {}
        self._counting: dict[str, asyncio.Task[dict[str, dict[str, int]]]] = {}
        self._counters: dict[str, asyncio.Event] = {}
        self._rests_until = -math.inf

    # Before a timer is made -------------------------------------------------------------------

    def check_batch(self, tenant: str, group: str | None, count: int) -> None:
        """Refuse a request with too many timers of a tenant, or of one of its groups."""
        name = tenant if group is None else name_of(tenant, group)
        most = self._rules.limited.get(name, UNLIMITED).batch_size
        if most is not None and count > most:
            raise Forbidden(
                f"timers: {_whose(name)} may create {most} in one request; these are more"
            )

    def check_payload(self, timer: Timer) -> None:
        """Refuse a timer that carries too much."""
        size = timer.spec.payload_size
        for name, quotas in self._limits(timer.tenant, timer.group):
            if quotas.payload_bytes is not None and size > quotas.payload_bytes:
                raise Forbidden(
                    f"callback.payload: {_whose(name)} may send {quotas.payload_bytes} bytes, "
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

        A new one counts as waiting from here on: who does not make it after all, withdraws it.
        """
        limits = self._limits(timer.tenant, timer.group)
        if not limits:
            return
        self.check_payload(timer)
        for name, quotas in limits:
            if quotas.pending is not None and (old is None or old.status in FINISHED):
                await self._check_pending(name, quotas.pending)
        self._take(limits)
        self._grow(timer, int(old is None))

    def withdraw(self, *timers: Timer) -> None:
        """Note that timers that were let in were not made: they were there, or something failed."""
        if self._rules.limited:
            for timer in timers:
                self._grow(timer, -1)

    def _take(self, limits: list[tuple[str, Quotas]]) -> None:
        now = self._clock.monotonic()
        buckets = [
            (name, quotas.creates_per_second, self._bucket(name, quotas.creates_per_second, now))
            for name, quotas in limits
            if quotas.creates_per_second is not None
        ]
        for _, _, bucket in buckets:
            bucket.asked += 1
        for name, most, bucket in buckets:
            if bucket.wait() > 0:
                raise _too_fast(name, most, bucket, now)
        for _, _, bucket in buckets:
            bucket.take()

    async def _check_pending(self, name: str, most: int) -> None:
        counted = self._counted.get(name)
        if counted is None or (self._waiting(name, counted) >= most and self._may_count(counted)):
            await self._count_together(_tenant_in(name))
            counted = self._counted.get(name)
        if counted is not None and (waiting := self._waiting(name, counted)) >= most:
            raise TooManyRequests(
                f"pending: {_whose(name)} may have {most} timers waiting, and has {waiting}; "
                "more are possible when some have fired or are canceled",
                NEXT_LOOK,
            )

    def _may_count(self, counted: Counted) -> bool:
        rest = max(1.0, SOONEST_REST * counted.took)
        return self._clock.monotonic() >= counted.at + rest

    # As timers come and go --------------------------------------------------------------------

    def changed(self, old: Timer, new: Timer) -> None:
        """Note that a timer has changed: one more waits, or one less, or as many as before."""
        if self._rules.limited:
            self._grow(new, (new.status not in FINISHED) - (old.status not in FINISHED))

    def ended(self, timer: Timer) -> None:
        """Note that an attempt has ended, and perhaps its timer.

        What ends without an attempt is noticed when timers are counted anew.
        """
        if self._rules.limited and timer.status in FINISHED:
            self._grow(timer, -1)

    def _grow(self, timer: Timer, by: int) -> None:
        for name, quotas in self._limits(timer.tenant, timer.group) if by else ():
            if quotas.pending is not None:
                self._growth[name] = self._growth.get(name, 0) + by

    # What nodes tell each other ---------------------------------------------------------------

    def demand(self) -> dict[str, float]:
        """How many timers per second are asked of this node, for each that is limited."""
        now = self._clock.monotonic()
        rates = {name: bucket.demand(now) for name, bucket in self._buckets.items()}
        busiest = nlargest(MOST_TOLD, rates, key=rates.__getitem__)
        return {name: rates[name] for name in busiest if rates[name] > 0}

    def growth(self) -> dict[str, int]:
        """By how much those that wait have grown through this node since it came.

        Where there are too many, those are told that are nearest to their limits.
        """
        if len(self._growth) <= MOST_TOLD:
            return self._growth.copy()
        nearest = nlargest(MOST_TOLD, self._growth, key=self._fullness)
        return {name: self._growth[name] for name in nearest}

    def _fullness(self, name: str) -> float:
        counted, most = self._counted.get(name), self._rules.limited.get(name, UNLIMITED).pending
        if counted is None or most is None:
            return 0.0
        return self._waiting(name, counted) / max(most, 1)

    def hear(self, others: dict[str, NodeRecord]) -> None:
        """Take note of what the other nodes tell."""
        self._others = others
        now = self._clock.monotonic()
        for name, bucket in self._buckets.items():
            bucket.share(self._share(name), now)

    def _share(self, name: str) -> float:
        """The part of a limit that is this node's."""
        nodes = len(self._others) + 1
        if nodes == 1:
            return 1.0
        mine = self._buckets[name].rate
        all_of_it = mine + sum(other.demand.get(name, 0.0) for other in self._others.values())
        if all_of_it == 0:
            return 1 / nodes
        return EVEN_PART / nodes + (1 - EVEN_PART) * mine / all_of_it

    # Counting ---------------------------------------------------------------------------------

    async def step(self) -> float:
        """Count anew where that is due."""
        began_at = self._clock.monotonic()
        limited = self._rules.limited
        if began_at >= self._rests_until:
            tenants = {
                _tenant_in(name) for name, each in limited.items() if each.pending is not None
            }
            for tenant in tenants:
                await self._count_together(tenant)
            took = self._clock.monotonic() - began_at
            self._rests_until = began_at + took + max(COUNT_EVERY, COUNT_REST * took)
        for name in [name for name in self._counted if name not in self._rules.limited]:
            del self._counted[name]
            self._growth.pop(name, None)
        for name in [name for name in self._buckets if name not in self._rules.limited]:
            del self._buckets[name]
        return COUNT_EVERY

    def asked_for(self, name: str) -> float | None:
        """How many timers per second are asked of all nodes, where that is limited."""
        bucket = self._buckets.get(name)
        if bucket is None:
            return None
        return bucket.rate + sum(other.demand.get(name, 0.0) for other in self._others.values())

    async def counts(self, tenant: str) -> dict[str, dict[str, int]]:
        """How many timers a tenant has, by group and status; who asks at once shares the answer."""
        counting = self._counting.get(tenant)
        if counting is None:
            counting = self._counting[tenant] = asyncio.create_task(self._by_group(tenant))
            counting.add_done_callback(lambda _: self._counting.pop(tenant, None))
        try:
            async with time_limit(self._clock, LONGEST_COUNT):
                return await asyncio.shield(counting)
        except TimeoutError:
            raise Unavailable(
                f"the timers could not be counted within {LONGEST_COUNT:g} s"
            ) from None
        except StoreUnavailable as error:
            raise Unavailable(f"the timers could not be counted: {error}") from None

    async def _by_group(self, tenant: str) -> dict[str, dict[str, int]]:
        counts: dict[str, dict[str, int]] = {}
        for group, status, timers in sorted(await self._store.count(tenant)):
            counts.setdefault(group, {})[status.value] = timers
        return counts

    async def _count_together(self, tenant: str) -> None:
        """Count anew, once for all who want to know it just now."""
        if (ended := self._counters.get(tenant)) is not None:
            await self._clock.wait(ended, LONGEST_COUNT)
            return
        self._counters[tenant] = ended = asyncio.Event()
        try:
            await self._count(tenant)
        finally:
            del self._counters[tenant]
            ended.set()

    async def _count(self, tenant: str) -> None:
        began_at = self._clock.monotonic()
        growth = {"": dict(self._growth)} | {
            node: other.growth for node, other in self._others.items()
        }
        by_group = Counter[str]()
        for group, counts in (await self.counts(tenant)).items():
            by_group[group] = sum(n for status, n in counts.items() if status not in FINISHED)
        took = self._clock.monotonic() - began_at
        for name in self._rules.limited:
            if _tenant_in(name) == tenant:
                group = name.partition("/")[2]
                count = by_group[group] if group else by_group.total()
                grown = {node: each.get(name, 0) for node, each in growth.items()}
                self._counted[name] = Counted(count, grown, began_at + took, took)

    def _waiting(self, name: str, counted: Counted) -> int:
        before = counted.growth
        since = self._growth.get(name, 0) - before.get("", 0)
        for node, other in self._others.items():
            was = before.get(node, 0)
            since += other.growth.get(name, was) - was  # who tells nothing of it has not grown
        return max(counted.waiting + since, 0)

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
        f"creates_per_second: {_whose(name)} may create {most:g} timers per second; "
        f"try again in {max(math.ceil(wait), 1)} s",
        wait,
        # At a time of its own each, so that they do not come back all at once.
        hold_for=HOLD_FOR * (1 + random()) if bucket.refuse(now) > MOST_REFUSALS else 0.0,  # noqa: S311
    )


def _tenant_in(name: str) -> str:
    return name.partition("/")[0]


def _whose(name: str) -> str:
    tenant, _, group = name.partition("/")
    return f"the group '{group}'" if group else f"the tenant '{tenant}'"
