"""Telling: changes that write events too, which lie in a collection of their own.

A timer and its events are written together by a transaction, a whole batch in one. Two that meet
cannot both go on: the server ends one, which is then tried again, and finds what the other did.
"""

from collections.abc import Sequence

from pymongo import UpdateOne

from duetime import ids
from duetime.stores import Change, Insert
from duetime.stores.codec import to_json
from duetime.stores.mongodb.connection import Database, Document, Session
from duetime.stores.mongodb.documents import by_ids, to_document, to_id
from duetime.stores.mongodb.transaction import in_transaction
from duetime.stores.portions import parts
from duetime.timer import Event

_CONDITIONS = 100  # in one query


class Telling:
    """Writes to one database that tell of what they did."""

    def __init__(self, database: Database) -> None:
        self._timers = database["timers"]
        self._events = database["events"]

    async def insert(self, session: Session, placed: Sequence[tuple[int, Insert]]) -> set[int]:
        """Insert those whose key and id are free, with their events; return their places."""

        async def once() -> set[int]:
            free = await self._free(session, placed)
            if free:
                documents = [to_document(insert) for _, insert in free]
                await self._timers.insert_many(documents, session=session)
                await self._tell(session, [e for _, insert in free for e in insert.events])
            return {place for place, _ in free}

        return await in_transaction(session, once)

    async def apply(
        self,
        session: Session,
        part: Sequence[tuple[int, Change]],
        updates: Sequence[tuple[Document, Document]],
    ) -> list[int]:
        """Write the changes whose old version is still the stored one, with their events."""

        async def once() -> list[int]:
            cursor = self._timers.find(
                by_ids([to_id(change.old.id) for _, change in part]),
                {"version": 1},
                session=session,
                hint="_id_",
            )
            stored = {each["_id"]: each["version"] async for each in cursor}
            winners = [
                (placed, update)
                for placed, update in zip(part, updates, strict=True)
                if stored.get(update[0]["_id"]) == placed[1].old.version
            ]
            if winners:
                # Nobody can have changed them since: that would end this transaction.
                requests = [UpdateOne(*update, hint="_id_") for _, update in winners]
                await self._timers.bulk_write(requests, session=session)
                events = [event for (_, change), _ in winners for event in change.events]
                await self._tell(session, events)
            return [place for (place, _), _ in winners]

        return await in_transaction(session, once)

    async def _free(
        self, session: Session, placed: Sequence[tuple[int, Insert]]
    ) -> list[tuple[int, Insert]]:
        timers = [insert.timer for _, insert in placed]
        wanted = [by_ids([to_id(timer.id) for timer in timers])] + [
            {
                "shard": timer.shard,
                "tenant": timer.tenant,
                "group": timer.group,
                "timer_id": timer.timer_id,
            }
            for timer in timers
        ]
        taken: set[object] = set()
        for part in parts(wanted, _CONDITIONS):
            cursor = self._timers.find(
                {"$or": list(part)},
                {"tenant": 1, "group": 1, "timer_id": 1},
                session=session,
            )
            async for each in cursor:
                taken |= {each["_id"], (each["tenant"], each["group"], each["timer_id"])}
        return [
            (place, insert)
            for place, insert in placed
            if taken.isdisjoint(
                {
                    to_id(insert.timer.id),
                    (insert.timer.tenant, insert.timer.group, insert.timer.timer_id),
                }
            )
        ]

    async def _tell(self, session: Session, events: Sequence[Event]) -> None:
        if events:
            await self._events.insert_many(
                [
                    {
                        "_id": to_id(event.id),
                        "shard": ids.shard_of(event.id),
                        "body": to_json(event),
                    }
                    for event in events
                ],
                session=session,
            )
