"""Waiting: how many timers of each tenant and group are still to come, in the whole cluster.

They are counted now and then. In between, each node keeps by how much they have grown through it
since it came, and tells the others with its heartbeats. What is let in and not written yet has a
place meanwhile: it counts here, but nobody else is told of it, since nothing may come of it.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from heapq import nlargest
from typing import NamedTuple

import msgspec

from duetime.clock import Clock, Millis, time_limit
from duetime.errors import StoreUnavailable, TooManyRequests, Unavailable
from duetime.nodes import NodeRecord
from duetime.stores import Store
from duetime.tenancy.quotas import UNLIMITED, Quotas, tenant_in, whose
from duetime.tenancy.rules import Rules
from duetime.timer import FINISHED, Timer

# Timers are counted anew after so many seconds, and not before so many times what counting took.
COUNT_EVERY = 10.0
COUNT_REST = 50
SOONEST_REST = 20  # where somebody waits for it: who would be refused else, or asks for the usage

# Names of which a node tells the others: heartbeats must stay small, whoever sets however many
# quotas. Of those beyond, each node knows only its own part.
MOST_TOLD = 100

LONGEST_COUNT = 20.0  # seconds that anybody waits for a count
LOOK_AGAIN = 1.0  # seconds after which a round waits on for it ...
MOST_LOOKS = 3  # ... and so many times, before it goes on with the next tenant
NEXT_LOOK = 5.0  # seconds after which timers that wait may have become fewer

_THIS = ""  # this node, among those that grow


class Tally(NamedTuple):
    """How many timers a tenant has, by group and status, and when that was counted."""

    groups: dict[str, dict[str, int]]
    counted_at: Millis
    took: float
    fresh_until: float


class Counted(msgspec.Struct):
    """How many timers waited, and by how much each node had let them grow by then."""

    waiting: int
    growth: dict[str, int]  # by node, as far as it has told; who comes later is added
    at: float
    took: float
    doubtful: int  # that ended through this node, and may or may not be in the count


class Waiting:
    """Counts, and adds what this node and the others have seen come and go since."""

    def __init__(self, rules: Rules, store: Store, clock: Clock) -> None:
        self._rules = rules
        self._store = store
        self._clock = clock
        self._others: dict[str, NodeRecord] = {}
        self._growth: dict[str, int] = {}
        self._ends: dict[str, int] = {}  # of timers, through this node
        self._places: dict[int, tuple[Timer, Sequence[str]]] = {}  # by what is being written
        self._taken = Counter[str]()  # how many places of each name
        self._told: dict[str, dict[str, int]] = {}  # growth by node, also of those who have gone
        self._counted: dict[str, Counted] = {}
        self._tallies: dict[str, Tally] = {}
        self._counting: dict[str, asyncio.Task[Tally]] = {}
        self._round = _Round()
        self._rests_until = float("-inf")

    async def check(self, limits: list[tuple[str, int]]) -> None:
        """Refuse one more, if of one of these names as many wait already as may.

        Counting takes a while, in which others are let in: nobody is refused or let in before all
        that had to be counted is. Before the first count nobody knows, and so nobody is let in.
        """
        for name, most in limits:
            counted = self._counted.get(name)
            if counted is None:
                await self._count(tenant_in(name))
            elif self._now(name, counted) >= most and self._may_count(counted):
                with suppress(Exception):  # what was known before must do
                    await self._count(tenant_in(name))
        for name, most in limits:
            counted = self._counted.get(name)
            if counted is not None and self._now(name, counted) >= most:
                raise TooManyRequests(
                    f"pending: {whose(name)} may have {most} timers waiting, and has as many; "
                    "more are possible when some have fired or are canceled",
                    NEXT_LOOK,
                )

    def _may_count(self, counted: Counted) -> bool:
        rest = max(1.0, SOONEST_REST * counted.took)
        return self._clock.monotonic() >= counted.at + rest

    @property
    def has_places(self) -> bool:
        """Tell whether anything is let in and not written yet."""
        return bool(self._places)

    def take_places(self, timer: Timer, names: Sequence[str]) -> None:
        """Let one more in that is not written yet."""
        self._places[id(timer)] = timer, names
        self._taken.update(names)

    def leave_places(self, timer: Timer) -> None:
        """Note that one that was let in is written, or will not be; who has no place has none."""
        _, names = self._places.pop(id(timer), (timer, ()))
        for name in names:
            self._taken[name] -= 1
            if not self._taken[name]:
                del self._taken[name]

    def grow(self, name: str, by: int, since: float) -> None:
        """Note that so many more wait, or less; their write was begun then.

        What ends as timers are counted is taken off once: by that count, or by the next one.
        """
        self._growth[name] = self._growth.get(name, 0) + by
        if by < 0:
            self._ends[name] = self._ends.get(name, 0) - by
            counted = self._counted.get(name)
            if counted is not None and since < counted.at:
                counted.doubtful -= by

    # What nodes tell each other ---------------------------------------------------------------

    def growth(self) -> dict[str, int]:
        """By how much those that wait have grown through this node since it came.

        Where there are too many, those are told that are nearest to their limits.
        """
        if len(self._growth) < MOST_TOLD:
            return self._growth.copy()
        nearest = nlargest(MOST_TOLD, self._growth, key=self._fullness)
        return {name: self._growth[name] for name in nearest}

    def _fullness(self, name: str) -> float:
        counted, most = self._counted.get(name), self._rules.limited.get(name, UNLIMITED).pending
        if counted is None or most is None:
            return 0.0
        return self._now(name, counted) / max(most, 1)

    def hear(self, others: dict[str, NodeRecord]) -> None:
        """Take note of what the other nodes tell.

        What one tells for the first time, it may have told others long before: only what comes
        after that is added to what was counted.
        """
        self._others = others
        for node, other in others.items():
            is_new = node not in self._told
            told = self._told.setdefault(node, {})
            told.update(other.growth)
            for name in self._counted if is_new and _tells_all(other) else other.growth:
                if (counted := self._counted.get(name)) is not None:
                    counted.growth.setdefault(node, told.get(name, 0))

    # Counting ---------------------------------------------------------------------------------

    async def step(self) -> float:
        """Count anew where that is due, one tenant after the other, and forget what is over."""
        self._forget()
        round_ = self._round
        if not round_.tenants and self._clock.monotonic() >= self._rests_until:
            limits = self._rules.limited.items()
            tenants = {tenant_in(name) for name, each in limits if _counts(each)}
            round_ = self._round = _Round(sorted(tenants), self._told.keys() - self._others.keys())
        while round_.tenants:
            round_.counting = round_.counting or self._begin_count(round_.tenants[-1])
            try:
                tally = await self._awaited(round_.counting)
                round_.took += tally.took
            except Exception as error:  # noqa: BLE001 - the others are counted all the same
                round_.looks += 1
                if not round_.counting.done() and round_.looks < MOST_LOOKS:
                    return LOOK_AGAIN
                round_.failure = error
            round_.tenants.pop()
            round_.counting, round_.looks = None, 0
            if not round_.tenants:
                self._end_round(round_)
        return COUNT_EVERY

    def _end_round(self, round_: "_Round") -> None:
        """Rest, and forget those who had gone before it: they are in every count by now."""
        rest = max(COUNT_EVERY, COUNT_REST * round_.took)
        self._rests_until = self._clock.monotonic() + rest
        if round_.failure is not None:
            raise round_.failure
        for node in round_.gone - self._others.keys():
            self._told.pop(node, None)

    def _forget(self) -> None:
        """Drop what is not limited any more, and what is too old to be told again."""
        limited = {name for name, each in self._rules.limited.items() if _counts(each)}
        for name in self._counted.keys() - limited:
            del self._counted[name]
        for growth in (self._growth, self._ends, *self._told.values()):
            for name in growth.keys() - limited:
                del growth[name]
        for node in self._told.keys() - self._others.keys():
            if not self._told[node]:
                del self._told[node]
        now = self._clock.monotonic()
        self._tallies = {
            tenant: tally for tenant, tally in self._tallies.items() if now < tally.fresh_until
        }

    async def tally(self, tenant: str) -> Tally:
        """How many timers a tenant has.

        Whoever asks again and again gets the same answer for a while, if counting is much work:
        nobody can keep the store busy by asking.
        """
        tally = self._tallies.get(tenant)
        if tally is not None and self._clock.monotonic() < tally.fresh_until:
            return tally
        return await self._count(tenant)

    async def _count(self, tenant: str) -> Tally:
        """Count anew, once for all who want to know it just now."""
        return await self._awaited(self._begin_count(tenant))

    def _begin_count(self, tenant: str) -> asyncio.Task[Tally]:
        counting = self._counting.get(tenant)
        if counting is None:
            counting = self._counting[tenant] = asyncio.create_task(self._counted_anew(tenant))
            counting.add_done_callback(lambda task: self._end_count(tenant, task))
        return counting

    async def _awaited(self, counting: asyncio.Task[Tally]) -> Tally:
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

    def _end_count(self, tenant: str, task: asyncio.Task[Tally]) -> None:
        del self._counting[tenant]
        if not task.cancelled():
            task.exception()  # those who wait are told; there may be none left

    async def _counted_anew(self, tenant: str) -> Tally:
        began_at = self._clock.monotonic()
        before, ends = self._grown(), self._ends.copy()
        groups: dict[str, dict[str, int]] = {}
        for group, status, timers in sorted(await self._store.count(tenant)):
            groups.setdefault(group, {})[status.value] = timers
        now = self._clock.monotonic()
        took = now - began_at
        by_group = Counter[str]()
        for group, counts in groups.items():
            by_group[group] = sum(n for status, n in counts.items() if status not in FINISHED)
        before = self._grown() | before  # with those of whom it heard meanwhile
        tell_all = {_THIS, *(node for node, each in self._others.items() if _tells_all(each))}
        for name, quotas in self._rules.limited.items():
            if tenant_in(name) == tenant and _counts(quotas):
                group = name.partition("/")[2]
                growth = {
                    node: each.get(name, 0)
                    for node, each in before.items()
                    if name in each or node in tell_all
                }
                waiting = by_group[group] if group else by_group.total()
                doubtful = self._ends.get(name, 0) - ends.get(name, 0)
                self._counted[name] = Counted(waiting, growth, now, took, doubtful)
        tally = Tally(groups, self._clock.now(), took, now + SOONEST_REST * took)
        self._tallies[tenant] = tally
        return tally

    def _grown(self) -> dict[str, dict[str, int]]:
        """By how much each name has grown through each node."""
        others = {node: told.copy() for node, told in self._told.items()}
        return {_THIS: self._growth.copy()} | others

    def _now(self, name: str, counted: Counted) -> int:
        """How many wait now, as far as this node has heard, with those that it is letting in."""
        since = 0
        for node, was in counted.growth.items():
            grown = self._growth if node == _THIS else self._told.get(node, {})
            since += grown.get(name, was) - was  # who tells nothing of it has not grown
        return max(counted.waiting + since + counted.doubtful, 0) + self._taken[name]


class _Round:
    """A count of each tenant, one after the other; steps may be many."""

    def __init__(self, tenants: Iterable[str] = (), gone: Iterable[str] = ()) -> None:
        self.tenants = list(tenants)  # that are still to be counted, the next one last
        self.gone = set(gone)  # nodes that were when it began
        self.counting: asyncio.Task[Tally] | None = None
        self.looks = 0  # in vain, at that
        self.took = 0.0  # counting, where it came to an end
        self.failure: Exception | None = None


def _counts(quotas: Quotas) -> bool:
    return quotas.pending is not None


def _tells_all(other: NodeRecord) -> bool:
    """Tell whether a name that a node does not tell of has not grown through it."""
    return len(other.growth) < MOST_TOLD
