"""The agenda holds, in memory and in order, the timers that are due soon or late already.

It is a hint like the due index it is read from: whatever is on it is claimed by its version, so
an entry that is out of date costs one lost race. It is bounded; what does not fit stays in the
store and is read again.

It has two lanes. Timers that come up in time go into one, those that were late when they were
found into the other, and both are served: a backlog is worked off oldest first, and what is due
now does not queue behind it.
"""

import heapq
from itertools import count

from duetime.clock import Millis
from duetime.model import Timer

LATE: Millis = 1_000  # later than this when it is found: it belongs to the backlog


class Agenda:
    """What is to be started, and when."""

    def __init__(self, capacity: int = 20_000) -> None:
        self._capacity = capacity  # of each lane
        self._in_time: list[tuple[Millis, int, Timer]] = []
        self._backlog: list[tuple[Millis, int, Timer]] = []
        self._versions: dict[str, int] = {}
        self._sequence = count()

    def __len__(self) -> int:
        return len(self._versions)

    def __contains__(self, id_: str) -> bool:
        return id_ in self._versions

    @property
    def room(self) -> int:
        """How many more timers that come up in time may be put on it."""
        return max(self._capacity - len(self._in_time), 0)

    @property
    def backlog_room(self) -> int:
        """How many more late timers may be put on it."""
        return max(self._capacity - len(self._backlog), 0)

    def put(self, timer: Timer, now: Millis) -> bool:
        """Note down a timer; tells whether that was news."""
        if timer.wake_at is None or self._versions.get(timer.id, 0) >= timer.version:
            return False
        self._versions[timer.id] = timer.version
        lane = self._backlog if timer.wake_at < now - LATE else self._in_time
        heapq.heappush(lane, (timer.wake_at, next(self._sequence), timer))
        return True

    def forget(self, id_: str) -> None:
        """Strike a timer off."""
        self._versions.pop(id_, None)

    def take(self, now: Millis, limit: int) -> list[Timer]:
        """Take off up to so many timers that are due, both lanes having their share."""
        in_time = self._take(self._in_time, now, (limit + 1) // 2)
        backlog = self._take(self._backlog, now, limit - len(in_time))
        return in_time + backlog + self._take(self._in_time, now, limit - len(in_time + backlog))

    def next_at(self) -> Millis | None:
        """When the next timer is due."""
        return min(
            (lane[0][0] for lane in (self._in_time, self._backlog) if self._skip_stale(lane)),
            default=None,
        )

    def _take(self, lane: list[tuple[Millis, int, Timer]], now: Millis, limit: int) -> list[Timer]:
        taken: list[Timer] = []
        while len(taken) < limit and self._skip_stale(lane) and lane[0][0] <= now:
            timer = heapq.heappop(lane)[2]
            del self._versions[timer.id]
            taken.append(timer)
        return taken

    def _skip_stale(self, lane: list[tuple[Millis, int, Timer]]) -> bool:
        """Drop entries at the head that a newer version replaced; tell whether one is left."""
        while lane and self._versions.get(lane[0][2].id) != lane[0][2].version:
            heapq.heappop(lane)
        return bool(lane)
