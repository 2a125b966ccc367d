"""Lists: the searches of users, as conditions that the indexes of the collection can answer."""

from typing import Any

from duetime.stores import Page, Query
from duetime.stores.codec import prefix_end
from duetime.stores.mongodb.connection import Database, Document
from duetime.stores.mongodb.documents import PROJECTION, bound, first_id, from_document

# Above this, the matches of a search are not counted to the end.
MOST_COUNTED = 1_000_000


class Lists:
    """The searches in one database."""

    def __init__(self, database: Database) -> None:
        self._timers = database["timers"]

    async def search(self, query: Query) -> Page:
        """A page of one tenant's timers."""
        timers = []
        if query.limit:
            cursor = self._timers.find(**listing(query))
            timers = [from_document(document) async for document in cursor]
        if not query.with_total:
            return Page(timers)
        total = await self._timers.count_documents(conditions(query), limit=MOST_COUNTED + 1)
        return Page(timers, None if total > MOST_COUNTED else total)


def listing(query: Query) -> dict[str, Any]:
    """The query of a search."""
    direction = -1 if query.descending else 1
    fields = ("_id",) if query.sort == "created_at" else ("execute_at", "_id")
    return {
        "filter": conditions(query) | _behind(query),
        "projection": PROJECTION,
        "sort": [(field, direction) for field in fields],
        "skip": query.offset,
        "limit": query.limit,
    }


def conditions(query: Query) -> Document:
    """What a timer must be to be found; the cursor is not part of it, as totals ignore it."""
    until = prefix_end(query.name_prefix) if query.name_prefix else None
    wanted = {
        "tenant": query.tenant,
        "status": query.status and query.status.value,
        "group": query.group,
        "tags": query.tag,
        "correlation_id": query.correlation_id,
        "name": _range(query.name_prefix or None, until),
        "execute_at": _range(query.execute_after, query.execute_before),
        "created_at": _range(query.created_after, query.created_before),
        # The same once more for the indexes, which have ids: these begin with the time of creation.
        "_id": _range(
            None if query.created_after is None else first_id(query.created_after),
            None if query.created_before is None else first_id(query.created_before),
        ),
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _range(start: object, end: object) -> Document | None:
    """From the start, up to and without the end."""
    ends = {"$gte": start, "$lt": end}
    return {sign: value for sign, value in ends.items() if value is not None} or None


def _behind(query: Query) -> Document:
    """The condition that the answer goes on behind the last timer of the page before."""
    if query.after is None:
        return {}
    at, id_ = query.after
    sign = "$lt" if query.descending else "$gt"
    places: Document = {
        "$or": [{query.sort: {sign: at}}, {query.sort: at, "_id": {sign: bound(id_)}}]
    }
    # Said once more in one piece, for the index.
    edge: Document = {query.sort: {f"{sign}e": at}}
    if query.sort == "created_at":
        edge["_id"] = {f"{sign}e": first_id(at + 1 if query.descending else at)}
    return {"$and": [places, edge]}
