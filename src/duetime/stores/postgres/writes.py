"""What is written to PostgreSQL: one statement for a whole batch, which is its own transaction.

A batch goes out as arrays, one for each column, and ``unnest`` makes rows of them. What belongs to
a timer (its attempt, events and tags) is written by the same statement, for those that won.

Rows are locked in the order of the batch, so every batch is sorted: of two that meet, one waits for
the other, and neither for ever.
"""

from collections.abc import Sequence
from functools import partial

import asyncpg

from duetime import ids
from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.stores import Change, Insert, Record
from duetime.stores.codec import to_json
from duetime.stores.inserting import Placed, insert_all, owners_of
from duetime.stores.portions import parts
from duetime.stores.postgres import statements
from duetime.stores.postgres.copying import copy
from duetime.stores.postgres.reads import OVER, Reads, in_shards
from duetime.stores.postgres.rows import (
    attempt_values,
    change_values,
    event_values,
    key_of,
    state_values,
    tag_rows,
    timer_values,
)
from duetime.stores.postgres.values import columns, escaped, uuids
from duetime.stores.waves import waves
from duetime.timer import Timer

LONGEST = 1_000  # rows in a statement
MANY = 100  # from which on a copy, which is several statements, is quicker than one of arrays

# How often an insert is tried that lost to a timer which was gone when it was looked for.
_MOST_TRIES = 3


