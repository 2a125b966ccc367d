"""A throttle: this node's part of the limits of one tenant, group or target."""

from duetime.tenancy.bucket import Bucket
from duetime.tenancy.limits import Limits
from duetime.tenancy.shares import Part

ANY = 1_000_000_000  # so many are no limit


class Throttle:
    """How many callbacks may be begun now."""

    __slots__ = ("_bucket", "_said", "limits", "most", "told")

    def __init__(self, limits: Limits, part: Part, now: float) -> None:
        self.limits = limits  # of the whole cluster
        self._bucket = Bucket(_pace(limits), now, _burst(limits))
        self.told = 0.0  # the demand, as the other nodes are told of it
        self.go_by(limits, part, now)

    def go_by(self, limits: Limits, part: Part, now: float) -> None:
        """Have this part of these limits, at once."""
        self.limits = limits
        self._bucket.fill(_pace(limits), now, _burst(limits))
        self._said = part  # the last time
        self.share(part, now)

    def share(self, part: Part, now: float) -> None:
        """Have this part of the limits from now on.

        Less than before counts at once. More counts when it was said twice: by then the other
        nodes have heard why, and have less.
        """
        before, self._said = self._said, part
        self._bucket.share(min(before.rate, part.rate), now)
        most = min(before.most, part.most)
        self.most = ANY if self.limits.concurrency is None else most  # under way at once

    def room(self, under_way: int, now: float) -> int:
        """How many more may be begun, while so many are under way."""
        self._bucket.fill(_pace(self.limits), now, _burst(self.limits))
        return min(self.most - under_way, self._bucket.count)

    def wait(self, under_way: int) -> float | None:
        """After how many seconds one may be begun; None: one that is under way must end first."""
        return None if under_way >= self.most else self._bucket.wait()

    def take(self) -> None:
        """One is begun."""
        self._bucket.asked += 1
        self._bucket.take()

    def give_back(self, count: int) -> None:
        """So many were not sent after all."""
        self._bucket.give_back(count)

    def demand(self, waiting: int, now: float) -> float:
        """How many could be begun in a second: those that wait, and those that were of late."""
        return waiting + self._bucket.demand(now)


def _pace(limits: Limits) -> float:
    return ANY if limits.per_second is None else limits.per_second


def _burst(limits: Limits) -> int | None:
    return None if limits.per_second is None else limits.burst
