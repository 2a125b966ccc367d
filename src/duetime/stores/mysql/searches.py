"""Lists of one tenant's timers: the page is found first and read afterwards.

So a search that must sort its matches does not carry their payloads through the sorting.
"""

from duetime import ids
from duetime.clock import Millis
from duetime.stores import Page, Query
from duetime.stores.codec import prefix_end
from duetime.stores.mysql.literals import text, uuid
from duetime.stores.mysql.reads import WHOLE
from duetime.stores.mysql.rows import timer_of
from duetime.stores.mysql.session import Session

# Above this, the matches of a search are not counted to the end.
MOST_COUNTED = 1_000_000


async def search(session: Session, query: Query) -> Page:
    """A page of one tenant's timers."""
    timers = [timer_of(row) for row in await session.rows(listing(query))]
    if not query.with_total:
        return Page(timers)
    [(total,)] = await session.rows(counting(query))
    return Page(timers, None if total > MOST_COUNTED else total)


def listing(query: Query) -> str:
    """The statement of a search."""
    conditions = _conditions(query)
    # The id of a state is the same, and its index of statuses has it in this order.
    id_ = "s.id" if query.status else "t.id"
    columns = [id_] if query.sort == "created_at" else ["t.execute_at", id_]
    if query.after is not None:
        conditions += _behind(query, query.after, id_)
    order = ", ".join(f"{column} DESC" if query.descending else column for column in columns)
    found = (
        f"SELECT t.id FROM {_source(query)} WHERE {' AND '.join(conditions)} "
        f"ORDER BY {order} LIMIT {query.limit} OFFSET {query.offset}"
    )
    whole = WHOLE.replace("FROM timers t", f"FROM ({found}) found STRAIGHT_JOIN timers t", 1)
    whole = whole.replace(" STRAIGHT_JOIN states", " ON t.id = found.id STRAIGHT_JOIN states", 1)
    return f"{whole} ORDER BY {order.replace('s.id', 't.id')}"


def counting(query: Query) -> str:
    """The statement that counts the matches of a search."""
    where = " AND ".join(_conditions(query))
    some = f"SELECT 1 FROM {_source(query)} WHERE {where} LIMIT {MOST_COUNTED + 1}"
    return f"SELECT count(*) FROM ({some}) AS matches"


def _source(query: Query) -> str:
    """What the matches are looked for in: states only where the status counts."""
    return "timers t JOIN states s ON s.id = t.id" if query.status else "timers t"


def _behind(query: Query, after: tuple[Millis, str], id_: str) -> list[str]:
    """The conditions on what comes after the last timer of the page before."""
    at, last = after
    sign = "<" if query.descending else ">"
    place = f"t.{query.sort}"
    conditions = [
        f"({place} {sign} {at} OR {place} = {at} AND {id_} {sign} {uuid(ids.bound(last))})",
        f"{place} {sign}= {at}",
    ]
    if query.sort == "created_at":  # once more for the index of ids
        edge = ids.first_at(at + 1 if query.descending else at)
        conditions.append(f"{id_} {sign}= {uuid(edge)}")
    return conditions


def _conditions(query: Query) -> list[str]:
    """What a timer must be to be found; the cursor is not part of it, as totals ignore it."""
    name_from = query.name_prefix or None
    name_until = name_from and prefix_end(name_from)
    conditions = [
        f"{condition} {text(value) if isinstance(value, str) else value}"
        for condition, value in (
            ("t.tenant =", query.tenant),
            ("t.`group` =", query.group),
            ("t.correlation_id =", query.correlation_id),
            ("t.name >=", name_from),
            ("t.name <", name_until),
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
            conditions.append(f"{'s' if query.status else 't'}.id {sign} {uuid(ids.first_at(at))}")
    if query.status is not None:
        conditions.append(f"s.tenant = {text(query.tenant)}")
        conditions.append(f"s.status = {text(query.status.value)}")
    if query.tag is not None:
        conditions.append(
            f"t.id IN (SELECT timer FROM tags WHERE tenant = {text(query.tenant)} "
            f"AND tag = {text(query.tag)})"
        )
    return conditions