class Writes:
    """The changes, written in the schema of one installation."""

    def __init__(self, schema: str, reads: Reads) -> None:
        self._schema = schema
        self._reads = reads

    # Inserting --------------------------------------------------------------------------------

    async def insert(
        self, connection: asyncpg.Connection, inserts: Sequence[Insert]
    ) -> list[Timer | None]:
        """Store timers: per timer None, or the one that was there."""
        answers: list[Timer | None] = []
        for part in parts(inserts, LONGEST):
            answers += await self._insert_part(connection, part)
        return answers

    async def _insert_part(
        self, connection: asyncpg.Connection, part: Sequence[Insert]
    ) -> list[Timer | None]:
        async def careful(left: Sequence[Placed]) -> set[int]:
            return await self._insert_rows(connection, left, are_fresh=False)

        async def hopeful(left: Sequence[Placed]) -> set[int]:
            try:
                if len(left) >= MANY:
                    return await copy(connection, self._schema, left)
                return await self._insert_rows(connection, left, are_fresh=True)
            except asyncpg.UniqueViolationError:
                return set()  # nothing was written

        async def owners(timers: Sequence[Timer]) -> list[Timer | None]:
            return await owners_of(
                timers,
                partial(self._reads.get, connection),
                partial(self._reads.get_by_key, connection),
            )

        # Whose key is their own id has a key that nobody else would think of.
        are_fresh = all(insert.timer.timer_id == insert.timer.id for insert in part)
        ways = [hopeful] * are_fresh + [careful] * _MOST_TRIES
        return await insert_all(part, ways, owners, "PostgreSQL")

    async def _insert_rows(
        self, connection: asyncpg.Connection, placed: Sequence[Placed], *, are_fresh: bool
    ) -> set[int]:
        """Insert those whose key and id are free, or all or none; return their places."""
        # Of two with one id, the second is not even tried: it would pass for the first.
        firsts: dict[str, Placed] = {}
        for place, insert in placed:
            firsts.setdefault(insert.timer.id, (place, insert))
        placed = sorted(firsts.values(), key=lambda each: key_of(each[1].timer))
        timers = [(place, insert.timer) for place, insert in placed]
        tags = tag_rows(timers)
        attempts = [
            attempt_values(place, attempt)
            for place, insert in placed
            for attempt in insert.attempts
        ]
        events = [event_values(place, event) for place, insert in placed for event in insert.events]
        values = columns(
            [(place, *timer_values(timer), *state_values(timer)) for place, timer in timers]
        )
        drops = [timer.drop_at for _, timer in timers]
        is_ending = any(at is not None for at in drops)
        if is_ending:
            values.append(drops)
        if tags:
            values += columns(tags)
        if attempts:
            values += columns(attempts)
        if events:
            values += columns(events)
        statement = self.inserting(
            are_fresh=are_fresh,
            is_ending=is_ending,
            has_tags=bool(tags),
            has_attempts=bool(attempts),
            has_events=bool(events),
        )
        return {row[0] for row in await connection.fetch(statement, *values)}

    def inserting(
        self,
        *,
        are_fresh: bool = False,
        is_ending: bool = False,
        has_tags: bool = False,
        has_attempts: bool = False,
        has_events: bool = False,
    ) -> str:
        """The statement that inserts timers, and answers with the places of those it stored."""
        return statements.inserting(
            self._schema,
            are_fresh=are_fresh,
            is_ending=is_ending,
            has_tags=has_tags,
            has_attempts=has_attempts,
            has_events=has_events,
        )

    # Changing ---------------------------------------------------------------------------------

    async def apply(self, connection: asyncpg.Connection, changes: Sequence[Change]) -> list[bool]:
        """Compare and set: tell for each change whether it was written."""
        won = [False] * len(changes)
        for wave in waves(changes):
            moved = [placed for placed in wave if not placed[1].is_rewriting]
            rewritten = [placed for placed in wave if placed[1].is_rewriting]
            for alike, is_rewriting in ((moved, False), (rewritten, True)):
                for part in parts(alike, LONGEST):
                    for place in await self._apply_part(
                        connection, part, is_rewriting=is_rewriting
                    ):
                        won[place] = True
        return won

    async def _apply_part(
        self,
        connection: asyncpg.Connection,
        part: Sequence[tuple[int, Change]],
        *,
        is_rewriting: bool,
    ) -> list[int]:
        part = sorted(part, key=lambda placed: placed[1].old.id)
        values = columns(
            [change_values(place, change, is_rewriting=is_rewriting) for place, change in part]
        )
        is_ending = any(change.new.drop_at != change.old.drop_at for _, change in part)
        if is_ending:
            values.append([change.new.drop_at for _, change in part])
        attempts = [
            attempt_values(place, change.attempt) for place, change in part if change.attempt
        ]
        events = [event_values(place, event) for place, change in part for event in change.events]
        retagged = [
            (place, change.new)
            for place, change in part
            if change.new.spec.tags != change.old.spec.tags
        ]
        if attempts:
            values += columns(attempts)
        if events:
            values += columns(events)
        if retagged:
            values.append([place for place, _ in retagged])
            values += columns(tag_rows(retagged), len(statements.TAG))
        statement = self.updating(
            is_rewriting=is_rewriting,
            is_ending=is_ending,
            has_attempts=bool(attempts),
            has_events=bool(events),
            has_tags=bool(retagged),
        )
        return [row[0] for row in await connection.fetch(statement, *values)]

    def updating(
        self,
        *,
        is_rewriting: bool = False,
        is_ending: bool = False,
        has_attempts: bool = False,
        has_events: bool = False,
        has_tags: bool = False,
    ) -> str:
        """The statement that changes timers, and answers with the places of those that won."""
        return statements.updating(
            self._schema,
            is_rewriting=is_rewriting,
            is_ending=is_ending,
            has_attempts=has_attempts,
            has_events=has_events,
            has_tags=has_tags,
        )

    # Dropping ---------------------------------------------------------------------------------

    async def remove(self, connection: asyncpg.Connection, timers: Sequence[Timer]) -> list[bool]:
        """Drop timers that are still as they were read; tell for each whether it was dropped."""
        firsts: dict[str, tuple[int, str, int]] = {}  # of one that is named twice, the first
        for place, timer in enumerate(timers):
            firsts.setdefault(timer.id, (place, timer.id, timer.version))
        dropped: set[int] = set()
        for part in parts([firsts[id_] for id_ in sorted(firsts)], LONGEST):
            rows = await connection.fetch(self.removing(), *columns(part))
            dropped.update(row[0] for row in rows)
        return [place in dropped for place in range(len(timers))]

    def removing(self) -> str:
        """The statement that drops timers, and answers with the places of those it dropped."""
        return statements.removing(self._schema)

    async def purge(
        self, connection: asyncpg.Connection, shards: bytes | None, before: Millis, limit: int
    ) -> int:
        """Drop finished timers with all that is theirs; how many."""
        return await _count(connection, self.purging(shards), before, limit, shards)

    def purging(self, shards: bytes | None) -> str:
        """The statement that drops: its parameters are before, limit, and the shards if not all.

        Those that somebody is changing just now are left for the next time.
        """
        # The order is that of the index, in which all of these have the same drop_at: none.
        return self._purging("drop_at IS NULL AND updated_at < $1", "drop_at, updated_at", shards)

    async def drop_outlived(
        self, connection: asyncpg.Connection, shards: bytes | None, now: Millis, limit: int
    ) -> int:
        """Drop finished timers whose own retention is over; how many."""
        return await _count(connection, self.outliving(shards), now, limit, shards)

    def outliving(self, shards: bytes | None) -> str:
        """The same for a retention of their own: its parameters are now, limit, and the shards."""
        return self._purging("drop_at <= $1", "drop_at", shards)

    def _purging(self, which: str, order: str, shards: bytes | None) -> str:
        where = f"{OVER} AND {which}{in_shards(shards, 3)}"
        return statements.purging(
            self._schema, f"{where} ORDER BY {order} LIMIT $2 FOR UPDATE SKIP LOCKED"
        )

    # The lines of the audit -------------------------------------------------------------------

    async def write_lines(self, connection: asyncpg.Connection, lines: Sequence[AuditLine]) -> None:
        """Keep lines of the audit; one that is there already stays as it is."""
        rows = sorted((line.id, escaped(line.tenant), to_json(line)) for line in lines)
        for part in parts(rows, LONGEST):
            values = columns(part)
            try:
                await connection.execute(self.writing_lines(are_fresh=True), *values)
            except asyncpg.UniqueViolationError:  # some of it was written before, and not heard of
                await connection.execute(self.writing_lines(), *values)

    def writing_lines(self, *, are_fresh: bool = False) -> str:
        """The statement that keeps lines: those that are not there, or all or none."""
        return statements.writing_lines(self._schema, are_fresh=are_fresh)

    async def drop_lines(self, connection: asyncpg.Connection, before: Millis, limit: int) -> int:
        """Forget lines that were made before then; how many."""
        done = await connection.execute(self.dropping_lines(), ids.first_at(before), limit)
        return int(done.rpartition(" ")[2])  # the tag of the command

    def dropping_lines(self) -> str:
        """The statement that forgets lines: its parameters are the first id to keep, and limit.

        What another node is about to drop is left to it.
        """
        lines = f"{self._schema}.audit_lines"
        return (
            f"WITH doomed AS MATERIALIZED (SELECT id FROM {lines} WHERE id < $1::uuid "
            "ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED) "
            f"DELETE FROM {lines} WHERE id IN (SELECT id FROM doomed)"
        )

    # The rest ---------------------------------------------------------------------------------

    async def published(self, connection: asyncpg.Connection, told: Sequence[str]) -> None:
        """Forget these events."""
        await connection.execute(
            f"DELETE FROM {self._schema}.events WHERE id = ANY($1::uuid[])", uuids(told)
        )

    async def put_record(
        self, connection: asyncpg.Connection, old: Record | None, new: Record | None
    ) -> bool:
        """Store, replace or remove a document, if the stored one is still the old one."""
        records = f"{self._schema}.records"
        if old is None:
            if new is None:
                return False
            done = await connection.execute(
                f"INSERT INTO {records} (kind, name, version, data) VALUES ($1, $2, $3, $4) "
                "ON CONFLICT DO NOTHING",
                escaped(new.kind),
                escaped(new.name),
                new.version,
                new.data,
            )
        elif new is None:
            done = await connection.execute(
                f"DELETE FROM {records} WHERE kind = $1 AND name = $2 AND version = $3",
                escaped(old.kind),
                escaped(old.name),
                old.version,
            )
        else:
            done = await connection.execute(
                f"UPDATE {records} SET version = $4, data = $5 "
                "WHERE kind = $1 AND name = $2 AND version = $3",
                escaped(old.kind),
                escaped(old.name),
                old.version,
                new.version,
                new.data,
            )
        return bool(done.endswith(" 1"))  # the tag of the command: how many rows it touched


async def _count(
    connection: asyncpg.Connection, statement: str, at: Millis, limit: int, shards: bytes | None
) -> int:
    bits = () if shards is None else (shards,)
    count: int = await connection.fetchval(statement, at, limit, *bits)
    return count
