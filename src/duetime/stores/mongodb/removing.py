"""Removing: timers that somebody wants gone, whatever their status, if they are as he read them.

The server would tell how many of a batch it dropped, but not which. So a transaction reads their
versions and drops those that are right: who changes one meanwhile ends it, and it begins again.
"""

from collections.abc import Sequence
from contextlib import suppress

from bson.binary import Binary
from pymongo.errors import PyMongoError

from duetime.stores.mongodb.connection import Database, Session
from duetime.stores.mongodb.documents import by_ids, to_id
from duetime.stores.mongodb.graves import Graves
from duetime.stores.mongodb.transaction import in_transaction
from duetime.stores.portions import parts
from duetime.timer import Timer

LONGEST = 1_000  # timers in a transaction


class Removing:
    """Drops single timers from one database."""

    def __init__(self, database: Database, graves: Graves) -> None:
        self._timers = database["timers"]
        self._graves = graves

    async def remove(self, session: Session, timers: Sequence[Timer]) -> list[bool]:
        """Drop timers whose stored version is still theirs: tell for each whether it was."""
        removed = [False] * len(timers)
        for part in parts(list(enumerate(timers)), LONGEST):
            for place in await self._remove_part(session, part):
                removed[place] = True
        return removed

    async def _remove_part(self, session: Session, part: Sequence[tuple[int, Timer]]) -> list[int]:
        logged: list[Binary] = []

        async def once() -> list[int]:
            cursor = self._timers.find(
                by_ids({to_id(timer.id) for _, timer in part}),
                {"version": 1, "has_log": 1},
                session=session,
                batch_size=LONGEST,
                hint="_id_",
            )
            stored = {each["_id"]: each async for each in cursor}
            winners: dict[Binary, int] = {}
            for place, timer in part:
                found = stored.get(id_ := to_id(timer.id))
                if found and found["version"] == timer.version:
                    winners.setdefault(id_, place)  # twice in one batch, it is dropped once
            logged[:] = [id_ for id_ in winners if stored[id_].get("has_log")]
            if winners:
                await self._timers.delete_many(by_ids(winners), session=session)
            if logged:
                await self._graves.dig(session, logged)
            return list(winners.values())

        removed = await in_transaction(session, once)
        if logged:
            with suppress(PyMongoError):  # They are gone all the same, and so will be their logs.
                await self._graves.clear()
        return removed
