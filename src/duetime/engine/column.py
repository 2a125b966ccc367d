"""A column of the agenda: timers by when they wake, those of each tenant for themselves.

What is due is taken off tenant by tenant, in turn, and of each in the order of time. Where there
are several tenants, none fills the column: each may have as many as there is room left.
"""

import heapq
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import count

from duetime.clock import Millis
from duetime.timer import Timer

CAPACITY = 20_000  # timers: many pages of the reader's, so that it seldom finds no room
MOST_BYTES = 64 * 1024 * 1024  # of heavy ones and light; no more heavy ones then
MANY = 64  # timers that are taken at once, for which it pays to sort
LIGHT = 8 * 1024  # bytes: as many of these as a column takes are 160 MB, so they need no such limit


class _Heap:
    """The timers of one tenant."""

    __slots__ = ("entries", "is_sorted", "turn", "weight")

    def __init__(self) -> None:
        # A heap; the number in an entry is no other one's, so no two timers are compared.
        self.entries: list[tuple[Millis, float, Timer]] = []
        self.is_sorted = True  # which is a heap as well
        self.weight = 0
        self.turn = 0  # the last one that it had

    def push(self, entry: tuple[Millis, float, Timer]) -> None:
        entries = self.entries
        if self.is_sorted and (not entries or entry > entries[-1]):
            entries.append(entry)
        else:
            heapq.heappush(entries, entry)
            self.is_sorted = len(entries) == 1

    def pop(self, now: Millis, most: int) -> list[Timer]:
        """Take off up to so many that are due, in the order of time."""
        if most >= MANY and not self.is_sorted:
            self.entries.sort()
            self.is_sorted = True
        entries = self.entries
        if self.is_sorted:
            count = min(bisect_right(entries, (now, math.inf)), most)
            popped = [timer for _, _, timer in entries[:count]]
            del entries[:count]
            return popped
        popped = []
        while entries and entries[0][0] <= now and len(popped) < most:
            popped.append(heapq.heappop(entries)[2])
        return popped


class Column:
    """Heaps of timers, whose heads are dropped where a newer version has replaced them."""

    def __init__(self, versions: dict[str, int]) -> None:
        self._versions = versions
        self._heaps: dict[str, _Heap] = {}
        self._heads: list[tuple[Millis, str]] = []  # of each heap, and some that were
        self._turns = count(1)
        self._count = 0
        self.weight = 0

    @property
    def room(self) -> int:
        """How many more timers it takes, if they are light."""
        return max(CAPACITY - self._count, 0)

    def has_room_for(self, weight: int) -> bool:
        """Tell whether it takes one of this weight: heavy ones must not keep light ones out."""
        return self.room > 0 and (weight <= LIGHT or self.weight + weight <= MOST_BYTES)

    def has_room_beside_others(self, tenant: str, weight: int, part: int = 1) -> bool:
        """Tell whether a tenant may have one more, and leave as much to the others.

        ``part``: whether it has no more than such a part of that.
        """
        heap = self._heaps.get(tenant)
        if heap is None:
            return True
        is_light = weight <= LIGHT or heap.weight + weight <= MOST_BYTES - self.weight
        return is_light and len(heap.entries) < self.room // part

    def is_empty_of(self, tenant: str) -> bool:
        """Tell whether a tenant has nothing here."""
        return tenant not in self._heaps

    @property
    def next_at(self) -> Millis | None:
        """When the first one is due."""
        while self._heads:
            at, tenant = self._heads[0]
            first = self._first(tenant)
            if first == at:
                return at
            heapq.heappop(self._heads)  # it was taken, or replaced by what comes later
            if first is not None:
                heapq.heappush(self._heads, (first, tenant))
        return None

    def push(self, wake_at: Millis, sequence: float, timer: Timer) -> None:
        """Note down a timer."""
        heap = self._heaps.get(timer.tenant)
        if heap is None:
            heap = self._heaps[timer.tenant] = _Heap()
        entry = (wake_at, sequence, timer)
        heap.push(entry)
        if heap.entries[0] is entry:
            heapq.heappush(self._heads, (wake_at, timer.tenant))
        weight = timer.weight
        heap.weight += weight
        self.weight += weight
        self._count += 1

    def take(self, now: Millis, limit: int) -> list[Timer]:
        """Take off up to so many that are due, of every tenant its share."""
        taken: list[Timer] = []
        if limit <= 0:
            return taken
        due = self._pop_due(now)
        left = sorted(due, key=lambda tenant: self._heaps[tenant].turn) if len(due) > 1 else due
        while left and len(taken) < limit:
            share = -(-(limit - len(taken)) // len(left))
            left = [
                tenant
                for tenant in left
                if len(taken) < limit
                and self._take_of(tenant, now, min(share, limit - len(taken)), taken)
            ]
        for tenant in due:
            if (at := self._first(tenant)) is not None:
                heapq.heappush(self._heads, (at, tenant))
        return taken

    def drop(self, is_unwanted: Callable[[Timer], bool]) -> list[Timer]:
        """Strike off all that are unwanted; answers with them."""
        valid = [entry for entry in self._entries() if not self._is_stale(entry[2])]
        dropped = {entry[2].id: entry[2] for entry in valid if is_unwanted(entry[2])}
        for id_ in dropped:
            del self._versions[id_]
        self._heaps, self._heads, self._count, self.weight = {}, [], 0, 0
        for wake_at, sequence, timer in valid:
            if timer.id not in dropped:
                self.push(wake_at, sequence, timer)
        return list(dropped.values())

    def _entries(self) -> Iterator[tuple[Millis, float, Timer]]:
        return (entry for heap in self._heaps.values() for entry in heap.entries)

    def _pop_due(self, now: Millis) -> list[str]:
        """Take the tenants off the heads that have something due."""
        due: dict[str, None] = {}
        while (at := self.next_at) is not None and at <= now:
            due[heapq.heappop(self._heads)[1]] = None
        return list(due)

    def _take_of(self, tenant: str, now: Millis, share: int, taken: list[Timer]) -> bool:
        """Take a share of what a tenant has due; tells whether there may be more."""
        heap, versions = self._heaps[tenant], self._versions
        heap.turn = next(self._turns)
        until = len(taken) + share
        while popped := heap.pop(now, until - len(taken)):
            for timer in popped:
                if versions.get(timer.id) == timer.version:
                    del versions[timer.id]
                    taken.append(timer)
            self._note_popped(tenant, heap, popped)
        return bool(heap.entries) and heap.entries[0][0] <= now

    def _first(self, tenant: str) -> Millis | None:
        """When the first of a tenant's is due."""
        heap = self._heaps.get(tenant)
        while heap is not None and heap.entries:
            if not self._is_stale(heap.entries[0][2]):
                return heap.entries[0][0]
            self._note_popped(tenant, heap, heap.pop(heap.entries[0][0], 1))
        return None

    def _is_stale(self, timer: Timer) -> bool:
        return self._versions.get(timer.id) != timer.version

    def _note_popped(self, tenant: str, heap: _Heap, timers: list[Timer]) -> None:
        weight = sum([timer.weight for timer in timers])
        heap.weight -= weight
        self.weight -= weight
        self._count -= len(timers)
        if not heap.entries:
            self._heaps.pop(tenant, None)
