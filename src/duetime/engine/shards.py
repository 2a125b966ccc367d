"""Shards are shared by rendezvous hashing: each falls to the live node that scores highest for it.

Every node works out the same answer from the same list of names, and a node that comes or goes
moves only the shards that must move.
"""

from collections.abc import Collection, Iterable
from hashlib import shake_128
from itertools import repeat
from struct import Struct

from duetime.ids import ALL_SHARDS, SHARDS

_NOBODY = -1  # is below every score
_SCORES = Struct(f">{SHARDS}Q")  # in the same order of bytes on every machine


class Rendezvous:
    """Shares the shards among nodes, and keeps the scores of those that are alive."""

    def __init__(self) -> None:
        self._scores: dict[str, tuple[int, ...]] = {}

    def shards_of(self, node: str, alive: Collection[str]) -> Collection[int]:
        """The shards for which a node scores highest among the living; of equals, the last name."""
        if set(alive) <= {node}:
            return ALL_SHARDS
        scores = self._scores_of({*alive, node})
        earlier = _highest([scores[name] for name in scores if name < node])
        later = _highest([scores[name] for name in scores if name > node])
        rivals = zip(ALL_SHARDS, earlier, scores[node], later, strict=False)
        return frozenset(shard for shard, before, own, behind in rivals if before <= own > behind)

    def owners(self, alive: Collection[str]) -> list[str]:
        """Whose each shard is, by its number."""
        names = sorted(alive, reverse=True)
        scores = self._scores_of(names)
        tables = [scores[name] for name in names]
        return [names[each.index(max(each))] for each in zip(*tables, strict=True)]

    def _scores_of(self, names: Iterable[str]) -> dict[str, tuple[int, ...]]:
        """Everybody's scores; those of whoever is not asked about are forgotten."""
        self._scores = {name: self._scores.get(name) or _scores(name) for name in names}
        return self._scores


def _scores(node: str) -> tuple[int, ...]:
    return _SCORES.unpack(shake_128(node.encode()).digest(_SCORES.size))


def _highest(tables: list[tuple[int, ...]]) -> Iterable[int]:
    return map(max, zip(*tables, strict=True)) if tables else repeat(_NOBODY)
