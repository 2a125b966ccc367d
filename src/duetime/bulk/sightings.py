"""Sightings: for how long the records of actions have stood still, as this node has seen it.

As in ``engine.sightings``, only this node's monotonic clock counts. While it could not look,
because the store was away, nobody could write: that time does not count.
"""

from collections.abc import Iterable
from typing import NamedTuple

from duetime.stores import Record


class _Sighting(NamedTuple):
    version: int
    since: float  # when this version was first seen
    until: float  # when it was asked for and still there


class Sightings:
    """What one node has seen of the records."""

    def __init__(self, look_every: float) -> None:
        self._blind_after = 2 * look_every
        self._looked_at: float | None = None  # or has heard of the store since
        self._by_name: dict[str, _Sighting] = {}

    def look_at(self, records: Iterable[Record], *, asked_at: float, seen_at: float) -> None:
        """Note which records have moved."""
        was_blind = self._looked_at is None or asked_at - self._looked_at > self._blind_after
        before, self._by_name = self._by_name, {}
        for record in records:
            last = before.get(record.name)
            if last is None or was_blind or last.version != record.version:
                last = _Sighting(record.version, seen_at, seen_at)
            self._by_name[record.name] = last._replace(until=max(asked_at, last.since))
        self._looked_at = seen_at

    def has_heard(self, at: float) -> None:
        """Note that the store was there, whatever it was asked: who could write was able to."""
        if self._looked_at is not None:
            self._looked_at = max(self._looked_at, at)

    def still_for(self, name: str) -> float:
        """For how many seconds a record has stood still."""
        seen = self._by_name[name]
        return seen.until - seen.since
