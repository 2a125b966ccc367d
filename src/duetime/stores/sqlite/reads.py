"""What the readers read: each answer is one row, however many timers it holds.

Python lets go of its lock for every row that it fetches, and has to queue up for it again behind a
busy event loop. So SQLite writes the whole answer as one JSON text, with the specs copied into it
as they are stored.
"""

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from duetime import ids
from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.stores import Count, Due, Key, Page, Query, Record, Waking
from duetime.stores.codec import (
    SCALARS,
    decode_attempts,
    prefix_end,
    to_attempt,
    to_json,
    to_timer,
)
from duetime.stores.portions import parts, portions
from duetime.stores.sqlite.rows import decode_events, decode_lines, decode_rows
from duetime.stores.sqlite.values import LONGEST, fill_up, values_list
from duetime.timer import Attempt, Event, Status, Timer

# The planner takes a partial index only where its condition stands in the query, word for word.
# Also asleep: of one that has failed, somebody may still have to be told.
OVER = "status IN ('completed', 'failed', 'canceled') AND wake_at IS NULL"

# A text of SQLite's ends at a billion bytes. So many timers fit into one for sure, each with the
# largest body that settings allow; or as many as have this weight together.
_FEW = 64
_PORTION = 16 * 1024 * 1024

_EARLIEST = -(2**63)  # the least integer that a column holds: behind it lies everything

_LAST_ID = "~"  # behind every id

_NAMES = ", ".join(f't."{column}"' for column in SCALARS)
_ANSWER = (
    f"SELECT '[' || group_concat('[' || json_array({_NAMES}) || ',' || t.progress || ',' || t.spec "
    "|| ']') || ']'"
)

SCANNING = (
    f"{_ANSWER} FROM (SELECT rowid AS place, weight, "
    "sum(weight) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS so_far "
    "FROM timers WHERE id > ? ORDER BY id LIMIT ?) AS line "
    "CROSS JOIN timers AS t ON t.rowid = place "
    f"WHERE so_far <= {_PORTION} OR so_far = line.weight"  # one alone may be heavier
)
WEIGHING = (
    "SELECT json_group_array(json_array(t.id, t.weight)) "
    "FROM json_each(?) AS asked CROSS JOIN timers AS t ON t.id = asked.value"
)
GETTING = f"{_ANSWER} FROM json_each(?) AS asked CROSS JOIN timers AS t ON t.id = asked.value"
GETTING_OWN = f"{GETTING} WHERE t.tenant = ?"
READING_ATTEMPTS = (
    "SELECT '[' || group_concat(line) || ']' FROM (SELECT "
    "rtrim(json_array(timer, occurrence, attempt, node, started_at, finished_at, next_at), ']') "
    "|| ',' || outcome || ']' AS line FROM attempts "
    "WHERE timer = ? AND (occurrence, attempt) > (?, ?) ORDER BY occurrence, attempt LIMIT ?)"
)
# By the index of keys, in whose order the groups are: so nothing is sorted, however many there are.
_SUMS = ", ".join(f"sum(status = '{status.value}')" for status in Status)
COUNTING = (
    "SELECT json_group_array(json(line)) FROM "
    f'(SELECT json_array("group", json_array({_SUMS})) AS line '
    'FROM timers WHERE tenant = ? GROUP BY "group")'
)
READING_RECORDS = (
    "SELECT json_group_array(json_array(name, version, hex(data))) FROM "
    "(SELECT name, version, data FROM records WHERE kind = ? ORDER BY name)"
)


def ping(connection: sqlite3.Connection) -> None:
    """Reach the file: the header of a database that is gone or broken does not answer."""
    connection.execute("SELECT count(*) FROM schema_history").fetchone()


def get(
    connection: sqlite3.Connection, asked: Sequence[str], tenant: str | None = None
) -> list[Timer | None]:
    """Timers by id, of one tenant or of all, one answer for each that was asked for."""
    statement, owner = (GETTING, ()) if tenant is None else (GETTING_OWN, (tenant,))
    found: dict[str, Timer] = {}
    for part in _portions(connection, list(set(asked))):
        timers = _timers(connection, statement, (to_json(part), *owner))
        found.update((timer.id, timer) for timer in timers)
    return [found.get(id_) for id_ in asked]


