"""Sightings: which records of other nodes this one has seen, and whether they moved.

Only this node's monotonic clock counts. A record that was there when this node came says nothing
yet: it may be a dead node's. Whoever is alive writes it anew within one heartbeat, so those that
did not by then are passed over. So are those at once whose process is known to have ended. That is
good enough to look after their shards, which wastes work at worst. To take up their claims it is
not: for that, a record must have stood still for all of the time that its node declares in it.

Nor does it say anything that a record stood still while this node could not look, because the store
was away: nobody could write then. Those that were alive before have a heartbeat's time to show it.
"""

from collections.abc import Callable, Iterable

import msgspec

from duetime.clock import Millis
from duetime.nodes import NodeRecord, TargetReport, read_record
from duetime.stores import Record

PATIENCE = 1.25  # heartbeats within which whoever is alive has written its record anew
BURIED_AFTER = 10  # a dead node's record is removed after so many times its ttl


class Sighting(msgspec.Struct):
    """A record as it was seen last."""

    version: int
    since: float  # when this version was first seen
    has_moved: bool  # False: it stood like this when we came
    about: NodeRecord
    is_dead: bool = False
    doubted_since: float | None = None  # it must show itself: nobody was looking before that
    has_ended: bool = False  # it stood like this, and there is no such process

    def is_alive(self, now: float) -> bool:
        return self.has_moved and self.may_be_alive(now)

    @property
    def is_rival(self) -> bool:
        """Tell whether it may still look after shards."""
        return self.about.runs_engine and not (self.is_dead or self.about.is_joining)

    def may_be_alive(self, now: float) -> bool:
        """Tell whether it has shown itself, or there is time left for it to do so."""
        is_doubtful = not self.has_moved or self.doubted_since is not None
        return not (self.is_dead or (is_doubtful and self.is_overdue(now)))

    def is_overdue(self, now: float) -> bool:
        """Tell whether it would have moved by now if it were alive."""
        since = self.since if self.doubted_since is None else self.doubted_since
        return now - since >= PATIENCE * self.about.beat_every / 1000


class Sightings:
    """What one node has seen of the others."""

    def __init__(
        self, look_every: float, has_ended: Callable[[NodeRecord], bool] = lambda _: False
    ) -> None:
        self._look_every = look_every
        self._has_ended = has_ended
        self._looked_at: float | None = None
        self._by_name: dict[str, Sighting] = {}

    def look_at(self, records: Iterable[Record], *, asked_at: float, seen_at: float) -> bool:
        """Note which records have moved; tells whether somebody was found dead in this look.

        What a look shows was so at some time between asking and seeing. So a version counts from
        when it was seen, and has stood still until the look that still shows it was asked for.
        """
        before, self._by_name = self._by_name, {}
        is_first = self._looked_at is None
        blind_for = asked_at - (self._looked_at or asked_at)
        has_died = False
        for record in records:
            last = before.get(record.name)
            was_blind = last is not None and blind_for > max(
                last.about.ttl / 2000, 2 * self._look_every
            )
            if last is None or last.version != record.version:
                about = read_record(record.data)
                last = Sighting(record.version, seen_at, not is_first, about)
                last.doubted_since = seen_at if was_blind else None
                last.has_ended = is_first and self._has_ended(about)
            elif not last.is_dead and was_blind:
                # However slow the looks are from now on, the doubt began with the first of them.
                last.since = seen_at
                last.doubted_since = last.doubted_since or seen_at
            elif not last.is_dead and asked_at - last.since >= last.about.ttl / 1000:
                last.is_dead = has_died = True
            self._by_name[record.name] = last
        self._looked_at = seen_at
        return has_died

    def items(self) -> Iterable[tuple[str, Sighting]]:
        """What was seen of each node."""
        return self._by_name.items()

    def alive(self, now: float) -> dict[str, NodeRecord]:
        """Those that are there and take part: they look after shards."""
        return {
            name: sighting.about
            for name, sighting in self._by_name.items()
            if sighting.is_alive(now)
            and sighting.about.runs_engine
            and not sighting.about.is_joining
        }

    def present(self, now: float) -> dict[str, NodeRecord]:
        """Those that may be there, also if they look after no shards yet: they take requests."""
        return {
            name: sighting.about
            for name, sighting in self._by_name.items()
            if sighting.may_be_alive(now)
        }

    def told(self, now: float) -> list[tuple[dict[str, TargetReport], float]]:
        """What those that are there tell of their targets, and since when they do."""
        return [
            (sighting.about.targets, sighting.since)
            for sighting in self._by_name.values()
            if sighting.may_be_alive(now)
        ]

    def dead(self) -> dict[str, Sighting]:
        """Those whose record has stood still for all of the time that it declares."""
        return {name: each for name, each in self._by_name.items() if each.is_dead}

    def has_rivals(self) -> bool:
        """Tell whether anybody may look after shards: all that are not known to be dead."""
        return any(sighting.is_rival for sighting in self._by_name.values())

    def has_passed_over(self, now: float) -> bool:
        """Tell whether somebody is passed over who has not stood still for all of its time."""
        return any(
            sighting.is_rival and not sighting.is_alive(now) for sighting in self._by_name.values()
        )

    def longest_ttl(self) -> Millis:
        """The longest time that any of them declares."""
        return max((sighting.about.ttl for sighting in self._by_name.values()), default=0)

    def is_settled(self, now: float) -> bool:
        """Tell whether everybody who is alive has had the time to show it."""
        return all(
            sighting.has_moved or sighting.has_ended or sighting.is_overdue(now)
            for sighting in self._by_name.values()
        )

    def is_long_dead(self, name: str, now: float) -> bool:
        """Tell whether nobody needs to know of this node any more."""
        sighting = self._by_name[name]
        return sighting.is_dead and now - sighting.since > (
            BURIED_AFTER * sighting.about.ttl / 1000
        )
