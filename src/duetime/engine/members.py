"""Members: who is alive, and which shards this node looks after.

Every node keeps one record and writes it anew at each heartbeat. A node is taken for dead when
its record has stood still for a while on the observer's own monotonic clock, so no clocks need
to agree. The live nodes share the shards by rendezvous hashing: each works out the same answer
from the same list, and a node that comes or goes moves only the shards that must move.

While they disagree for a moment, two nodes look at the same shard. That wastes work, and never
more: who starts a timer is decided by its row.
"""

import logging
from collections.abc import Collection
from hashlib import blake2b

import msgspec

from duetime.clock import Clock
from duetime.ids import ALL_SHARDS
from duetime.stores import Record, Store

log = logging.getLogger("duetime.engine")

KIND = "node"
MISSED_BEATS = 4  # a record that stood still for so many heartbeats is a dead node's
BURIED_AFTER = 10  # its record is removed after so many times that


class _Sighting(msgspec.Struct, frozen=True):
    version: int
    since: float  # when this version was first seen
    has_moved: bool  # False: it stood like this when we came, so it may be a dead node's


class Members:
    """This node's view of who is there."""

    def __init__(self, node: str, store: Store, clock: Clock, *, beat_every: float = 2.0) -> None:
        self._node = node
        self._store = store
        self._clock = clock
        self._beat_every = beat_every
        self._own: Record | None = None
        self._sightings: dict[str, _Sighting] | None = None
        self._beaten_at: float | None = None
        self._alive: list[str] = [node]
        self.shards: Collection[int] = ALL_SHARDS

    @property
    def is_writing(self) -> bool:
        """Tell whether the last heartbeats were written."""
        return (
            self._beaten_at is not None
            and self._clock.monotonic() - self._beaten_at < self._beat_every * MISSED_BEATS
        )

    async def step(self) -> float:
        """Show a sign of life, look for those of others, and work out the shards."""
        await self._beat()
        records = await self._store.records(KIND)
        now = self._clock.monotonic()
        sightings = self._look_at(records, now)
        alive = sorted({self._node} | {name for name in sightings if self._is_alive(name, now)})
        if alive != self._alive:
            self._alive = alive
            self.shards = shards_of(self._node, alive)
            log.info("nodes alive: %d; this one has %d shards", len(alive), len(self.shards))
        for record in records:
            if self._is_long_dead(record, now):
                await self._store.put_record(record, None)
        return self._beat_every

    async def leave(self) -> None:
        """Take this node's record away, so that the others need not wait for it."""
        if self._own is not None:
            await self._store.put_record(self._own, None)
            self._own = None

    async def _beat(self) -> None:
        version = 1 if self._own is None else self._own.version + 1
        record = Record(kind=KIND, name=self._node, version=version)
        if not await self._store.put_record(self._own, record):
            # A write whose answer was lost has landed, or another node took us for dead.
            stored = [r for r in await self._store.records(KIND) if r.name == self._node]
            self._own = stored[0] if stored else None
            record = msgspec.structs.replace(
                record, version=1 if self._own is None else self._own.version + 1
            )
            if not await self._store.put_record(self._own, record):
                return
        self._own = record
        self._beaten_at = self._clock.monotonic()

    def _look_at(self, records: list[Record], now: float) -> dict[str, _Sighting]:
        """Note which records have moved since the last look."""
        before = self._sightings
        self._sightings = {}
        for record in records:
            last = None if before is None else before.get(record.name)
            if last is None:
                last = _Sighting(record.version, now, has_moved=before is not None)
            elif last.version != record.version:
                last = _Sighting(record.version, now, has_moved=True)
            self._sightings[record.name] = last
        return self._sightings

    def _is_alive(self, name: str, now: float) -> bool:
        sighting = (self._sightings or {})[name]
        return sighting.has_moved and now - sighting.since < self._beat_every * MISSED_BEATS

    def _is_long_dead(self, record: Record, now: float) -> bool:
        still_for = now - (self._sightings or {})[record.name].since
        return (
            record.name != self._node and still_for > self._beat_every * MISSED_BEATS * BURIED_AFTER
        )


def shards_of(node: str, alive: Collection[str]) -> Collection[int]:
    """The shards that fall to a node: those for which it scores highest among the living."""
    if set(alive) <= {node}:
        return ALL_SHARDS
    return frozenset(
        shard for shard in ALL_SHARDS if max(alive, key=lambda name: _score(name, shard)) == node
    )


def _score(node: str, shard: int) -> bytes:
    return blake2b(f"{node}\0{shard}".encode(), digest_size=8).digest()
