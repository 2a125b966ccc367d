"""What the writer writes: one statement for hundreds of rows.

Python lets go of its lock around every step of a statement, and has to queue up for it again
behind a busy event loop, each time for up to Python's switch interval. So a batch is not a loop
over rows, but one ``VALUES`` list.

Statements are optimistic. One that would overwrite a newer version, or take a key twice, breaks a
constraint, and SQLite undoes that whole statement, but not the transaction. Only then is it looked
up who lost, and the others are written.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any

import msgspec

from duetime import ids
from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.stores import Change, Insert, Key, Record
from duetime.stores.codec import (
    COLUMNS,
    progress_text,
    to_columns,
    to_json,
)
from duetime.stores.portions import parts
from duetime.stores.sqlite.reads import OVER, get, get_by_key, in_shards
from duetime.stores.sqlite.rows import ATTEMPT_COLUMNS, attempt_columns
from duetime.stores.sqlite.values import LONGEST, fill_up, values_list
from duetime.stores.waves import waves
from duetime.timer import Attempt, Event, Timer

_MOVED_ON = ("version", "status", "wake_at", "updated_at", "executed_at", "progress")
_RESCHEDULED = (*_MOVED_ON, "execute_at")
_ENDED = (*_MOVED_ON, "drop_at")
_RESCHEDULED_AND_ENDED = (*_RESCHEDULED, "drop_at")
_REWRITTEN = (*_RESCHEDULED_AND_ENDED, "fingerprint", "name", "correlation_id", "weight", "spec")


def insert(connection: sqlite3.Connection, inserts: Sequence[Insert]) -> list[Timer | None]:
    """Store timers: per timer None, or the one that was there."""
    return [answer for part in parts(inserts, LONGEST) for answer in _insert_part(connection, part)]


def _insert_part(connection: sqlite3.Connection, part: Sequence[Insert]) -> list[Timer | None]:
    try:
        _insert_rows(connection, part)
    except sqlite3.IntegrityError:
        answers = _taken(connection, part)
        _insert_rows(
            connection,
            [insert for insert, taken in zip(part, answers, strict=True) if taken is None],
        )
        return answers
    return [None] * len(part)


def _insert_rows(connection: sqlite3.Connection, part: Sequence[Insert]) -> None:
    timers = [insert.timer for insert in part]
    _write(connection, _inserting("timers", COLUMNS), [to_columns(timer) for timer in timers])
    _write_tags(connection, timers)
    _write_attempts(connection, chain.from_iterable(insert.attempts for insert in part))
    _write_events(connection, chain.from_iterable(insert.events for insert in part))


def _taken(connection: sqlite3.Connection, part: Sequence[Insert]) -> list[Timer | None]:
    """Per timer the one that has its key or its id already, in the store or earlier in the part."""
    timers = [insert.timer for insert in part]
    by_id = {timer.id: timer for timer in get(connection, [timer.id for timer in timers]) if timer}
    keys = [Key.of(timer) for timer in timers]
    by_key = {
        (timer.tenant, timer.group, timer.timer_id): timer
        for timer in get_by_key(connection, keys)
        if timer
    }
    answers: list[Timer | None] = []
    for timer in timers:
        key = (timer.tenant, timer.group, timer.timer_id)
        taken = by_key.get(key) or by_id.get(timer.id)
        if taken is None:
            by_key[key] = by_id[timer.id] = timer
        answers.append(taken)
    return answers


def apply(connection: sqlite3.Connection, changes: Sequence[Change]) -> list[bool]:
    """Compare and set: tell for each change whether it was written."""
    won = [False] * len(changes)
    for wave in waves(changes):
        for part in parts(wave, LONGEST):
            for place in _apply_part(connection, part):
                won[place] = True
    return won


def _apply_part(connection: sqlite3.Connection, part: Sequence[tuple[int, Change]]) -> list[int]:
    """Write the changes that win, with what belongs to them; return their places."""
    alike: dict[tuple[str, ...], list[tuple[int, Change]]] = {}
    for placed in part:
        alike.setdefault(_changed_columns(placed[1]), []).append(placed)
    winners: list[tuple[int, Change]] = []
    for columns, those in alike.items():
        winners += _update(connection, columns, those)
    changes = [change for _, change in winners]
    retagged = [
        change.new
        for change in changes
        if change.new.spec is not change.old.spec and change.new.spec.tags != change.old.spec.tags
    ]
    if retagged:
        _drop(connection, "tags", "timer", [timer.id for timer in retagged])
        _write_tags(connection, retagged)
    _write_attempts(connection, (change.attempt for change in changes if change.attempt))
    _write_events(connection, chain.from_iterable(change.events for change in changes))
    return [place for place, _ in winners]


def _changed_columns(change: Change) -> tuple[str, ...]:
    """The least that must be written: every column spared is an index not touched."""
    old, new = change.old, change.new
    if new.spec is not old.spec or new.fingerprint != old.fingerprint:
        return _REWRITTEN
    is_on_time = new.execute_at == old.execute_at
    if new.spec.retention is None or new.drop_at == old.drop_at:
        return _MOVED_ON if is_on_time else _RESCHEDULED
    return _ENDED if is_on_time else _RESCHEDULED_AND_ENDED


def _update(
    connection: sqlite3.Connection, columns: tuple[str, ...], part: Sequence[tuple[int, Change]]
) -> Sequence[tuple[int, Change]]:
    """Write those of the changes whose old version is the stored one, and return them."""
    rows = [
        (change.old.id, change.old.version, *_values(change.new, columns)) for _, change in part
    ]
    try:
        written = _write(connection, _updating(columns), rows)
    except sqlite3.IntegrityError:
        stale = _select_places(connection, _STALE, [row[:2] for row in rows])
        winners = [placed for place, placed in enumerate(part) if place not in stale]
        _write(
            connection, _updating(columns), [rows[p] for p in range(len(rows)) if p not in stale]
        )
        return winners
    if written == len(part):
        return part
    gone = _select_places(connection, _GONE, [row[0] for row in rows])
    return [placed for place, placed in enumerate(part) if place not in gone]


def _values(timer: Timer, columns: tuple[str, ...]) -> tuple[Any, ...]:
    moved_on = (
        timer.version,
        timer.status.value,
        timer.wake_at,
        timer.updated_at,
        timer.executed_at,
        progress_text(timer.progress),
    )
    if columns is _MOVED_ON:
        return moved_on
    if columns is _RESCHEDULED:
        return (*moved_on, timer.execute_at)
    if columns is _ENDED:
        return (*moved_on, timer.drop_at)
    if columns is _RESCHEDULED_AND_ENDED:
        return (*moved_on, timer.execute_at, timer.drop_at)
    spec = timer.spec
    return (
        *moved_on,
        timer.execute_at,
        timer.drop_at,
        timer.fingerprint,
        spec.name,
        spec.correlation_id,
        timer.weight,
        to_json(spec),
    )


def remove(connection: sqlite3.Connection, timers: Sequence[Timer]) -> list[bool]:
    """Drop timers that are still as they were read; tell for each whether it was dropped."""
    versions = [(timer.id, timer.version) for timer in timers]
    stale = _select_places(connection, _STALE, versions)
    doomed: dict[str, int] = {}
    for place, timer in enumerate(timers):
        if place not in stale:
            doomed.setdefault(timer.id, place)  # of one that is named twice, the first
    _drop_timers(connection, list(doomed))
    dropped = set(doomed.values())
    return [place in dropped for place in range(len(timers))]


def published(connection: sqlite3.Connection, told: Sequence[str]) -> None:
    """Forget these events."""
    _drop(connection, "events", "id", told)


def put_record(connection: sqlite3.Connection, old: Record | None, new: Record | None) -> bool:
    """Store, replace or remove a document, if the stored one is still the old one."""
    if old is None:
        if new is None:
            return False
        statement = "INSERT INTO records VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        values: tuple[Any, ...] = (new.kind, new.name, new.version, new.data)
    elif new is None:
        statement = "DELETE FROM records WHERE kind = ? AND name = ? AND version = ?"
        values = (old.kind, old.name, old.version)
    else:
        statement = (
            "UPDATE records SET version = ?, data = ? WHERE kind = ? AND name = ? AND version = ?"
        )
        values = (new.version, new.data, old.kind, old.name, old.version)
    return connection.execute(statement, values).rowcount == 1


def purge(connection: sqlite3.Connection, shards: str | None, before: Millis, limit: int) -> int:
    """Drop finished timers with all that is theirs; how many."""
    return _drop_found(connection, purging(shards), (before, shards, limit))


def purging(shards: str | None) -> str:
    """The query for what may be dropped: its parameters are before, shards and limit."""
    return (
        "SELECT json_group_array(id) FROM (SELECT id FROM timers "
        f"WHERE {OVER} AND drop_at IS NULL AND updated_at < ?1{in_shards(shards, 2)} "
        "ORDER BY updated_at LIMIT ?3)"
    )


def drop_outlived(
    connection: sqlite3.Connection, shards: str | None, now: Millis, limit: int
) -> int:
    """Drop finished timers whose own retention is over, likewise."""
    return _drop_found(connection, outliving(shards), (now, shards, limit))


def outliving(shards: str | None) -> str:
    """The query for what has outlived its own retention: its parameters are now, shards, limit."""
    return (
        "SELECT json_group_array(id) FROM (SELECT id FROM timers "
        f"WHERE {OVER} AND drop_at <= ?1{in_shards(shards, 2)} ORDER BY drop_at LIMIT ?3)"
    )


def write_lines(connection: sqlite3.Connection, lines: Sequence[AuditLine]) -> list[None]:
    """Keep lines of the audit; one that is there already stays as it is."""
    rows = [(line.tenant, line.id, to_json(line)) for line in lines]
    _write(connection, _inserting("audit_lines", ("tenant", "id", "body")), rows)
    return [None] * len(lines)


def drop_lines(connection: sqlite3.Connection, before: Millis, limit: int) -> int:
    """Forget lines that were made before then; how many."""
    return connection.execute(DROPPING_LINES, (ids.first_at(before), limit)).rowcount


DROPPING_LINES = (
    "DELETE FROM audit_lines WHERE (tenant, id) IN "
    "(SELECT tenant, id FROM audit_lines WHERE id < ? ORDER BY id LIMIT ?)"
)


# Rows in bulk ---------------------------------------------------------------------------------

_STALE = (
    "SELECT json_group_array(asked.key) FROM json_each(?) AS asked WHERE NOT EXISTS "
    "(SELECT 1 FROM timers WHERE id = json_extract(asked.value, '$[0]') "
    "AND version = json_extract(asked.value, '$[1]'))"
)
_GONE = (
    "SELECT json_group_array(asked.key) FROM json_each(?) AS asked "
    "WHERE NOT EXISTS (SELECT 1 FROM timers WHERE id = asked.value)"
)


def _select_places(connection: sqlite3.Connection, query: str, asked: list[Any]) -> set[int]:
    (text,) = connection.execute(query, (to_json(asked),)).fetchone()
    return set(msgspec.json.decode(text))


def _write_tags(connection: sqlite3.Connection, timers: Iterable[Timer]) -> None:
    rows = [(timer.tenant, tag, timer.id) for timer in timers for tag in set(timer.spec.tags)]
    _write(connection, _inserting("tags", ("tenant", "tag", "timer")), rows)


def _write_attempts(connection: sqlite3.Connection, attempts: Iterable[Attempt]) -> None:
    rows = [attempt_columns(attempt) for attempt in attempts]
    _write(connection, _inserting("attempts", ATTEMPT_COLUMNS), rows)


def _write_events(connection: sqlite3.Connection, events: Iterable[Event]) -> None:
    rows = [(event.id, ids.shard_of(event.id), to_json(event)) for event in events]
    _write(connection, _inserting("events", ("id", "shard", "body")), rows)


def _drop_found(connection: sqlite3.Connection, query: str, values: tuple[Any, ...]) -> int:
    """Drop the timers that a query finds, with all that is theirs; how many."""
    ((text,),) = connection.execute(query, values).fetchall()
    doomed: list[str] = msgspec.json.decode(text)
    _drop_timers(connection, doomed)
    return len(doomed)


def _drop_timers(connection: sqlite3.Connection, doomed: Sequence[str]) -> None:
    if doomed:
        for table, column in (("attempts", "timer"), ("tags", "timer"), ("timers", "id")):
            _drop(connection, table, column, doomed)


def _drop(connection: sqlite3.Connection, table: str, column: str, values: Sequence[str]) -> None:
    connection.execute(_dropping(table, column), (to_json(values),))


def _dropping(table: str, column: str) -> str:
    return f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))"


def _write(
    connection: sqlite3.Connection,
    statement: Callable[[int], str],
    rows: Sequence[tuple[Any, ...]],
) -> int:
    """Run a statement over the rows, as few times as can be; return how many rows it wrote."""
    written = 0
    for part in parts(rows, LONGEST):
        length, values = fill_up(part)
        written += connection.execute(statement(length), values).rowcount
    return written


@cache
def _inserting(table: str, columns: tuple[str, ...]) -> Callable[[int], str]:
    names = ", ".join(f'"{column}"' for column in columns)
    how = {"timers": "INSERT", "audit_lines": "INSERT OR IGNORE"}.get(table, "INSERT OR REPLACE")

    @cache
    def statement(length: int) -> str:
        return (
            f"{how} INTO {table} ({names}) "
            f"SELECT * FROM ({values_list(length, len(columns))}) WHERE column1 IS NOT NULL"
        )

    return statement


@cache
def _updating(columns: tuple[str, ...]) -> Callable[[int], str]:
    # A version that is no longer the old one becomes NULL, which the column refuses.
    sets = ", ".join(
        f"{column} = wanted.column{place}"
        for place, column in enumerate(columns, start=3)
        if column != "version"
    )

    @cache
    def statement(length: int) -> str:
        return (
            "UPDATE timers SET version = "
            "CASE WHEN timers.version = wanted.column2 THEN wanted.column3 END, "
            f"{sets} FROM ({values_list(length, len(columns) + 2)}) AS wanted "
            "WHERE timers.id = wanted.column1"
        )

    return statement
