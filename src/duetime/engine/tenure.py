"""A tenure says which shards a node has to itself.

Two nodes may look after one shard for a moment, which is harmless where rows decide. For what no
row decides, a shard counts only when nobody else can still take it for theirs. A node acts upon
what it saw of the others no longer than for its time to live. So one that comes, or comes back,
waits for that time before it has anything to itself: by then, all have seen it. And what it takes
over it has to itself when nobody is passed over who may be alive: whoever had it has left, or has
been dead for all of its time.
"""

import math
from collections.abc import Collection

from duetime.clock import Clock
from duetime.engine.lease import Lease
from duetime.engine.members import Members


class Tenure:
    """What one node has to itself."""

    def __init__(self, members: Members, clock: Clock) -> None:
        self._members = members
        self._clock = clock
        self._lease: Lease | None = None
        self._seen_by = math.inf  # then all others know that this node has shards
        self._own: Collection[int] = ()

    def look(self) -> None:
        """Take note of what the members have: called after each heartbeat."""
        members, now = self._members, self._clock.monotonic()
        if not members.is_writing:
            return
        if members.lease is not self._lease:
            # It has come, or come back: the others may share the shards as if it were not there.
            self._lease, self._seen_by, self._own = members.lease, math.inf, ()
        if not members.shards:
            return
        seen_by = now + members.longest_ttl if members.has_rivals else now
        self._seen_by = min(self._seen_by, seen_by)
        if not members.has_passed_over:
            self._own = members.shards

    def holds(self) -> bool:
        """Tell whether what this node has is still its own."""
        members, now = self._members, self._clock.monotonic()
        if members.lease is not self._lease or not self._lease.holds(now):
            return False
        if members.is_leaving and not members.is_alone:
            return False  # they take over
        # A heartbeat may be written long after the look on which it acts.
        return members.has_left or now < members.looked_at + members.ttl

    def shards(self) -> Collection[int]:
        """The shards that this node has to itself now."""
        if self._clock.monotonic() < self._seen_by or not self.holds():
            return ()
        shards = self._members.shards
        if shards is self._own:
            return shards  # a store is asked for less where it knows that these are all
        return frozenset(self._own).intersection(shards)
