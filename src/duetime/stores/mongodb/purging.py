"""Purging: timers go, when they have been kept for long enough, and all that is theirs with them.

Most have their whole log in their own document. The lines that lie beside one may be too many for
one transaction; so the timer goes first, and leaves a grave in its place, both or neither. Whoever
purges next takes the lines of all graves away: also those of one who was cut off.
"""

from collections.abc import Sequence

from bson.binary import Binary

from duetime import ids
from duetime.clock import Millis
from duetime.stores.mongodb.connection import Database, Document
from duetime.stores.mongodb.documents import by_ids
from duetime.stores.mongodb.graves import Graves
from duetime.stores.mongodb.transaction import in_transaction
from duetime.timer import FINISHED

# Also asleep: of one that has failed, somebody may still have to be told.
_OVER: Document = {"status": {"$in": [status.value for status in FINISHED]}, "wake_at": None}
_NO_LOG = {"has_log": {"$ne": True}}  # beside it


class Purging:
    """Drops what is finished from one database."""

    def __init__(self, database: Database, graves: Graves) -> None:
        self._client = database.client
        self._timers = database["timers"]
        self._graves = graves

    async def purge(self, shards: Sequence[int], before: Millis, limit: int) -> int:
        """Drop finished timers that are kept for the usual time; how many."""
        return await self._drop(usual(before), "updated_at", shards, limit)

    async def drop_outlived(self, shards: Sequence[int], now: Millis, limit: int) -> int:
        """Drop finished timers whose own retention is over; how many."""
        return await self._drop(outlived(now), "drop_at", shards, limit)

    async def _drop(self, finished: Document, order: str, shards: Sequence[int], limit: int) -> int:
        if not shards or limit == 0:
            return 0
        wanted = finished | ({"shard": {"$in": shards}} if len(shards) < ids.SHARDS else {})
        cursor = self._timers.find(
            wanted, {"has_log": 1}, sort=[(order, 1)], limit=limit, hint="drop"
        )
        doomed = {each["_id"]: each.get("has_log", False) async for each in cursor}
        # Asked once more each time: somebody may have begun one anew meanwhile.
        dropped = 0
        if plain := [id_ for id_, has_log in doomed.items() if not has_log]:
            answer = await self._timers.delete_many(by_ids(plain) | finished | _NO_LOG)
            dropped += answer.deleted_count
        if logged := [id_ for id_, has_log in doomed.items() if has_log]:
            dropped += await self._bury(logged, finished)
        await self._graves.clear()
        return dropped

    async def _bury(self, timers: Sequence[Binary], finished: Document) -> int:
        """Put graves in the place of timers that are still finished; how many."""
        async with self._client.start_session() as session:

            async def once() -> int:
                cursor = self._timers.find(
                    by_ids(timers) | finished, {"_id": 1}, session=session, hint="_id_"
                )
                # Nobody can change them from now on: that would end this transaction.
                if dead := [each["_id"] async for each in cursor]:
                    await self._timers.delete_many(by_ids(dead), session=session)
                    await self._graves.dig(session, dead)
                return len(dead)

            return await in_transaction(session, once)


def usual(before: Millis) -> Document:
    """Those who finished before then, and have no retention of their own."""
    return _OVER | {"drop_at": None, "updated_at": {"$lt": before}}


def outlived(now: Millis) -> Document:
    """Those who have one, which is over."""
    return _OVER | {"drop_at": {"$lte": now}}
