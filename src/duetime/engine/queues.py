"""Queues: the timers that wait in lanes, bounded in number and in bytes.

Every lane is sure of a short queue, and all share a longer one, so that a burst is not read from
the store again and again; beyond that a timer goes back to being a row in the store, and is called
back when its queue has room.
"""

from collections.abc import Callable

from duetime.clock import Millis
from duetime.engine.deadlines import Deadlines
from duetime.engine.lanes import Lane
from duetime.engine.turned_away import TurnedAway
from duetime.timer import Timer

# For the memory of a node: large timers fill it before their number does.
MOST_BYTES_WAITING = 64 * 1024 * 1024
SURE_BYTES = 64 * 1024  # that every lane may have waiting, however many wait in others


class Queues:
    """What waits in all lanes. ``on_room`` is called when some may come again."""

    def __init__(self, *, sure: int, shared: int, on_room: Callable[[], None]) -> None:
        self.sure = sure
        self.shared = shared  # up to so many in all, queues may be longer
        self.versions: dict[str, int] = {}  # of each timer that waits
        self.weight = 0
        self.away = TurnedAway(on_room)  # those that found their queue full
        self.deadlines = Deadlines(self._waits_as)

    def is_waiting(self, id_: str, version: int) -> bool:
        """Tell whether a timer stands in a queue here as it is now, or newer; or did not fit in."""
        return self.versions.get(id_, 0) >= version or self.away.knows(id_, version)

    def has(self, timer: Timer) -> bool:
        """Tell whether a timer stands in a queue here in this very version."""
        return self.versions.get(timer.id) == timer.version

    def add(self, lane: Lane, timer: Timer) -> bool:
        """Let a timer wait; False if it does already, or was turned away."""
        id_, version, weight = timer.id, timer.version, timer.weight
        if self.versions.get(id_, 0) >= version:
            return False
        was_called = self.away.has_come(lane.name, id_)
        if timer.spec.deadline is not None:
            self.deadlines.add(lane.name, timer)
        self.first(lane)
        if not self._has_room_in(lane) or not (was_called or self._is_its_turn(lane)):
            self.away.add(lane.name, timer)
            return False
        lane.waiting.append(timer)
        self.versions[id_] = version
        self.weight += weight
        lane.weight += weight
        return True

    def recall_late(self, now: Millis) -> None:
        """Let those come again whose deadline has passed as they waited: they can be ended."""
        for name, line in self.deadlines.passed(now):
            self.forget_older(line.id, line.version + 1)
            self.away.let_come(name, line)

    def forget_older(self, id_: str, version: int) -> None:
        """Take note that a timer is of this version by now; what it was does not wait any more."""
        if self.versions.get(id_, version) < version:
            del self.versions[id_]  # it stands in its lane until it comes up

    def first(self, lane: Lane) -> Timer | None:
        """The first one of a lane, without those before it that have changed since they came.

        The last one stays, whatever it is: who has a place for it closes the lane in the end.
        """
        waiting, versions = lane.waiting, self.versions
        while len(waiting) > 1 and versions.get(waiting[0].id) != waiting[0].version:
            self._pop(lane)
        return waiting[0] if waiting else None

    def take(self, lane: Lane) -> Timer:
        """Take the first one of a lane."""
        self.first(lane)
        timer = self._pop(lane)
        if self.versions.get(timer.id) == timer.version:
            del self.versions[timer.id]
        return timer

    def call_back(self, lane: Lane) -> None:
        """Let as many of those that were turned away come again as there is room for."""
        if self.away.is_any(lane.name) and self._is_half_empty(lane):
            self.away.call(
                lane.name,
                count=self.sure - len(lane.waiting),
                room=max(_most_bytes_for_one() - lane.weight, SURE_BYTES),
                is_queue_empty=not lane.waiting,
            )

    def forget(self, lane: Lane) -> None:
        """Nothing of a lane is under way any more, or waits."""
        self.call_back(lane)
        self.away.forget(lane.name)

    def count(self, lane: Lane) -> int:
        """How many wait in a lane, and found no room in it."""
        return len(lane.waiting) + self.away.count(lane.name)

    def _waits_as(self, id_: str, version: int) -> bool:
        """Tell whether a timer waits here, or was turned away, in this very version."""
        return self.versions.get(id_) == version or self.away.version(id_) == version

    def _pop(self, lane: Lane) -> Timer:
        timer = lane.waiting.popleft()
        weight = timer.weight
        self.weight -= weight
        lane.weight -= weight
        return timer

    def _has_room_in(self, lane: Lane) -> bool:
        """Tell whether one more may wait: few in each lane for sure, more while all have room.

        Large ones in one lane take a part of what all have, no more.
        """
        if len(lane.waiting) < self.sure and lane.weight < SURE_BYTES:
            return True
        if self.weight >= MOST_BYTES_WAITING or lane.weight >= _most_bytes_for_one():
            return False
        return len(self.versions) < self.shared or len(lane.waiting) < self.sure

    def _is_its_turn(self, lane: Lane) -> bool:
        """Tell whether whoever comes to a lane may wait in it before those that were turned away.

        Where there are limits a queue may be long for ever, and these would never be called back.
        Elsewhere it would cost reading them twice, and they are at their receiver in moments.
        """
        is_long = lane.is_throttled and len(lane.waiting) >= self.sure // 2
        return not is_long or not self.away.is_any(lane.name)

    def _is_half_empty(self, lane: Lane) -> bool:
        """Tell whether a queue could do with more."""
        if len(lane.waiting) >= self.sure // 2:
            return False
        return lane.weight < SURE_BYTES or (
            lane.weight < _most_bytes_for_one() // 2 and self.weight < MOST_BYTES_WAITING
        )


def _most_bytes_for_one() -> int:
    return MOST_BYTES_WAITING // 4
