"""The statements that write a batch: what each array holds, and what is made of the arrays.

Each is put together once for what a batch has in it, and then prepared by the driver.
"""

from functools import cache

NEW_TIMER = {
    "id": "uuid",
    "tenant": "text",
    '"group"': "text",
    "timer_id": "text",
    "execute_at": "bigint",
    "created_at": "bigint",
    "fingerprint": "text",
    "name": "text",
    "correlation_id": "text",
    "spec": "text",
}
NEW_STATE = {
    "wake_at": "bigint",
    "updated_at": "bigint",
    "executed_at": "bigint",
    "version": "integer",
    "weight": "integer",
    "shard": "smallint",
    "status": "text",
    "progress": "text",
}
MOVED = {
    "place": "integer",
    "id": "uuid",
    "old_version": "integer",
    "version": "integer",
    "status": "text",
    "wake_at": "bigint",
    "updated_at": "bigint",
    "executed_at": "bigint",
    "progress": "text",
}
REWRITTEN = {
    "weight": "integer",
    "execute_at": "bigint",
    "fingerprint": "text",
    "name": "text",
    "correlation_id": "text",
    "spec": "text",
}
ENDED = {"drop_at": "bigint"}  # only where a retention of its own begins or ends
LINE = {"id": "uuid", "tenant": "text", "body": "text"}
ATTEMPT = {
    "place": "integer",
    "timer": "uuid",
    "occurrence": "integer",
    "attempt": "integer",
    "node": "text",
    "started_at": "bigint",
    "finished_at": "bigint",
    "next_at": "bigint",
    "outcome": "text",
}
EVENT = {"place": "integer", "id": "uuid", "shard": "smallint", "body": "text"}
TAG = {"place": "integer", "tenant": "text", "tag": "text", "timer": "uuid"}


class _Arrays:
    """Numbers the parameters of a statement: each set of rows is an array for each column."""

    def __init__(self) -> None:
        self._count = 0

    def rows(self, name: str, fields: dict[str, str]) -> str:
        """A set of rows, as a part of WITH."""
        arrays = []
        for kind in fields.values():
            self._count += 1
            arrays.append(f"${self._count}::{kind}[]")
        return f"{name} AS (SELECT * FROM unnest({', '.join(arrays)}) AS w ({', '.join(fields)}))"


@cache
def inserting(
    schema: str,
    *,
    are_fresh: bool,
    is_ending: bool,
    has_tags: bool,
    has_attempts: bool,
    has_events: bool,
) -> str:
    """Insert timers: those whose key and id are free; or, where they are fresh, all or none.

    To leave a row out if need be, and to tell which, takes PostgreSQL longer for all of them.
    """
    arrays = _Arrays()
    new_state = NEW_STATE | ENDED if is_ending else NEW_STATE
    timer, state = ", ".join(NEW_TIMER), ", ".join(new_state)
    storing = f"INSERT INTO {schema}.timers ({timer}) SELECT {timer} FROM wanted"
    beginning = f"INSERT INTO {schema}.states (id, tenant, {state}) SELECT id, tenant, {state} FROM"
    parts = [arrays.rows("wanted", {"place": "integer", **NEW_TIMER, **new_state})]
    if are_fresh:
        parts += [f"stored AS ({storing})", f"begun AS ({beginning} wanted)"]
    else:
        parts += [
            f"stored AS ({storing} ON CONFLICT DO NOTHING RETURNING id)",
            "won AS (SELECT wanted.* FROM wanted JOIN stored USING (id))",
            f"begun AS ({beginning} won)",
        ]
    won = "wanted" if are_fresh else "won"
    if has_tags:
        parts += [arrays.rows("tagged", TAG), _tagging(schema, won)]
    if has_attempts:
        parts += [arrays.rows("ended", ATTEMPT), _logging(schema, won)]
    if has_events:
        parts += [arrays.rows("happened", EVENT), _telling(schema, won)]
    return f"WITH {', '.join(parts)} SELECT place FROM {won}"