def _portions(connection: sqlite3.Connection, asked: list[str]) -> Iterable[list[str]]:
    """Split what was asked for, so that each part fits into one text; the unknown fall out."""
    if len(asked) <= _FEW:
        return [asked]
    text = _one(connection, WEIGHING, (to_json(asked),))
    weights = dict(_decode_weights(text or "[]"))
    return portions(weights, weights.__getitem__, heaviest=_PORTION, longest=LONGEST)


def get_by_key(connection: sqlite3.Connection, keys: Sequence[Key]) -> list[Timer | None]:
    """Timers by key, one answer for each that was asked for."""
    names = [(key.tenant, key.group, key.timer_id) for key in keys]
    found: dict[tuple[str, str, str], Timer] = {}
    for part in parts(list(set(names)), _FEW):
        length, values = fill_up(part)
        for timer in _timers(connection, getting_by_key(length), values):
            found[timer.tenant, timer.group, timer.timer_id] = timer
    return [found.get(name) for name in names]


@cache
def getting_by_key(length: int) -> str:
    """The query for so many keys. Not by way of JSON, as SQLite's loses what follows a NUL."""
    return (
        f"{_ANSWER} FROM ({values_list(length, 3)}) AS asked CROSS JOIN timers AS t "
        "ON t.tenant = asked.column1 "
        'AND t."group" = asked.column2 AND t.timer_id = asked.column3'
    )


def due(
    connection: sqlite3.Connection,
    shards: str | None,
    after: Due | None,
    before: Millis,
    limit: int,
) -> list[Waking]:
    """What wakes up until then, in order."""
    wake_at, id_ = after or (_EARLIEST, "")
    text = _one(connection, waking(shards), (before, wake_at, id_, shards, limit))
    return _decode_waking(text or "[]")


def waking(shards: str | None) -> str:
    """The due query: its parameters are before, wake_at and id of the last, shards, limit."""
    return (
        "SELECT json_group_array(json_array(wake_at, id, version, weight, "
        "json(iif(status = 'executing', 'true', 'false')))) FROM "
        "(SELECT wake_at, id, version, weight, status FROM timers WHERE wake_at <= ?1 "
        f"AND (wake_at, id) > (?2, ?3){in_shards(shards, 4)} "
        "ORDER BY wake_at, id LIMIT ?5)"
    )


def shard_list(shards: Collection[int]) -> str | None:
    """The shards as a parameter; None where all are meant, which needs no filter."""
    return None if len(shards) == ids.SHARDS else to_json(list(shards))


def in_shards(shards: str | None, place: int) -> str:
    """The condition on the shard, with its parameter's number."""
    return "" if shards is None else f" AND shard IN (SELECT value FROM json_each(?{place}))"


def search(connection: sqlite3.Connection, query: Query) -> Page:
    """A page of one tenant's timers."""
    statement, values = listing(query)
    timers = _timers(connection, statement, values)
    if not query.with_total:
        return Page(timers)
    conditions, values = _conditions(query)
    (total,) = connection.execute(
        f"SELECT count(*) FROM timers WHERE {conditions}",
        values,
    ).fetchone()
    return Page(timers, total)


def listing(query: Query) -> tuple[str, list[Any]]:
    """The statement of a search, and its parameters.

    The page is found first and read afterwards, so that a search that must sort its matches does
    not carry their payloads through the sorting.
    """
    conditions, values = _conditions(query)
    if query.after is not None:
        sign = "<" if query.descending else ">"
        conditions += f" AND ({query.sort}, id) {sign} (?, ?)"
        values += query.after
    way = "DESC" if query.descending else "ASC"
    statement = (
        f"{_ANSWER} FROM (SELECT rowid AS place FROM timers WHERE {conditions} "
        f"ORDER BY {query.sort} {way}, id {way} LIMIT ? OFFSET ?) "
        "CROSS JOIN timers AS t ON t.rowid = place"
    )
    return statement, [*values, query.limit, query.offset]


