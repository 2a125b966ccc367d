"""Stillness: while timers are moved, no node may work on either side.

A node that ended in good order has taken its record away. One that crashed has left it behind: it
is watched for as long as the record says that it may stand still, on this machine's clock alone.
"""

import asyncio

from duetime.clock import Clock
from duetime.errors import InUse
from duetime.moving.patience import Patience
from duetime.nodes import KIND, read_record
from duetime.stores import Record, Store

LOOK_EVERY = 0.5  # seconds


class Stillness:
    """Watches the nodes of one store."""

    def __init__(self, side: str, store: Store, clock: Clock, patience: Patience) -> None:
        self._side = side
        self._store = store
        self._clock = clock
        self._patience = patience
        self._first: dict[str, int] = {}  # the version of each record that was there

    async def begin(self) -> float:
        """Look who is there; for how many seconds they must be watched."""
        records = await self._records()
        self._first = {record.name: record.version for record in records}
        return max((read_record(record.data).ttl / 1000 for record in records), default=0.0)

    async def watch(self, seconds: float) -> None:
        """Return when nobody has moved for so long; InUse names the node that did."""
        until = self._clock.monotonic() + seconds
        while (now := self._clock.monotonic()) < until:
            await self._clock.wait(asyncio.Event(), min(LOOK_EVERY, until - now))
            await self.check()

    async def check(self) -> None:
        """InUse if a node has moved, or come, since the beginning."""
        for record in await self._records():
            if self._first.get(record.name) != record.version:
                about = read_record(record.data)
                where = f" (process {about.pid} on {about.host})" if about.host else ""
                raise InUse(
                    f"{self._side}: the node {record.name}{where} is running: stop all nodes first"
                )

    async def _records(self) -> list[Record]:
        return await self._patience.ask(self._store.records, KIND)
