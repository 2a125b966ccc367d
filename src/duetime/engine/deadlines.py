"""Deadlines of timers that wait for their receivers: one that passes is not waited for any longer.

Only their lines are kept. Those that have been started meanwhile are left in until they are many.
"""

import heapq
from collections.abc import Callable

from duetime.clock import Millis
from duetime.stores import Waking
from duetime.timer import Status, Timer

FEW = 1_000  # lines that are not worth being sorted out


class Deadlines:
    """Which cannot be started any more. ``is_waiting`` tells whether one does, in that version."""

    def __init__(self, is_waiting: Callable[[str, int], bool]) -> None:
        self._is_waiting = is_waiting
        self._heap: list[tuple[Millis, str, str, Waking]] = []
        self._sort_out_at = FEW

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, name: str, timer: Timer) -> None:
        """Watch the deadline of a timer that begins to wait for this receiver, if it has one."""
        if timer.spec.deadline is None or timer.status is not Status.PENDING:
            return
        # No attempt starts later than that: then it is over.
        over_at = timer.execute_at + timer.spec.deadline + 1
        heapq.heappush(self._heap, (over_at, timer.id, name, Waking.of(timer)))
        if len(self._heap) > self._sort_out_at:
            self._heap = [each for each in self._heap if self._is_waiting(each[1], each[3].version)]
            heapq.heapify(self._heap)
            self._sort_out_at = max(2 * len(self._heap), FEW)

    def next_at(self) -> Millis | None:
        """When the next of them passes."""
        return self._heap[0][0] if self._heap else None

    def passed(self, now: Millis) -> list[tuple[str, Waking]]:
        """Take those that still wait and whose deadline has passed, with their receivers."""
        passed: list[tuple[str, Waking]] = []
        while self._heap and self._heap[0][0] <= now:
            _, id_, name, line = heapq.heappop(self._heap)
            if self._is_waiting(id_, line.version):
                passed.append((name, line))
        return passed
