"""Floors: the dead lines at the beginning of what is due are passed by.

A line that is removed leaves a tombstone, and a read steps over each of them, until they are so
many that Cassandra refuses. The tombstones gather where the oldest lines were: in a shard that
fires much, just where each read begins. So a partition has a floor. Below it nothing is put among
what is due any more, but among the late ones, of which there are few. It rises in two steps, so
that nothing is passed by: once the floor is raised, a read looks whether anything is left below it;
if not, nothing ever will be, and reads begin there (the head). What is left is moved to the late
ones, timer by timer.

The store has no clock. What time it is, it knows from the changes that it writes.
"""

from collections.abc import Sequence

from duetime.stores import Due, Waking
from duetime.stores.cassandra.errors import ENGINE_ERRORS
from duetime.stores.cassandra.lanes import Lanes
from duetime.stores.cassandra.rows import BEGINNING
from duetime.stores.cassandra.shards import Shards

# A timer may be put down for a moment in the past: clocks differ, and a write may take as long as
# this. The late ones have no floor, and must stay few.
MARGIN = 10_000
# The floor is raised when so many lines were removed,
MANY = 2_000
# and in any case each time that so many milliseconds are full, to that very time: somebody else
# may have removed some. So shards that have little to do begin at the same place, and what is due
# in all of them is asked for by one request.
RARELY = 60_000
# When so many were removed and the floor still is where it was, something holds it back that cannot
# be fired: then it rises past that, which is put among the late ones.
HELD_BACK = 20_000


class Floors:
    """Raises the floors and the heads of shards, from what the reads of what is due have seen."""

    def __init__(self, lanes: Lanes, shards: Shards) -> None:
        self._lanes = lanes
        self._shards = shards

    async def saw(self, shard: int, first: Due, floor: Due | None, lines: Sequence[Waking]) -> None:
        """A read from the head on found these lines of what is due, and none before this place.

        ``floor`` is the one that was known before that read began.
        """
        head = self._shards.head(shard) or BEGINNING
        if floor is not None and head < floor <= first:
            try:
                await self._shards.raise_head(shard, floor)
            except ENGINE_ERRORS:
                return  # the next read tries again
        lane = self._lanes.known(shard)
        if lane is None or self._lanes.latest is None:
            return
        if floor is not None and (below := [line for line in lines if line.place < floor]):
            lane.shelve(below)
        wanted = Due(self._lanes.latest - MARGIN, "")
        if lane.removed < HELD_BACK:
            wanted = min(first, wanted)
        if lane.removed < MANY:
            wanted = Due(wanted.wake_at - wanted.wake_at % RARELY, "")
        if wanted > (floor or BEGINNING):
            lane.raise_floor(wanted)
