"""Waiting: how many timers of each tenant and group are still to come, in the whole cluster.

They are counted now and then. In between, each node keeps by how much they have grown through it
since it came, and tells the others with its heartbeats.
"""

import asyncio
from collections import Counter
from heapq import nlargest
from typing import NamedTuple

from duetime.clock import Clock, time_limit
from duetime.errors import StoreUnavailable, TooManyRequests, Unavailable
from duetime.nodes import NodeRecord
from duetime.stores import Store
from duetime.tenancy.quotas import UNLIMITED, tenant_in, whose
from duetime.tenancy.rules import Rules
from duetime.timer import FINISHED

# Timers are counted anew after so many seconds, and not before so many times what counting took.
COUNT_EVERY = 10.0
COUNT_REST = 50
SOONEST_REST = 20  # before a timer is refused, if counting took so little that it may be asked for

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


class Waiting:
    """Counts, and adds what this node and the others have seen come and go since."""

    def __init__(self, rules: Rules, store: Store, clock: Clock) -> None:
        self._rules = rules
        self._store = store
        self._clock = clock
        self._others: dict[str, NodeRecord] = {}
        self._growth: dict[str, int] = {}
        self._counted: dict[str, Counted] = {}
        self._counting: dict[str, asyncio.Task[dict[str, dict[str, int]]]] = {}
        self._counters: dict[str, asyncio.Event] = {}
        self._rests_until = float("-inf")

    async def check(self, limits: list[tuple[str, int]]) -> None:
        """Refuse one more, if of one of these names as many wait already as may.

        Counting takes a while, in which others are let in: nobody is refused or let in before all
        that had to be counted is.
        """
        for name, most in limits:
            counted = self._counted.get(name)
            if counted is None or (self._now(name, counted) >= most and self._may_count(counted)):
                await self._count_together(tenant_in(name))
        for name, most in limits:
            counted = self._counted.get(name)
            if counted is not None and (waiting := self._now(name, counted)) >= most:
                raise TooManyRequests(
                    f"pending: {whose(name)} may have {most} timers waiting, and has {waiting}; "
                    "more are possible when some have fired or are canceled",
                    NEXT_LOOK,
                )

    def _may_count(self, counted: Counted) -> bool:
        rest = max(1.0, SOONEST_REST * counted.took)
        return self._clock.monotonic() >= counted.at + rest

    def grow(self, name: str, by: int) -> None:
        """Note that so many more wait, or less."""
        self._growth[name] = self._growth.get(name, 0) + by

    # What nodes tell each other ---------------------------------------------------------------

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
        return self._now(name, counted) / max(most, 1)

    def hear(self, others: dict[str, NodeRecord]) -> None:
        """Take note of what the other nodes tell."""
        self._others = others

    # Counting ---------------------------------------------------------------------------------

    async def step(self) -> float:
        """Count anew where that is due, and forget what is not limited any more."""
        began_at = self._clock.monotonic()
        limited = self._rules.limited
        if began_at >= self._rests_until:
            tenants = {
                tenant_in(name) for name, each in limited.items() if each.pending is not None
            }
            for tenant in tenants:
                await self._count_together(tenant)
            took = self._clock.monotonic() - began_at
            self._rests_until = began_at + took + max(COUNT_EVERY, COUNT_REST * took)
        for name in (self._counted.keys() | self._growth.keys()) - self._rules.limited.keys():
            self._counted.pop(name, None)
            self._growth.pop(name, None)
        return COUNT_EVERY

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
            told = "the timers could not be counted; try again"
            raise Unavailable(f"the timers could not be counted: {error}", told=told) from None

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
            if tenant_in(name) == tenant:
                group = name.partition("/")[2]
                count = by_group[group] if group else by_group.total()
                grown = {node: each.get(name, 0) for node, each in growth.items()}
                self._counted[name] = Counted(count, grown, began_at + took, took)

    def _now(self, name: str, counted: Counted) -> int:
        """How many wait now, as far as this node has heard."""
        before = counted.growth
        since = self._growth.get(name, 0) - before.get("", 0)
        for node, other in self._others.items():
            was = before.get(node, 0)
            since += other.growth.get(name, was) - was  # who tells nothing of it has not grown
        return max(counted.waiting + since, 0)
