"""What is written to MongoDB: a batch is one command, and each timer in it is decided alone.

A timer is one document, and a change of it one update that asks for the old version. The server
tells how many of a batch were written, but not which; so each update is told to insert a document
where it finds none, in a way that the server must refuse. Who lost is then named in its answer.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from bson.binary import UUID_SUBTYPE, Binary
from pymongo import ReplaceOne, UpdateOne
from pymongo.errors import BulkWriteError, PyMongoError

from duetime.errors import StoreUnavailable
from duetime.stores import Change, Insert
from duetime.stores.inserting import Placed, insert_all, owners_of
from duetime.stores.mongodb.connection import Database, Document, Session
from duetime.stores.mongodb.documents import (
    HEAVIEST,
    by_id,
    by_ids,
    known_ids,
    line_id,
    to_document,
    to_id,
    to_line,
    to_update,
)
from duetime.stores.mongodb.errors import DUPLICATE_KEY, losers
from duetime.stores.mongodb.graves import Graves
from duetime.stores.mongodb.reads import Reads
from duetime.stores.mongodb.telling import Telling
from duetime.stores.portions import parts
from duetime.stores.waves import insert_waves, waves
from duetime.timer import Attempt, Timer

LONGEST = 1_000  # documents in a command

# From one multiple of this to the next, the lines of a log stay in the document of their timer.
# Each of them was written with a version of its own, so there are never more.
MOST_LINES = 64

# How often an insert is tried that lost to a timer which was gone when it was looked for.
_MOST_TRIES = 3

_IMMUTABLE_FIELD = 66
# An id that no timer has: to give it to a document that was asked for by another is an error.
_REFUSED = {"_id": Binary(b"no such timer...", UUID_SUBTYPE)}


class Writes:
    """The changes, written to one database."""

    def __init__(self, database: Database, reads: Reads, graves: Graves) -> None:
        self._timers = database["timers"]
        self._attempts = database["attempts"]
        self._events = database["events"]
        self._graves = graves
        self._reads = reads
        self._telling = Telling(database)

    # Inserting --------------------------------------------------------------------------------

    async def insert(self, session: Session, inserts: Sequence[Insert]) -> list[Timer | None]:
        """Store timers: per timer None, or the one that was there."""
        for insert in inserts:
            _check_weight(insert.timer)
        answers: list[Timer | None] = []
        for part in parts(inserts, LONGEST):
            answers += await self._insert_part(session, part)
        return answers

    async def _insert_part(self, session: Session, part: Sequence[Insert]) -> list[Timer | None]:
        await self._log(session, [attempt for insert in part for attempt in insert.attempts])

        async def way(left: Sequence[Placed]) -> set[int]:
            firsts = next(insert_waves(left))  # the others are not even tried
            if any(insert.events for _, insert in firsts):
                return await self._telling.insert(session, firsts)
            return await self._insert_documents(session, firsts)

        async def owners(timers: Sequence[Timer]) -> list[Timer | None]:
            return await owners_of(
                timers,
                partial(self._reads.get, session=session),
                partial(self._reads.get_by_key, session=session),
            )

        return await insert_all(part, [way] * _MOST_TRIES, owners, "MongoDB")

    async def _insert_documents(self, session: Session, placed: Sequence[Placed]) -> set[int]:
        """Insert those whose key and id are free; return their places."""
        documents = [to_document(insert) for _, insert in placed]
        lost: set[int] = set()
        try:
            await self._timers.insert_many(documents, ordered=False, session=session)
        except BulkWriteError as error:
            lost = losers(error, DUPLICATE_KEY)
        return {place for number, (place, _) in enumerate(placed) if number not in lost}

    # Changing ---------------------------------------------------------------------------------

    async def apply(self, session: Session, changes: Sequence[Change]) -> list[bool]:
        """Compare and set: tell for each change whether it was written."""
        for change in changes:
            _check_weight(change.new)
        won = [False] * len(changes)
        for wave in waves(changes):
            for part in parts(wave, LONGEST):
                told = [placed for placed in part if placed[1].events]
                untold = [placed for placed in part if not placed[1].events]
                for place in await self._apply_part(session, untold):
                    won[place] = True
                for place in await self._tell_part(session, told):
                    won[place] = True
        return won

    async def _apply_part(self, session: Session, part: Sequence[tuple[int, Change]]) -> list[int]:
        if not part:
            return []
        updates = await self._updates(session, part)
        requests = [
            UpdateOne(condition, update | {"$setOnInsert": _REFUSED}, upsert=True, hint="_id_")
            for condition, update in updates
        ]
        lost: set[int] = set()
        try:
            await self._timers.bulk_write(requests, ordered=False, session=session)
        except BulkWriteError as error:
            lost = losers(error, _IMMUTABLE_FIELD)
            await self._bury_lines(session, [part[number][1] for number in lost])
        return [place for number, (place, _) in enumerate(part) if number not in lost]

    async def _tell_part(self, session: Session, part: Sequence[tuple[int, Change]]) -> list[int]:
        if not part:
            return []
        return await self._telling.apply(session, part, await self._updates(session, part))

    async def _updates(
        self, session: Session, part: Sequence[tuple[int, Change]]
    ) -> list[tuple[Document, Document]]:
        """For each change the document that it asks for, and what is to be done with it."""
        moved = await self._move_lines(session, part)
        updates = []
        for _, change in part:
            condition = by_id(to_id(change.old.id)) | {"version": change.old.version}
            update = to_update(change)
            line = to_line(change.attempt) if change.attempt else None
            if change.old.id in moved:
                update["$set"] |= {"has_log": True, "log": [line] if line else []}
            elif line:
                update["$push"] = {"log": line}
            updates.append((condition, update))
        return updates

    # The execution log ------------------------------------------------------------------------

    async def _move_lines(self, session: Session, part: Sequence[tuple[int, Change]]) -> set[str]:
        """Copy the lines of those who may have many to documents of their own; who they are.

        The change then takes them out of the timer's document, which still has them all if it is
        still of the old version. Should the change lose, they lie in both places: that is the same.
        """
        grown = {to_id(change.old.id): change.old for _, change in part if _moves_lines(change)}
        if not grown:
            return set()
        moved: set[str] = set()
        lines: list[tuple[bytes, list[Any]]] = []
        cursor = self._timers.find(
            by_ids(grown) | {"log.0": {"$exists": True}},
            {"version": 1, "log": 1},
            session=session,
            hint="_id_",
        )
        async for held in cursor:
            old = grown[held["_id"]]
            if held["version"] == old.version:
                moved.add(old.id)
                lines += [(held["_id"], line) for line in held["log"]]
        await self._write_lines(session, lines)
        return moved

    async def _bury_lines(self, session: Session, lost: Sequence[Change]) -> None:
        """Have the next purge look whether these timers are gone, for lines that were moved.

        They may have been dropped since, with all that was theirs then.
        """
        owners = {to_id(change.old.id) for change in lost if _moves_lines(change)}
        if owners:
            with suppress(PyMongoError):  # The changes that won are written all the same.
                await self._graves.dig(session, owners)

    async def _log(self, session: Session, attempts: Sequence[Attempt]) -> None:
        """Write lines to documents of their own."""
        lines = [(bytes(to_id(attempt.timer)), to_line(attempt)) for attempt in attempts]
        await self._write_lines(session, lines)

    async def _write_lines(
        self, session: Session, lines: Sequence[tuple[bytes, list[Any]]]
    ) -> None:
        for part in parts(lines, LONGEST):
            named = [(Binary(line_id(timer, line[0], line[1])), line) for timer, line in part]
            await self._attempts.bulk_write(
                [ReplaceOne({"_id": name}, {"line": line}, upsert=True) for name, line in named],
                ordered=True,  # of two with the same number, the last one counts
                session=session,
            )

    # The rest ---------------------------------------------------------------------------------

    async def published(self, told: Sequence[str]) -> None:
        """Forget these events."""
        if known := known_ids(told):
            await self._events.delete_many({"_id": {"$in": known}})


def _moves_lines(change: Change) -> bool:
    return change.old.version // MOST_LINES != change.new.version // MOST_LINES


def _check_weight(timer: Timer) -> None:
    if timer.weight > HEAVIEST:
        raise StoreUnavailable(
            f"MongoDB: the timer {timer.id} has {timer.weight:,} bytes, and a document ends at "
            "16 MiB: nothing was written"
        )
