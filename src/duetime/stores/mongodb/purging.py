"""Purging: finished timers go, and all that is theirs with them.

Most have their whole log in their own document. The lines that lie beside one may be too many for
one transaction; so the timer goes first, and leaves a grave in its place, both or neither. Whoever
purges next takes the lines of all graves away: also those of one who was cut off.
"""

from collections.abc import Sequence

from bson.binary import Binary
from pymongo import ReplaceOne

from duetime import ids
from duetime.clock import Millis
from duetime.model import FINISHED
from duetime.stores.mongodb.connection import Database, Document
from duetime.stores.mongodb.documents import by_ids, last_line_id, line_id
from duetime.stores.mongodb.schema import GRAVES
from duetime.stores.mongodb.transaction import in_transaction
from duetime.stores.portions import parts

_GRAVES_AT_ONCE = 1_000
_RANGES = 100  # in one command

_NO_LOG = {"has_log": {"$ne": True}}  # beside it


class Purging:
    """Drops what is finished from one database."""

    def __init__(self, database: Database) -> None:
        self._client = database.client
        self._timers = database["timers"]
        self._attempts = database["attempts"]
        self._graves = database[GRAVES]

    async def purge(self, shards: Sequence[int], before: Millis, limit: int) -> int:
        """Drop finished timers with all that is theirs; how many."""
        if not shards or limit == 0:
            return 0
        finished: Document = {
            "status": {"$in": [status.value for status in FINISHED]},
            "updated_at": {"$lt": before},
        }
        wanted = finished | ({"shard": {"$in": shards}} if len(shards) < ids.SHARDS else {})
        cursor = self._timers.find(
            wanted, {"has_log": 1}, sort=[("updated_at", 1)], limit=limit, hint="finished"
        )
        doomed = {each["_id"]: each.get("has_log", False) async for each in cursor}
        # Asked once more each time: somebody may have begun one anew meanwhile.
        dropped = 0
        if plain := [id_ for id_, has_log in doomed.items() if not has_log]:
            answer = await self._timers.delete_many(by_ids(plain) | finished | _NO_LOG)
            dropped += answer.deleted_count
        if logged := [id_ for id_, has_log in doomed.items() if has_log]:
            dropped += await self._bury(logged, finished)
        await self._clear_graves()
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
                    await self._graves.bulk_write(
                        [ReplaceOne({"_id": id_}, {}, upsert=True) for id_ in dead],
                        session=session,
                    )
                return len(dead)

            return await in_transaction(session, once)

    async def _clear_graves(self) -> None:
        """Drop the lines of those that are gone, and then their graves."""
        cursor = self._graves.find(limit=_GRAVES_AT_ONCE)
        graves = [each["_id"] async for each in cursor]
        if not graves:
            return
        # One may have come back, with lines of its own: by a copy from elsewhere.
        cursor = self._timers.find(by_ids(graves), {"_id": 1}, hint="_id_")
        alive = {each["_id"] async for each in cursor}
        gone = [id_ for id_ in graves if id_ not in alive]
        for part in parts(gone, _RANGES):
            ranges = [
                {"_id": {"$gte": line_id(id_, 0, 0), "$lte": last_line_id(id_)}} for id_ in part
            ]
            await self._attempts.delete_many({"$or": ranges})
        await self._graves.delete_many({"_id": {"$in": graves}})
