"""Rounds: how far the purge of each shard has come, so that it does not step over what it dropped.

A purge takes the oldest timers first, and each time some more. What it passed over, because a write
failed or because it came later, is found by the next round.
"""

from duetime.clock import Millis
from duetime.stores import Due
from duetime.stores.cassandra.cuts import Cuts
from duetime.stores.cassandra.rows import BEGINNING

# Where a round had to step over more than one read can, the next one waits for so long.
RARELY = 3_600_000


class Rounds:
    """The place of each shard. Time is that before which timers are purged."""

    def __init__(self, cuts: Cuts) -> None:
        self._cuts = cuts
        self._under_way: dict[int, tuple[Due, Millis]] = {}  # how far, and since when

    def place(self, shard: int) -> Due:
        """Where to go on."""
        place, _ = self._under_way.get(shard, (BEGINNING, 0))
        return place

    def came_to(self, shard: int, place: Due, now: Millis, *, is_end: bool) -> None:
        """All before this place was taken."""
        _, since = self._under_way.get(shard, (BEGINNING, now))
        is_long = bool(self._cuts.of(shard))
        if is_end and (not is_long or now - since >= RARELY):
            self._under_way.pop(shard, None)
        else:
            self._under_way[shard] = (place, since)
