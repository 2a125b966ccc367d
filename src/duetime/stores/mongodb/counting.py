"""Counting a tenant's timers by group and status: in pieces, so that none takes long.

No index has both: each claim would have to change it. So the documents are read along, in the order
of their ids, by the server itself; only sums come over the line.
"""

from typing import Any, NamedTuple

from bson.binary import Binary

from duetime.stores import Count
from duetime.stores.mongodb.connection import Database, Document
from duetime.timer import Status

PIECE = 50_000  # timers that are counted in one command


class Piece(NamedTuple):
    """What was counted, and where it ended; None: there is no more."""

    counts: list[Count]
    end: Binary | None


class Counting:
    """Counts the timers of one database."""

    def __init__(self, database: Database) -> None:
        self._timers = database["timers"]

    async def count(self, tenant: str, after: Binary | None) -> Piece:
        """Count the next so many behind an id."""
        cursor = await self._timers.aggregate(counting(tenant, after), hint="created")
        sums = [each async for each in cursor]
        counts = [
            Count(each["_id"]["group"], Status(each["_id"]["status"]), int(each["timers"]))
            for each in sums
        ]
        is_over = sum(each.timers for each in counts) < PIECE
        return Piece(counts, None if is_over else max(each["last"] for each in sums))


def counting(tenant: str, after: Binary | None) -> list[Document]:
    """The pipeline that counts a piece."""
    wanted: dict[str, Any] = {"tenant": tenant}
    if after is not None:
        wanted["_id"] = {"$gt": after}
    return [
        {"$match": wanted},
        {"$sort": {"_id": 1}},  # as the index has them
        {"$limit": PIECE},
        {
            "$group": {
                "_id": {"group": "$group", "status": "$status"},
                "timers": {"$sum": 1},
                "last": {"$max": "$_id"},
            }
        },
    ]
