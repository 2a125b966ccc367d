"""What is read from PostgreSQL: one statement, and one round trip, for each question."""

from collections.abc import Sequence
from typing import Any

import asyncpg

from duetime import ids
from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.stores import Count, Due, Key, Page, Query, Record, Waking
from duetime.stores.codec import (
    SCALARS,
    decode_event,
    decode_line,
    decode_outcome,
    decode_progress,
    prefix_end,
    to_attempt,
    to_timer,
)
from duetime.stores.portions import parts, portions
from duetime.stores.postgres.values import escaped, escaped_or_none, unescaped, uuids
from duetime.timer import Attempt, Event, Status, Timer

# The planner takes a partial index only where the query implies its condition.
# Also asleep: of one that has failed, somebody may still have to be told.
OVER = "status IN ('completed', 'failed', 'canceled') AND wake_at IS NULL"

# Timers in one answer: so many, or as many as have this weight together.
_LONGEST = 1_000
_FEW = 64
_PORTION = 16 * 1024 * 1024

# Above this, the matches of a search are not counted to the end.
MOST_COUNTED = 1_000_000

# Of the timers of a tenant, so many are counted by one statement, which takes about a second.
COUNTED_AT_ONCE = 100_000

_EARLIEST = -(2**63)  # the least integer that a column holds: behind it lies everything

_LAST_TEXT = "~"  # behind every id

_IN_STATES = frozenset({"version", "status", "wake_at", "updated_at", "executed_at"})
_NAMES = ", ".join(
    "t.id::text" if name == "id" else f'{"s" if name in _IN_STATES else "t"}."{name}"'
    for name in SCALARS
)
_TEXTS = tuple(SCALARS.index(name) for name in ("tenant", "group", "timer_id"))

_STATUS = SCALARS.index("status")
_STATUSES = {status.value: status for status in Status}


