"""A lease says until when a node may act upon the claims that it made under it.

Others take a node for dead when its record has stood still for a while, and take up its claims at
once. The node's own lease ends before any of them can come to that: it is counted from before the
heartbeat was asked for, they count from after they saw it. A lease that has ended stays so. The
next heartbeat begins another one, which says nothing of claims that were made before.
"""

import math

import msgspec


class Lease(msgspec.Struct, eq=False):
    """Ends at a time on the monotonic clock; never, while no other node can know of this one."""

    until: float = math.inf

    def holds(self, now: float) -> bool:
        """Tell whether what was claimed under it is still this node's."""
        return now < self.until
