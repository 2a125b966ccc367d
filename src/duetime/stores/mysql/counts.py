"""How many timers a tenant has, by group and status: counted in pieces, so that none takes long.

The index that keeps keys unique has the group, and the state the status. So the index is walked in
its order, from one key to another, and of each timer the small row of its state is read. (MariaDB
finds its id in the index too. MySQL does not look for it in one of that length, and reads the row.)
"""

from typing import NamedTuple

from duetime.stores import Count
from duetime.stores.mysql.literals import text
from duetime.stores.mysql.session import Session
from duetime.timer import Status

PIECE = 50_000  # timers that are counted in one statement

_INDEX = "FROM timers t FORCE INDEX (timers_key)"


class Place(NamedTuple):
    """A key of a tenant's."""

    group: str
    timer_id: str


class Piece(NamedTuple):
    """What was counted, and where it ended; None: there is no more."""

    counts: list[Count]
    end: Place | None


async def count(session: Session, tenant: str, after: Place | None) -> Piece:
    """Count the next so many behind a place."""
    ends = await session.rows(ending(tenant, after))
    end = Place(*(each.decode() for each in ends[0])) if ends else None
    rows = await session.rows(counting(tenant, after, end))
    return Piece(
        [Count(group.decode(), Status(status.decode()), n) for group, status, n in rows], end
    )


def ending(tenant: str, after: Place | None) -> str:
    """The statement that finds the last key of a piece; it finds none where less is left."""
    return (
        f"SELECT t.`group`, t.timer_id {_INDEX} WHERE {_between(tenant, after, None)} "
        f"ORDER BY t.`group`, t.timer_id LIMIT 1 OFFSET {PIECE - 1}"
    )


def counting(tenant: str, after: Place | None, end: Place | None) -> str:
    """The statement that counts a piece."""
    return (
        f"SELECT t.`group`, s.status, count(*) {_INDEX} "
        "STRAIGHT_JOIN states s FORCE INDEX (PRIMARY) ON s.id = t.id "
        f"WHERE {_between(tenant, after, end)} GROUP BY t.`group`, s.status"
    )


def _between(tenant: str, after: Place | None, end: Place | None) -> str:
    """Behind the one key, up to and with the other: said as stretches, as the index has them."""
    conditions = [f"t.tenant = {text(tenant)}"]
    for place, sign, edge in ((after, ">", ">"), (end, "<", "<=")):
        if place is not None:
            group = text(place.group)
            conditions.append(
                f"(t.`group` = {group} AND t.timer_id {edge} {text(place.timer_id)} "
                f"OR t.`group` {sign} {group})"
            )
    return " AND ".join(conditions)