class Reads:
    """The questions, asked in the schema of one installation."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        joined = f"{schema}.timers t JOIN {schema}.states s ON s.id = t.id"
        self._timers = f"SELECT {_NAMES}, s.progress, t.spec FROM {joined}"
        self._joined = joined
        self.pinging = f"SELECT number FROM {schema}.schema_history LIMIT 1"
        self.weighing = f"SELECT id::text, weight FROM {schema}.states WHERE id = ANY($1::uuid[])"
        self.getting = f"{self._timers} WHERE t.id = ANY($1::uuid[])"
        self.getting_own = f"{self.getting} AND t.tenant = $2"
        self.getting_by_key = (
            f'{self._timers} WHERE (t.tenant, t."group", t.timer_id) IN '
            "(SELECT * FROM unnest($1::text[], $2::text[], $3::text[]))"
        )
        self.scanning = (
            "WITH lines AS MATERIALIZED ("
            "SELECT id, weight, sum(weight) OVER (ORDER BY id) AS so_far "
            f"FROM {schema}.states WHERE id > $1::uuid ORDER BY id LIMIT $2) "
            f"{self._timers} JOIN lines ON lines.id = t.id "
            f"WHERE so_far <= {_PORTION} OR so_far = lines.weight "  # one alone may be heavier
            "ORDER BY t.id"
        )
        # Bounds, and not a plain comparison with the tenant: the planner would take the order of
        # all ids to be as good then, and walk past the timers of others. Nor is it let to join: it
        # would read the states of all tenants for that.
        self.counting_part = (
            "WITH part AS MATERIALIZED ("
            f'SELECT id, "group", (SELECT status FROM {schema}.states s WHERE s.id = t.id) '
            f"FROM {schema}.timers t "
            "WHERE (tenant, id) > ($1, $2::uuid) AND tenant <= $1 ORDER BY tenant, id LIMIT $3) "
            'SELECT "group", status, count(*), '
            "(SELECT id::text FROM part ORDER BY part.id DESC LIMIT 1) FROM part GROUP BY 1, 2"
        )
        self.reading_attempts = (
            "SELECT occurrence, attempt, node, started_at, finished_at, next_at, outcome "
            f"FROM {schema}.attempts WHERE timer = $1::uuid AND (occurrence, attempt) > ($2, $3) "
            "ORDER BY occurrence, attempt LIMIT $4"
        )
        self.reading_records = (
            f"SELECT name, version, data FROM {schema}.records WHERE kind = $1 ORDER BY name"
        )

    async def ping(self, connection: asyncpg.Connection) -> None:
        """Reach the tables: a database that was dropped or is not ours does not answer."""
        await connection.fetchval(self.pinging)

    async def get(
        self, connection: asyncpg.Connection, asked: Sequence[str], tenant: str | None = None
    ) -> list[Timer | None]:
        """Timers by id, of one tenant or of all, one answer for each that was asked for."""
        statement, owner = (
            (self.getting, ()) if tenant is None else (self.getting_own, (escaped(tenant),))
        )
        found: dict[str, Timer] = {}
        for part in await self._portions(connection, uuids(asked)):
            for row in await connection.fetch(statement, part, *owner):
                timer = _to_timer(row)
                found[timer.id] = timer
        return [found.get(id_) for id_ in asked]

    async def _portions(
        self, connection: asyncpg.Connection, asked: list[str]
    ) -> Sequence[list[str]]:
        """Split what was asked for, so that no answer is too large; the unknown fall out."""
        if len(asked) <= _FEW:
            return [asked] if asked else []
        rows = await connection.fetch(self.weighing, asked)
        weights: dict[str, int] = {id_: weight for id_, weight in rows}  # noqa: C416 - of Records
        return list(portions(weights, weights.__getitem__, heaviest=_PORTION, longest=_LONGEST))

    async def get_by_key(
        self, connection: asyncpg.Connection, keys: Sequence[Key]
    ) -> list[Timer | None]:
        """Timers by key, one answer for each that was asked for."""
        names = [(key.tenant, key.group, key.timer_id) for key in keys]
        found: dict[tuple[str, str, str], Timer] = {}
        for part in parts(list(dict.fromkeys(names)), _FEW):
            asked = [[escaped(name[place]) for name in part] for place in range(3)]
            for row in await connection.fetch(self.getting_by_key, *asked):
                timer = _to_timer(row)
                found[timer.tenant, timer.group, timer.timer_id] = timer
        return [found.get(name) for name in names]

    async def due(
        self,
        connection: asyncpg.Connection,
        shards: bytes | None,
        after: Due | None,
        before: Millis,
        limit: int,
    ) -> list[Waking]:
        """What wakes up until then, in order."""
        wake_at, id_ = after or (_EARLIEST, "")
        values: list[Any] = [before, wake_at, ids.bound(id_), limit]
        rows = await connection.fetch(
            self.waking(shards), *values, *(() if shards is None else (shards,))
        )
        return [Waking(*row) for row in rows]

    def waking(self, shards: bytes | None) -> str:
        """The due query: before, wake_at and id of the last, limit, and the shards if not all."""
        # The order is by s.id: a mere id would be the text of it, which no index is sorted by.
        return (
            "SELECT wake_at, id::text, version, weight, status = 'executing' "
            f"FROM {self._schema}.states s WHERE wake_at <= $1 "
            f"AND (wake_at, id) > ($2, $3::uuid){in_shards(shards, 5)} "
            "ORDER BY s.wake_at, s.id LIMIT $4"
        )

    async def search(self, connection: asyncpg.Connection, query: Query) -> Page:
        """A page of one tenant's timers."""
        statement, values = self.listing(query)
        timers = [_to_timer(row) for row in await connection.fetch(statement, *values)]
        if not query.with_total:
            return Page(timers)
        statement, values = self.counting(query)
        total = await connection.fetchval(statement, *values)
        return Page(timers, None if total > MOST_COUNTED else total)

    def listing(self, query: Query) -> tuple[str, list[Any]]:
        """The statement of a search, and its parameters.

        The page is found first and read afterwards, so that a search that must sort its matches
        does not carry their payloads through the sorting.
        """
        asked = _Asked()
        conditions = self._conditions(query, asked)
        sort = "t.id" if query.sort == "created_at" else "t.execute_at, t.id"
        if query.after is not None:
            sign = "<" if query.descending else ">"
            at, id_ = query.after
            last = f"({asked.value(at)}, {asked.value(ids.bound(id_))}::uuid)"
            conditions.append(f"(t.{query.sort}, t.id) {sign} {last}")
            if query.sort == "created_at":  # once more for the index of ids
                edge = ids.first_at(at + 1 if query.descending else at)
                conditions.append(f"t.id {sign}= {asked.value(edge)}::uuid")
        if query.descending:
            sort = ", ".join(f"{column} DESC" for column in sort.split(", "))
        found = (
            f"SELECT t.id FROM {self._source(query)} WHERE {' AND '.join(conditions)} "
            f"ORDER BY {sort} LIMIT {asked.value(query.limit)} OFFSET {asked.value(query.offset)}"
        )
        statement = (
            f"WITH found AS MATERIALIZED ({found}) "
            f"{self._timers} WHERE t.id IN (SELECT id FROM found) ORDER BY {sort}"
        )
        return statement, asked.values

    def counting(self, query: Query) -> tuple[str, list[Any]]:
        """The statement that counts the matches of a search, and its parameters."""
        asked = _Asked()
        conditions = " AND ".join(self._conditions(query, asked))
        some = f"SELECT 1 FROM {self._source(query)} WHERE {conditions} LIMIT {MOST_COUNTED + 1}"
        return f"SELECT count(*) FROM ({some}) AS matches", asked.values

    def _source(self, query: Query) -> str:
        """What the matches are looked for in: states only where the status counts."""
        return self._joined if query.status else f"{self._schema}.timers t"

    def _conditions(self, query: Query, asked: "_Asked") -> list[str]:
        """What a timer must be to be found; the cursor is not part of it, as totals ignore it."""
        name_from = query.name_prefix or None
        name_until = name_from and prefix_end(name_from)
        conditions = [
            f"{condition} {asked.value(value)}"
            for condition, value in (
                ("t.tenant =", escaped(query.tenant)),
                ('t."group" =', escaped_or_none(query.group)),
                ("t.correlation_id =", escaped_or_none(query.correlation_id)),
                ("t.name >=", escaped_or_none(name_from)),
                ("t.name <", escaped_or_none(name_until)),
                ("t.execute_at >=", query.execute_after),
                ("t.execute_at <", query.execute_before),
                ("t.created_at >=", query.created_after),
                ("t.created_at <", query.created_before),
            )
            if value is not None
        ]
        # The same once more for the index of ids, which begin with the time of creation.
        for sign, at in ((">=", query.created_after), ("<", query.created_before)):
            if at is not None:
                conditions.append(f"t.id {sign} {asked.value(ids.first_at(at))}::uuid")
        if query.status is not None:
            conditions.append(f"s.tenant = {asked.value(escaped(query.tenant))}")
            # Not a parameter: only so does the planner know which partial index will do.
            conditions.append(f"s.status = '{query.status.value}'")
        if query.tag is not None:
            tenant, tag = asked.value(escaped(query.tenant)), asked.value(escaped(query.tag))
            conditions.append(
                f"t.id IN (SELECT timer FROM {self._schema}.tags "
                f"WHERE tenant = {tenant} AND tag = {tag})"
            )
        return conditions

    async def count(
        self, connection: asyncpg.Connection, tenant: str, after: str
    ) -> tuple[list[Count], str | None]:
        """How many of the next timers of a tenant have each group and status; the last one's id.

        Or None for that, where there are no more.
        """
        rows = await connection.fetch(
            self.counting_part, escaped(tenant), ids.bound(after), COUNTED_AT_ONCE
        )
        counts = [Count(unescaped(row[0]), _STATUSES[row[1]], row[2]) for row in rows]
        is_last = sum(count.timers for count in counts) < COUNTED_AT_ONCE
        return counts, None if is_last else rows[0][3]

    async def scan(
        self, connection: asyncpg.Connection, after: str | None, limit: int
    ) -> list[Timer]:
        """Every timer, by id: as many as make up one answer."""
        rows = await connection.fetch(self.scanning, ids.bound(after or ""), limit)
        return [_to_timer(row) for row in rows]

    async def attempts(
        self,
        connection: asyncpg.Connection,
        timer: str,
        after: tuple[int, int] | None,
        limit: int,
    ) -> list[Attempt]:
        """A timer's execution log, in order."""
        if not uuids([timer]):
            return []
        rows = await connection.fetch(self.reading_attempts, timer, *(after or (-1, 0)), limit)
        return [
            to_attempt((timer, *row[:2], unescaped(row[2]), *row[3:6], decode_outcome(row[6])))
            for row in rows
        ]

    async def events(
        self, connection: asyncpg.Connection, shards: bytes | None, after: str | None, limit: int
    ) -> list[Event]:
        """What is still to be told, by id."""
        values: list[Any] = [ids.bound(after or ""), limit]
        rows = await connection.fetch(
            self.reading_events(shards), *values, *(() if shards is None else (shards,))
        )
        return [decode_event(row[0]) for row in rows]

    def reading_events(self, shards: bytes | None) -> str:
        """The query for events: the id of the last, limit, and the shards if not all."""
        return (
            f"SELECT body FROM {self._schema}.events "
            f"WHERE id > $1::uuid{in_shards(shards, 3)} ORDER BY id LIMIT $2"
        )

    async def records(self, connection: asyncpg.Connection, kind: str) -> list[Record]:
        """Every document of a kind, by name."""
        rows = await connection.fetch(self.reading_records, escaped(kind))
        return [
            Record(kind=kind, name=unescaped(name), version=version, data=data)
            for name, version, data in rows
        ]

    async def lines(
        self,
        connection: asyncpg.Connection,
        tenant: str,
        after: str | None,
        limit: int,
        *,
        descending: bool,
    ) -> list[AuditLine]:
        """A tenant's lines of the audit, by id."""
        if after is None:
            after = _LAST_TEXT if descending else ""
        statement = self.reading_lines(descending=descending)
        rows = await connection.fetch(statement, escaped(tenant), ids.bound(after), limit)
        return [decode_line(row[0]) for row in rows]

    def reading_lines(self, *, descending: bool) -> str:
        """The query for lines: its parameters are the tenant, the id of the last, and limit."""
        sign, end, way = ("<", ">=", "DESC") if descending else (">", "<=", "ASC")
        # Bounds for the tenant, as in counting_part.
        return (
            f"SELECT body FROM {self._schema}.audit_lines "
            f"WHERE (tenant, id) {sign} ($1, $2::uuid) AND tenant {end} $1 "
            f"ORDER BY tenant {way}, id {way} LIMIT $3"
        )


class _Asked:
    """The parameters of a statement, numbered as they come."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def value(self, value: Any) -> str:
        """Note down a value, and answer with what stands for it."""
        self.values.append(value)
        return f"${len(self.values)}"


def _to_timer(row: asyncpg.Record) -> Timer:
    scalars = list(row[: len(SCALARS)])
    for place in _TEXTS:
        scalars[place] = unescaped(scalars[place])
    scalars[_STATUS] = _STATUSES[scalars[_STATUS]]
    return to_timer(scalars, decode_progress(row[-2]), row[-1])


def in_shards(shards: bytes | None, place: int) -> str:
    """The condition on the shard: a look at one bit, however many shards are asked for."""
    return "" if shards is None else f" AND get_bit(${place}::bytea, shard) = 1"
