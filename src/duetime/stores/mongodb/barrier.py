"""A barrier before reads: behind it, a read sees every write that was acknowledged before.

A primary that was cut off, or hung, may go on answering for a while from what it knows, when
another one has taken its place already. It cannot have anything acknowledged by a majority, though.
So whoever reads first makes sure of a small write, and then asks for what is at least as new as
that. Reads that come together share a write.
"""

import asyncio
import random

from bson.timestamp import Timestamp

from duetime.errors import StoreUnavailable
from duetime.stores.mongodb.connection import Database
from duetime.stores.mongodb.fate import FENCES
from duetime.stores.mongodb.lane import Lane

_PLACES = 64  # nodes spread over these, so that their writes rarely meet


class Barrier:
    """Passed by every read that must not be stale."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._place = random.randrange(1, _PLACES + 1)  # noqa: S311 - no secret
        self._under_way: asyncio.Task[Timestamp] | None = None
        self._next: asyncio.Task[Timestamp] | None = None

    async def passed(self, database: Database) -> Timestamp:
        """The time of a write that was begun after this was asked, and that a majority has."""
        if self._next is None:
            self._next = asyncio.create_task(self._in_turn(database, self._under_way))
            self._next.add_done_callback(_seen)
        return await asyncio.shield(self._next)  # others may wait for it as well

    async def _in_turn(
        self, database: Database, before: "asyncio.Task[Timestamp] | None"
    ) -> Timestamp:
        if before is not None:
            await asyncio.wait([before])
        self._under_way, self._next = self._next, None
        return await self._lane.run(lambda: self._write(database))

    async def _write(self, database: Database) -> Timestamp:
        async with database.client.start_session() as session:
            await database[FENCES].update_one(
                {"_id": self._place}, {"$inc": {"count": 1}}, upsert=True, session=session
            )
            made = session.operation_time
            if made is None:
                raise StoreUnavailable("MongoDB: it does not tell when it wrote")
            return made


def _seen(task: "asyncio.Task[Timestamp]") -> None:
    """Take note of how it ended: those who waited for it may all have gone away."""
    if not task.cancelled():
        task.exception()
