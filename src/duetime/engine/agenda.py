"""The agenda holds, in memory and in order, the timers that are due soon or late already.

It is a hint like the due index it is read from: whatever is on it is claimed by its version, so
an entry that is out of date costs one lost race. It is bounded, in number and in bytes; what does
not fit stays in the store and is read again.

It has two lanes. Timers that come up in time go into one, those that were late when they were
found into the other, and both are served: a backlog is worked off oldest first, and what is due
now does not queue behind it.
"""

import heapq
from collections.abc import Callable
from itertools import count

from duetime.clock import Millis
from duetime.timer import Timer

LATE: Millis = 1_000  # later than this when it is found: it belongs to the backlog
CAPACITY = 20_000  # timers in a lane: many pages of the reader's, so that it seldom finds no room
MOST_BYTES = 64 * 1024 * 1024  # in a lane, of heavy ones and light; no more heavy ones then
LIGHT = 8 * 1024  # bytes: as many of these as a lane takes are 160 MB, so they need no such limit


class _Lane:
    """A heap of timers, whose heads are dropped where a newer version has replaced them."""

    def __init__(self, versions: dict[str, int]) -> None:
        self._versions = versions
        self._heap: list[tuple[Millis, int, Timer]] = []
        self._weight = 0

    @property
    def room(self) -> int:
        """How many more timers it takes, if they are light."""
        return max(CAPACITY - len(self._heap), 0)

    def has_room_for(self, weight: int) -> bool:
        """Tell whether it takes one of this weight: heavy ones must not keep light ones out."""
        return self.room > 0 and (weight <= LIGHT or self._weight + weight <= MOST_BYTES)

    @property
    def next_at(self) -> Millis | None:
        """When the first one is due."""
        while self._heap and self._is_stale(self._heap[0][2]):
            self._pop()
        return self._heap[0][0] if self._heap else None

    def push(self, wake_at: Millis, sequence: int, timer: Timer) -> None:
        heapq.heappush(self._heap, (wake_at, sequence, timer))
        self._weight += timer.weight

    def take(self, now: Millis, limit: int) -> list[Timer]:
        """Take off up to so many that are due."""
        taken: list[Timer] = []
        while len(taken) < limit and (at := self.next_at) is not None and at <= now:
            timer = self._pop()
            del self._versions[timer.id]
            taken.append(timer)
        return taken

    def drop(self, is_unwanted: Callable[[Timer], bool]) -> list[Timer]:
        """Strike off all that are unwanted; answers with them."""
        valid = [entry for entry in self._heap if not self._is_stale(entry[2])]
        dropped = {entry[2].id: entry[2] for entry in valid if is_unwanted(entry[2])}
        for id_ in dropped:
            del self._versions[id_]
        self._heap = [entry for entry in valid if entry[2].id not in dropped]
        heapq.heapify(self._heap)
        self._weight = sum(timer.weight for _, _, timer in self._heap)
        return list(dropped.values())

    def _is_stale(self, timer: Timer) -> bool:
        return self._versions.get(timer.id) != timer.version

    def _pop(self) -> Timer:
        timer = heapq.heappop(self._heap)[2]
        self._weight -= timer.weight
        return timer


class Agenda:
    """What is to be started, and when."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}
        self._in_time = _Lane(self._versions)
        self._backlog = _Lane(self._versions)
        self._sequence = count()

    def __len__(self) -> int:
        return len(self._versions)

    def __contains__(self, id_: str) -> bool:
        return id_ in self._versions

    @property
    def room(self) -> int:
        """How many more timers that come up in time may be put on it."""
        return self._in_time.room

    @property
    def backlog_room(self) -> int:
        """How many more late timers may be put on it."""
        return self._backlog.room

    def knows(self, id_: str, version: int) -> bool:
        """Tell whether a timer is on it as it is now, or newer."""
        return self._versions.get(id_, 0) >= version

    def has_room_for(self, wake_at: Millis, weight: int, now: Millis) -> bool:
        """Tell whether there is room for such a timer in the lane that it belongs to."""
        return self._lane(wake_at, now).has_room_for(weight)

    def put(self, timer: Timer, now: Millis) -> bool:
        """Note down a timer; tells whether that was news."""
        if timer.wake_at is None or self.knows(timer.id, timer.version):
            return False
        self._versions[timer.id] = timer.version
        self._lane(timer.wake_at, now).push(timer.wake_at, next(self._sequence), timer)
        return True

    def hasten(self, timer: Timer, now: Millis) -> None:
        """Note down a timer as due now, whenever it would wake."""
        if self._versions.get(timer.id, 0) <= timer.version:
            self._versions[timer.id] = timer.version
            self._in_time.push(now, next(self._sequence), timer)

    def forget(self, id_: str) -> None:
        """Strike a timer off."""
        self._versions.pop(id_, None)

    def drop(self, is_unwanted: Callable[[Timer], bool]) -> list[Timer]:
        """Strike off all that are unwanted; answers with them."""
        return self._in_time.drop(is_unwanted) + self._backlog.drop(is_unwanted)

    def take(self, now: Millis, limit: int) -> list[Timer]:
        """Take off up to so many timers that are due, both lanes having their share."""
        in_time = self._in_time.take(now, (limit + 1) // 2)
        backlog = self._backlog.take(now, limit - len(in_time))
        return in_time + backlog + self._in_time.take(now, limit - len(in_time + backlog))

    def next_at(self) -> Millis | None:
        """When the next timer is due."""
        firsts = (self._in_time.next_at, self._backlog.next_at)
        return min((at for at in firsts if at is not None), default=None)

    def next_in_time(self) -> Millis | None:
        """When the next timer is due that was not late already when it was found."""
        return self._in_time.next_at

    def _lane(self, wake_at: Millis, now: Millis) -> _Lane:
        return self._backlog if wake_at < now - LATE else self._in_time