@cache
def updating(
    schema: str,
    *,
    is_rewriting: bool,
    is_ending: bool,
    has_attempts: bool,
    has_events: bool,
    has_tags: bool,
) -> str:
    arrays = _Arrays()
    fields = MOVED | (REWRITTEN if is_rewriting else {}) | (ENDED if is_ending else {})
    written = [name for name in MOVED if name not in {"place", "id", "old_version"}]
    if is_rewriting:
        written.append("weight")
    if is_ending:
        written += ENDED
    sets = ", ".join(f"{name} = w.{name}" for name in written)
    parts = [
        arrays.rows("wanted", fields),
        (
            f"won AS (UPDATE {schema}.states s SET {sets} FROM wanted w"
            " WHERE s.id = w.id AND s.version = w.old_version RETURNING w.place, s.id)"
        ),
    ]
    if is_rewriting:
        sets = ", ".join(f"{name} = w.{name}" for name in REWRITTEN if name != "weight")
        parts.append(
            f"rewritten AS (UPDATE {schema}.timers t SET {sets} "
            "FROM wanted w JOIN won USING (place) WHERE t.id = w.id)"
        )
    if has_attempts:
        parts += [arrays.rows("ended", ATTEMPT), _logging(schema, "won")]
    if has_events:
        parts += [arrays.rows("happened", EVENT), _telling(schema, "won")]
    if has_tags:
        parts += [
            arrays.rows("retagged", {"place": "integer"}),
            arrays.rows("tagged", TAG),
            # The old and the new tags, minus those that stay: one statement must not delete and
            # insert the same row.
            (
                f"untagged AS (DELETE FROM {schema}.tags WHERE timer IN"
                " (SELECT won.id FROM retagged JOIN won USING (place))"
                " AND (tenant, tag, timer) NOT IN (SELECT tenant, tag, timer FROM tagged))"
            ),
            _tagging(schema, "won"),
        ]
    return f"WITH {', '.join(parts)} SELECT place FROM won"


@cache
def removing(schema: str) -> str:
    fields = {"place": "integer", "id": "uuid", "version": "integer"}
    parts = [
        _Arrays().rows("wanted", fields),
        (
            f"won AS (DELETE FROM {schema}.states s USING wanted w"
            " WHERE s.id = w.id AND s.version = w.version RETURNING w.place, s.id)"
        ),
        *_dropping(schema, "won"),
    ]
    return f"WITH {', '.join(parts)} SELECT place FROM won"


@cache
def purging(schema: str, which: str) -> str:
    parts = [
        f"doomed AS MATERIALIZED (SELECT id FROM {schema}.states WHERE {which})",
        *_dropping(schema, "doomed"),
        f"done AS (DELETE FROM {schema}.states WHERE id IN (SELECT id FROM doomed) RETURNING 1)",
    ]
    return f"WITH {', '.join(parts)} SELECT count(*) FROM done"


def _dropping(schema: str, doomed: str) -> list[str]:
    """What belongs to timers whose states are dropped."""
    return [
        f"no_{table} AS (DELETE FROM {schema}.{table} WHERE {column} IN (SELECT id FROM {doomed}))"
        for table, column in (("attempts", "timer"), ("tags", "timer"), ("timers", "id"))
    ]


@cache
def writing_lines(schema: str, *, are_fresh: bool) -> str:
    names = ", ".join(LINE)
    unless_there = "" if are_fresh else " ON CONFLICT DO NOTHING"
    return (
        f"WITH {_Arrays().rows('new', LINE)} "
        f"INSERT INTO {schema}.audit_lines ({names}) SELECT {names} FROM new{unless_there}"
    )


def _tagging(schema: str, won: str) -> str:
    return (
        f"tagging AS (INSERT INTO {schema}.tags (tenant, tag, timer) "
        f"SELECT tagged.tenant, tag, timer FROM tagged JOIN {won} USING (place) "
        "ON CONFLICT DO NOTHING)"
    )


def _logging(schema: str, won: str) -> str:
    names = ", ".join(name for name in ATTEMPT if name != "place")
    return (
        f"logged AS (INSERT INTO {schema}.attempts ({names})"
        f" SELECT {names} FROM ended JOIN {won} USING (place)"
        " ON CONFLICT (timer, occurrence, attempt) DO UPDATE SET node = excluded.node,"
        " started_at = excluded.started_at, finished_at = excluded.finished_at,"
        " next_at = excluded.next_at, outcome = excluded.outcome)"
    )


def _telling(schema: str, won: str) -> str:
    return (
        f"telling AS (INSERT INTO {schema}.events (id, shard, body) "
        f"SELECT happened.id, happened.shard, body FROM happened JOIN {won} USING (place) "
        "ON CONFLICT DO NOTHING)"
    )
