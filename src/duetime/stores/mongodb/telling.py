"""Telling: changes that write events too, which lie in a collection of their own.

A timer and its events are written together by a transaction, a whole batch in one. Two that meet
cannot both go on: the server ends one, which is then tried again, and finds what the other did.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, PyMongoError
from pymongo.read_concern import ReadConcern

from duetime import ids
from duetime.model import Event
from duetime.stores import Change, Insert
from duetime.stores.codec import to_json
from duetime.stores.mongodb.connection import DURABLE, Database, Document, Session
from duetime.stores.mongodb.documents import to_document, to_id

T = TypeVar("T")

# How often a transaction is tried that met another, and the longest pause in between, in seconds.
_MOST_TRIES = 30
_PAUSE = 0.1

_LOST_A_RACE = "TransientTransactionError"
_DUPLICATE_KEY = 11000


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

        return await _in_transaction(session, once)

    async def apply(
        self,
        session: Session,
        part: Sequence[tuple[int, Change]],
        updates: Sequence[tuple[Document, Document]],
    ) -> list[int]:
        """Write the changes whose old version is still the stored one, with their events."""

        async def once() -> list[int]:
            cursor = self._timers.find(
                {"_id": {"$in": [to_id(change.old.id) for _, change in part]}},
                {"version": 1},
                session=session,
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

        return await _in_transaction(session, once)

    async def _free(
        self, session: Session, placed: Sequence[tuple[int, Insert]]
    ) -> list[tuple[int, Insert]]:
        timers = [insert.timer for _, insert in placed]
        wanted = [{"_id": {"$in": [to_id(timer.id) for timer in timers]}}] + [
            {"tenant": timer.tenant, "group": timer.group, "timer_id": timer.timer_id}
            for timer in timers
        ]
        taken: set[object] = set()
        for start in range(0, len(wanted), 100):
            cursor = self._timers.find(
                {"$or": wanted[start : start + 100]},
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


async def _in_transaction(session: Session, work: Callable[[], Awaitable[T]]) -> T:
    """Do all of it or nothing, and again if another got in the way."""
    for left in reversed(range(_MOST_TRIES)):
        try:
            async with await session.start_transaction(
                read_concern=ReadConcern("snapshot"), write_concern=DURABLE
            ):
                return await work()
        except PyMongoError as error:
            if not (error.has_error_label(_LOST_A_RACE) or _is_taken(error)) or not left:
                raise
        await asyncio.sleep(random.random() * _PAUSE)  # noqa: S311 - no secret
    raise AssertionError("the last try raises")


def _is_taken(error: PyMongoError) -> bool:
    """Tell whether a key or an id was taken by another, after it was found free."""
    if not isinstance(error, BulkWriteError):
        return False
    return any(each["code"] == _DUPLICATE_KEY for each in error.details["writeErrors"])
