"""Rows: a timer and an attempt as the columns of their tables, and answers as they come back.

What is written here is written for every timer there is: so the columns are listed one by one.
"""

from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from duetime.audit_line import AuditLine
from duetime.stores.codec import Scalars, to_json
from duetime.timer import Attempt, Event, Progress

ATTEMPT_COLUMNS = (
    "timer",
    "occurrence",
    "attempt",
    "node",
    "started_at",
    "finished_at",
    "next_at",
    "outcome",
)

Row: TypeAlias = tuple[Scalars, Progress, Raw]

decode_rows = msgspec.json.Decoder(list[Row]).decode
decode_events = msgspec.json.Decoder(list[Event]).decode
decode_lines = msgspec.json.Decoder(list[AuditLine]).decode


def attempt_columns(attempt: Attempt) -> tuple[Any, ...]:
    """An attempt as the values of ATTEMPT_COLUMNS."""
    return (
        attempt.timer,
        attempt.occurrence,
        attempt.attempt,
        attempt.node,
        attempt.started_at,
        attempt.finished_at,
        attempt.next_at,
        to_json(attempt.outcome),
    )
