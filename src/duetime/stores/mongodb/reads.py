"""What is read from MongoDB by id, by key and by time: one query for each question."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from duetime import ids
from duetime.clock import Millis
from duetime.stores import Due, Key, Waking
from duetime.stores.codec import decode_event
from duetime.stores.mongodb.connection import Database, Document, Session
from duetime.stores.mongodb.documents import (
    PROJECTION,
    bound,
    by_id,
    by_ids,
    from_document,
    from_id,
    from_line,
    known_ids,
    last_line_id,
    line_id,
    to_id,
)
from duetime.stores.mongodb.schema import DUE
from duetime.stores.portions import parts
from duetime.timer import Attempt, Event, Status, Timer

# Documents in one answer; the server ends it at 16 MiB anyway, and the driver asks for the rest.
AT_ONCE = 1_000

_PORTION = 16 * 1024 * 1024  # of weight, in one answer to a scan
_GROUPS = 50  # in one query by key
_EXECUTING = Status.EXECUTING.value
_WAKING = {name: 1 for name in DUE if name != "shard"}


class Reads:
    """The questions, asked of one database."""

    def __init__(self, database: Database) -> None:
        self._timers = database["timers"]
        self._attempts = database["attempts"]
        self._events = database["events"]

    async def get(
        self, asked: Sequence[str], tenant: str | None = None, session: Session | None = None
    ) -> list[Timer | None]:
        """Timers by id, of one tenant or of all, one answer for each that was asked for."""
        found: dict[str, Timer] = {}
        if known := known_ids(asked):
            wanted = by_ids(known) | ({} if tenant is None else {"tenant": tenant})
            cursor = self._timers.find(
                wanted, PROJECTION, session=session, batch_size=AT_ONCE, hint="_id_"
            )
            async for document in cursor:
                timer = from_document(document)
                found[timer.id] = timer
        return [found.get(id_) for id_ in asked]

    async def get_by_key(
        self, keys: Sequence[Key], session: Session | None = None
    ) -> list[Timer | None]:
        """Timers by key, one answer for each that was asked for."""
        found: dict[tuple[str, str, str], Timer] = {}
        for condition in _by_key(keys):
            cursor = self._timers.find(
                condition, PROJECTION, session=session, batch_size=AT_ONCE, hint="shard_key"
            )
            async for document in cursor:
                timer = from_document(document)
                found[timer.tenant, timer.group, timer.timer_id] = timer
        return [found.get((key.tenant, key.group, key.timer_id)) for key in keys]

    async def due(
        self, shards: Collection[int], after: Due | None, before: Millis, limit: int
    ) -> list[Waking]:
        """What wakes up until then, in order."""
        found: list[Waking] = []
        for condition in stretches(after, before):
            if limit > len(found) and shards:
                query = waking(condition, shards, limit - len(found))
                found += [_to_waking(line) async for line in self._timers.find(**query)]
        return found

    async def scan(self, after: str | None, limit: int) -> list[Timer]:
        """Every timer, by id: as many as make up one answer."""
        if limit == 0:
            return []
        found: list[Timer] = []
        weight = 0
        query = {"_id": {"$gt": bound(after or "")}}
        async with self._timers.find(
            query, PROJECTION, sort=[("_id", 1)], limit=limit, batch_size=limit
        ) as cursor:
            async for document in cursor:
                found.append(from_document(document))
                weight += found[-1].weight
                if weight > _PORTION:
                    break
        return found

    async def attempts(
        self, timer: str, after: tuple[int, int] | None, limit: int
    ) -> list[Attempt]:
        """A timer's execution log, in order."""
        if not ids.is_uuid(timer):
            return []
        id_, place = to_id(timer), after or (-1, 0)
        held = await self._timers.find_one(by_id(id_), {"log": 1, "has_log": 1}, hint="_id_")
        if held is None or limit == 0:
            return []
        lines: dict[tuple[int, int], list[Any]] = {}
        if held.get("has_log"):
            first = line_id(id_, max(place[0], 0), place[1])
            cursor = self._attempts.find(
                {"_id": {"$gte": first, "$lte": last_line_id(id_)}}, sort=[("_id", 1)]
            ).limit(limit + 1)  # the line at that place is one too many
            lines |= {_place(each["line"]): each["line"] async for each in cursor}
        lines |= {_place(line): line for line in held.get("log", ())}
        behind = sorted(each for each in lines if each > place)
        return [from_line(timer, lines[each]) for each in behind[:limit]]

    async def events(self, shards: Collection[int], after: str | None, limit: int) -> list[Event]:
        """What is still to be told, by id."""
        if limit == 0 or not shards:
            return []
        cursor = self._events.find(
            {"_id": {"$gt": bound(after or "")}} | _in_shards(shards),
            sort=[("_id", 1)],
            limit=limit,
            hint="_id_",
            batch_size=AT_ONCE,
        )
        return [decode_event(each["body"]) async for each in cursor]


def stretches(after: Due | None, before: Millis) -> list[Document]:
    """What lies behind a place, as stretches of the due index: one moment, and all later ones."""
    if after is None:
        return [{"wake_at": {"$lte": before}}]
    rest: Document = {"wake_at": {"$gt": after.wake_at, "$lte": before}}
    if after.wake_at > before:
        return []
    return [{"wake_at": after.wake_at, "_id": {"$gt": bound(after.id)}}, rest]


def waking(stretch: Document, shards: Collection[int], limit: int) -> dict[str, Any]:
    """The due query: it is answered from the index alone."""
    return {
        "filter": stretch | _in_shards(shards),
        "projection": _WAKING,
        "sort": [("wake_at", 1), ("_id", 1)],
        "limit": limit,
        "batch_size": limit,
        "hint": "due",
    }


def _to_waking(line: Document) -> Waking:
    return Waking(
        int(line["wake_at"]),
        from_id(line["_id"]),
        int(line["version"]),
        int(line["weight"]),
        line["status"] == _EXECUTING,
    )


def _in_shards(shards: Collection[int]) -> Document:
    """The condition on the shard; where all are meant, none is needed."""
    return {} if len(shards) == ids.SHARDS else {"shard": {"$in": sorted(shards)}}


def _place(line: list[Any]) -> tuple[int, int]:
    return line[0], line[1]


def _by_key(keys: Sequence[Key]) -> Iterator[Document]:
    """The conditions for so many keys: those of one shard, tenant and group are one."""
    groups: dict[tuple[int, str, str], dict[str, None]] = {}
    for key in keys:
        groups.setdefault((key.shard, key.tenant, key.group), {})[key.timer_id] = None
    conditions = [
        {"shard": shard, "tenant": tenant, "group": group, "timer_id": {"$in": list(names)}}
        for (shard, tenant, group), names in groups.items()
    ]
    for part in parts(conditions, _GROUPS):
        yield part[0] if len(part) == 1 else {"$or": part}
