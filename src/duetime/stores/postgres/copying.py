"""A copy: many timers into all of their tables, by COPY, which is quicker than any statement.

A key that is taken fails it as a whole, and then nothing was written. So it is for timers whose
keys nobody else can have.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg

from duetime.stores.inserting import Placed
from duetime.stores.postgres import statements
from duetime.stores.postgres.rows import (
    attempt_values,
    event_values,
    key_of,
    state_values,
    tag_rows,
    timer_values,
)
from duetime.stores.postgres.session import transaction
from duetime.stores.postgres.values import escaped


def _names(fields: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.strip('"') for name in fields if name != "place")


# Each table, and which of its columns are written.
_COLUMNS = {
    "timers": _names(statements.NEW_TIMER),
    "states": _names(("id", "tenant", *statements.NEW_STATE, *statements.ENDED)),
    "tags": _names(statements.TAG),
    "attempts": _names(statements.ATTEMPT),
    "events": _names(statements.EVENT),
}


async def copy(connection: asyncpg.Connection, schema: str, placed: Sequence[Placed]) -> set[int]:
    """Insert all of them, and tell their places; UniqueViolationError if one is there."""
    inserts = sorted([insert for _, insert in placed], key=lambda each: key_of(each.timer))
    timers = [insert.timer for insert in inserts]
    rows: dict[str, list[tuple[Any, ...]]] = {
        "timers": [timer_values(timer) for timer in timers],
        "states": [
            (timer.id, escaped(timer.tenant), *state_values(timer), timer.drop_at)
            for timer in timers
        ],
        "tags": [row[1:] for row in tag_rows([(0, timer) for timer in timers])],
        "attempts": [attempt_values(0, each)[1:] for one in inserts for each in one.attempts],
        "events": [event_values(0, each)[1:] for one in inserts for each in one.events],
    }
    async with transaction(connection):
        for table, columns in _COLUMNS.items():
            if rows[table]:
                await connection.copy_records_to_table(
                    table, schema_name=schema, columns=columns, records=rows[table]
                )
    return {place for place, _ in placed}
