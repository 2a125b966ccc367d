"""Timers as rows of PostgreSQL's two tables, in the order in which the driver is told them."""

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from duetime.stores.codec import COLUMNS
from duetime.stores.postgres.statements import NEW_STATE, NEW_TIMER

Row = tuple[Any, ...]

TIMERS = tuple(name.strip('"') for name in NEW_TIMER)
STATES = ("id", "tenant", *NEW_STATE)


def _picking(names: tuple[str, ...]) -> Callable[[Row], Row]:
    return itemgetter(*map(COLUMNS.index, names))


# From what ``codec.to_columns`` makes of a timer.
timer_row = _picking(TIMERS)
state_row = _picking(STATES)

# The tables, with the columns that are written and how they are picked.
TABLES = (("timers", TIMERS, timer_row), ("states", STATES, state_row))