def _conditions(query: Query) -> tuple[str, list[Any]]:
    """What a timer must be to be found; the cursor is not part of it, as the total ignores it."""
    name_from = query.name_prefix or None
    asked: tuple[tuple[str, Any], ...] = (
        ("tenant = ?", query.tenant),
        ("status = ?", query.status and query.status.value),
        ('"group" = ?', query.group),
        ("correlation_id = ?", query.correlation_id),
        ("name >= ?", name_from),
        ("name < ?", name_from and prefix_end(name_from)),
        ("created_at >= ?", query.created_after),
        ("created_at < ?", query.created_before),
        ("execute_at >= ?", query.execute_after),
        ("execute_at < ?", query.execute_before),
    )
    conditions = [condition for condition, value in asked if value is not None]
    values = [value for _, value in asked if value is not None]
    if query.tag is not None:
        conditions.append("id IN (SELECT timer FROM tags WHERE tenant = ? AND tag = ?)")
        values += (query.tenant, query.tag)
    return " AND ".join(conditions), values


def count(connection: sqlite3.Connection, tenant: str) -> list[Count]:
    """How many timers a tenant has in each group and status."""
    text = _one(connection, COUNTING, (tenant,))
    return [
        Count(group, status, timers)
        for group, sums in _decode_counts(text or "[]")
        for status, timers in zip(Status, sums, strict=True)
        if timers
    ]


def scan(connection: sqlite3.Connection, after: str | None, limit: int) -> list[Timer]:
    """Every timer, by id: as many as fit into one text."""
    return _timers(connection, SCANNING, (after or "", limit))


def attempts(
    connection: sqlite3.Connection, timer: str, after: tuple[int, int] | None, limit: int
) -> list[Attempt]:
    """A timer's execution log, in order."""
    text = _one(connection, READING_ATTEMPTS, (timer, *(after or (_EARLIEST, 0)), limit))
    return [] if text is None else [to_attempt(row) for row in decode_attempts(text)]


def events(
    connection: sqlite3.Connection, shards: str | None, after: str | None, limit: int
) -> list[Event]:
    """What is still to be told, by id."""
    text = _one(connection, reading_events(shards), (after or "", shards, limit))
    return [] if text is None else decode_events(text)


def reading_events(shards: str | None) -> str:
    """The query for events: its parameters are the id of the last, shards, and limit."""
    return (
        "SELECT '[' || group_concat(body) || ']' FROM (SELECT body FROM events "
        f"WHERE id > ?1{in_shards(shards, 2)} ORDER BY id LIMIT ?3)"
    )


def records(connection: sqlite3.Connection, kind: str) -> list[Record]:
    """Every document of a kind, by name."""
    found = _decode_records(_one(connection, READING_RECORDS, (kind,)) or "[]")
    return [
        Record(kind=kind, name=name, version=version, data=bytes.fromhex(data))
        for name, version, data in found
    ]


def lines(
    connection: sqlite3.Connection, tenant: str, after: str | None, limit: int, *, descending: bool
) -> list[AuditLine]:
    """A tenant's lines of the audit, by id."""
    if after is None:
        after = _LAST_ID if descending else ""
    text = _one(connection, reading_lines(descending=descending), (tenant, after, limit))
    return [] if text is None else decode_lines(text)


def reading_lines(*, descending: bool) -> str:
    """The query for lines: its parameters are the tenant, the id of the last, and limit."""
    sign, way = ("<", "DESC") if descending else (">", "ASC")
    return (
        "SELECT '[' || group_concat(body) || ']' FROM (SELECT body FROM audit_lines "
        f"WHERE tenant = ? AND id {sign} ? ORDER BY id {way} LIMIT ?)"
    )


_decode_waking = msgspec.json.Decoder(list[Waking]).decode
_decode_weights = msgspec.json.Decoder(list[tuple[str, int]]).decode
_decode_counts = msgspec.json.Decoder(list[tuple[str, list[int]]]).decode
_decode_records = msgspec.json.Decoder(list[tuple[str, int, str]]).decode


def _timers(connection: sqlite3.Connection, statement: str, values: Sequence[Any]) -> list[Timer]:
    text = _one(connection, statement, values)
    rows = [] if text is None else decode_rows(text)
    return [to_timer(scalars, progress, spec.copy()) for scalars, progress, spec in rows]


def _one(connection: sqlite3.Connection, statement: str, values: Sequence[Any]) -> str | None:
    """The one value of the one row of an answer."""
    ((text,),) = connection.execute(statement, values).fetchall()
    return None if text is None else str(text)
