"""The lines of the audit in MongoDB: written once each, read by tenant, dropped by time."""

from collections.abc import Sequence
from typing import Any

from pymongo.errors import BulkWriteError

from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.stores.codec import decode_line, to_json
from duetime.stores.mongodb.connection import Database
from duetime.stores.mongodb.documents import bound, first_id, to_id
from duetime.stores.mongodb.errors import DUPLICATE_KEY, losers
from duetime.stores.mongodb.schema import LINES
from duetime.stores.portions import parts

LONGEST = 1_000  # documents in a command


class Lines:
    """The lines of one database."""

    def __init__(self, database: Database) -> None:
        self._lines = database[LINES]

    async def write(self, lines: Sequence[AuditLine]) -> None:
        """Keep lines; who is there already stays."""
        for part in parts(lines, LONGEST):
            documents = [
                {"_id": to_id(line.id), "tenant": line.tenant, "body": to_json(line)}
                for line in part
            ]
            try:
                await self._lines.insert_many(documents, ordered=False)
            except BulkWriteError as error:
                losers(error, DUPLICATE_KEY)

    async def read(
        self, tenant: str, after: str | None, limit: int, *, descending: bool
    ) -> list[AuditLine]:
        """A tenant's lines in order, behind a place."""
        if limit == 0:
            return []
        cursor = self._lines.find(**reading(tenant, after, limit, descending=descending))
        return [decode_line(each["body"]) async for each in cursor]

    async def drop(self, before: Millis, limit: int) -> int:
        """Drop the lines of all tenants that were made before then, oldest first; how many."""
        if limit == 0:
            return 0
        old = [each["_id"] async for each in self._lines.find(**old_lines(before, limit))]
        if not old:
            return 0
        return (await self._lines.delete_many({"_id": {"$in": old}})).deleted_count


def reading(tenant: str, after: str | None, limit: int, *, descending: bool) -> dict[str, Any]:
    """The query for a tenant's lines."""
    wanted: dict[str, Any] = {"tenant": tenant}
    if after is not None:
        wanted["_id"] = {"$lt" if descending else "$gt": bound(after)}
    return {
        "filter": wanted,
        "projection": {"body": 1},
        "sort": [("_id", -1 if descending else 1)],
        "limit": limit,
        "batch_size": limit,
        "hint": "tenant",
    }


def old_lines(before: Millis, limit: int) -> dict[str, Any]:
    """The query for lines that may go: no document is read for it."""
    return {
        "filter": {"_id": {"$lt": first_id(before)}},
        "projection": {"_id": 1},
        "sort": [("_id", 1)],
        "limit": limit,
        "batch_size": limit,
        "hint": "_id_",
    }
