"""Cuts: where a partition is read in parts, because too much of it is dead for one read.

A read steps over whatever was removed or has expired, and where that is too much
(``tombstone_failure_threshold``) it fails, each time it is tried, for days. Nothing tells where the
dead lie. So a stretch that failed is cut into parts, and those that fail again are cut further.
Cuts are remembered: the next read does not begin with what failed. Many of them were only made on
the way to where the dead are, so one after the other is left out, and comes back to stay if a read
fails without it.
"""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence

from duetime.clock import Millis
from duetime.stores import Due

# What a stretch is cut into. A read that fails costs as much as one that steps over all it may;
# with halves, three times as many would fail until the parts are small enough.
PARTS = 8
MOST = 1_000  # cuts of one shard: when there are more, all are found anew

_ID_BITS = 128
_ID_DIGITS = 32
_HEX = frozenset("0123456789abcdef")


class Cuts:
    """The cuts among the rows of one kind, by shard.

    What is dead often lies at the same places in many shards: so they take each other's cuts over.
    For that, whoever has to look for them waits for its ``turn``.
    """

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self._shards: dict[int, _Own] = {}

    def of(self, shard: int) -> Sequence[Due]:
        """The cuts of a shard, in order."""
        own = self._shards.get(shard)
        return () if own is None else own.places

    def next(self, shard: int, place: Due, end: Due) -> Due:
        """How far one read goes, from a place towards an end that is above or below it."""
        places = self.of(shard)
        if place < end:
            return min([end, *places[bisect_right(places, place) :][:1]])
        return max([end, *places[: bisect_left(places, place)][-1:]])

    def cut(self, shard: int, low: Due, high: Due) -> bool:
        """Cut a stretch that could not be read; tells whether that is possible."""
        own = self._shards.setdefault(shard, _Own())
        if len(own.places) >= MOST:
            own = self._shards[shard] = _Own()
        if own.left_out is not None and low < own.left_out < high:
            insort(own.places, own.left_out)
            own.needed.add(own.left_out)
            own.left_out = None
            return True
        known = (place for other in self._shards.values() for place in other.places)
        new = _between(known, low, high) or middles(low, high)
        own.places = sorted({*own.places, *new})
        return bool(new)

    def passed(self, shard: int, low: Due, high: Due) -> None:
        """All of this stretch was read at once."""
        own = self._shards.get(shard)
        if own is not None and own.left_out is not None and low < own.left_out < high:
            own.left_out = None  # it can be done without

    def leave_one_out(self, shard: int, low: Due, high: Due) -> None:
        """Try to do without one of the cuts there, the next time."""
        own = self._shards.get(shard)
        if own is None or own.left_out is not None:
            return
        for place in _between(own.places, low, high):
            if place not in own.needed:
                own.places.remove(place)
                own.left_out = place
                return

    def forget(self, shard: int, until: Due) -> None:
        """Nobody reads before this place any more."""
        own = self._shards.get(shard)
        if own is None:
            return
        del own.places[: bisect_right(own.places, until)]
        own.needed.intersection_update(own.places)
        if own.left_out is not None and own.left_out <= until:
            own.left_out = None


class _Own:
    """The cuts of one shard."""

    def __init__(self) -> None:
        self.places: list[Due] = []  # in order
        self.needed: set[Due] = set()  # without which a read has failed
        self.left_out: Due | None = None  # that is being tried to do without


def middles(low: Due, high: Due) -> list[Due]:
    """Places that cut a stretch into equal parts: by time, and within one instant by id."""
    first, last = _number(low), _number(high)
    numbers = {first + (last - first) * n // PARTS for n in range(1, PARTS)}
    return _between((_place(number) for number in sorted(numbers)), low, high)


def _between(places: Iterable[Due], low: Due, high: Due) -> list[Due]:
    return [place for place in places if low < place < high]


def _number(place: Due) -> int:
    """A place as a number, in the same order; before 1970 there is nothing that would fail."""
    wake_at: Millis = place.wake_at
    return 0 if wake_at < 0 else (wake_at << _ID_BITS) + _id_number(place.id)


def _id_number(text: str) -> int:
    """An id, or the beginning of one, or what is behind all that begin so, as a number."""
    digits = text.replace("-", "")[:_ID_DIGITS]
    known = next((n for n, digit in enumerate(digits) if digit not in _HEX), len(digits))
    number = int(digits[:known] or "0", 16) + (known < len(digits))
    return number << 4 * (_ID_DIGITS - known)


def _place(number: int) -> Due:
    digits = f"{number % (1 << _ID_BITS):0{_ID_DIGITS}x}"
    id_ = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return Due(number >> _ID_BITS, id_)
