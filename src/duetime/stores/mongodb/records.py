"""Records: small versioned documents in MongoDB, such as the heartbeats of nodes."""

from bson.binary import Binary
from pymongo.errors import DuplicateKeyError

from duetime.stores import Record
from duetime.stores.mongodb.connection import Database, Session


class Records:
    """The records of one database."""

    def __init__(self, database: Database) -> None:
        self._records = database["records"]

    async def of_kind(self, kind: str, session: Session | None = None) -> list[Record]:
        """Every document of a kind, by name."""
        cursor = self._records.find({"kind": kind}, sort=[("name", 1)], session=session)
        return [
            Record(
                kind=kind,
                name=each["name"],
                version=int(each["version"]),
                data=bytes(each["data"]),
            )
            async for each in cursor
        ]

    async def put(self, old: Record | None, new: Record | None) -> bool:
        """Store, replace or remove a document, if the stored one is still the old one."""
        if old is None:
            return new is not None and await self._add(new)
        stored = {"kind": old.kind, "name": old.name, "version": old.version}
        if new is None:
            return (await self._records.delete_one(stored)).deleted_count == 1
        put = {"version": new.version, "data": Binary(new.data)}
        return (await self._records.update_one(stored, {"$set": put})).matched_count == 1

    async def _add(self, new: Record) -> bool:
        try:
            await self._records.insert_one(
                {
                    "kind": new.kind,
                    "name": new.name,
                    "version": new.version,
                    "data": Binary(new.data),
                }
            )
        except DuplicateKeyError:
            return False
        return True
