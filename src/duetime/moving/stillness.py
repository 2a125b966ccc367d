"""Stillness: while timers are moved, no node may work on either side.

A node that ended in good order has taken its records away. One that crashed has left one behind: it
is watched for as long as the record says that it may stand still, on this machine's clock alone.
So is one that is leaving: it still answers requests and finishes callbacks, without a heartbeat.
"""

from typing import NamedTuple

from duetime.clock import Clock, sleep
from duetime.errors import InUse
from duetime.moving.patience import Patience
from duetime.nodes import LEAVING, NODE_KIND, read_record
from duetime.stores import Record, Store

LOOK_EVERY = 0.5  # seconds

_DOING = {
    NODE_KIND: "is running: stop all nodes first",
    LEAVING: "is stopping: begin again when it has ended",
}


class _Place(NamedTuple):
    kind: str
    name: str


class Stillness:
    """Watches the nodes of one store."""

    def __init__(self, side: str, store: Store, clock: Clock, patience: Patience) -> None:
        self._side = side
        self._store = store
        self._clock = clock
        self._patience = patience
        self._seen: dict[_Place, Record] = {}  # what is left of nodes that do not move

    async def begin(self) -> float:
        """Look who is there; for how many seconds they must be watched."""
        self._seen = await self._records()
        abouts = [read_record(record.data) for record in self._seen.values()]
        return max((about.ttl / 1000 for about in abouts), default=0.0)

    async def watch(self, seconds: float) -> None:
        """Return when nobody has moved for so long, or all have gone; InUse names who moved."""
        until = self._clock.monotonic() + seconds
        while self._seen and (now := self._clock.monotonic()) < until:
            await sleep(self._clock, min(LOOK_EVERY, until - now))
            self._seen = await self._unmoved()

    async def check(self) -> None:
        """InUse if a node has moved, come or gone since it was watched."""
        for gone in self._seen.keys() - (await self._unmoved()).keys():
            raise self._in_use(self._seen[gone], "was running until now: begin again")

    async def _unmoved(self) -> dict[_Place, Record]:
        """What is there and was there before, as it was."""
        records = await self._records()
        for place, record in records.items():
            if self._seen.get(place) != record:
                raise self._in_use(record, _DOING[place.kind])
        return records

    def _in_use(self, record: Record, what: str) -> InUse:
        about = read_record(record.data)
        where = f" (process {about.pid} on {about.host})" if about.host else ""
        return InUse(f"{self._side}: the node {record.name}{where} {what}")

    async def _records(self) -> dict[_Place, Record]:
        # In this order: a node that leaves writes the second kind before it removes the first.
        return {
            _Place(record.kind, record.name): record
            for kind in (NODE_KIND, LEAVING)
            for record in await self._patience.ask(self._store.records, kind)
        }
