"""Graves: of timers that are gone, whose log beside them is not yet.

A grave is put in the place of its timer, both or neither; the lines of the log, which may be many,
are taken away afterwards, by whoever comes next if one was cut off.
"""

from collections.abc import Collection

from bson.binary import Binary
from pymongo import ReplaceOne

from duetime.stores.mongodb.connection import Database, Document, Session
from duetime.stores.mongodb.documents import by_ids, last_line_id, line_id
from duetime.stores.mongodb.schema import GRAVES
from duetime.stores.portions import parts

_AT_ONCE = 1_000
_RANGES = 100  # in one command


class Graves:
    """The graves of one database."""

    def __init__(self, database: Database) -> None:
        self._timers = database["timers"]
        self._attempts = database["attempts"]
        self._graves = database[GRAVES]

    async def dig(self, session: Session, timers: Collection[Binary]) -> None:
        """Make a grave for each of these."""
        requests: list[ReplaceOne[Document]] = [
            ReplaceOne({"_id": id_}, {}, upsert=True) for id_ in timers
        ]
        await self._graves.bulk_write(requests, session=session)

    async def clear(self) -> None:
        """Drop the lines of those that are gone, and then their graves."""
        cursor = self._graves.find(limit=_AT_ONCE)
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
