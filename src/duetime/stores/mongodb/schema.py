"""The collections of a MongoDB database and their indexes, brought up to date.

Every step can be made twice, also by two nodes at once: the server makes an index that is there
already no second time. During a rolling upgrade, nodes of two versions share the collections; so a
step says which programs can live with it: those that know the schema up to some number.
"""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pymongo
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError, OperationFailure

from duetime.errors import ConfigurationError
from duetime.stores.mongodb.connection import CONNECT_WITHIN, Database
from duetime.stores.mongodb.fate import FENCES
from duetime.stores.schema import check_not_newer, check_steps

HISTORY = "schema_history"
GRAVES = "graves"  # of timers that are gone, whose log is not yet
LINES = "audit_lines"

# Seconds that a step of the schema may take.
MIGRATE_WITHIN = 600.0

_FINISHED = ["completed", "failed", "canceled"]
_NOT_COMPLETED = ["pending", "executing", "failed", "canceled", "paused"]
_UNAUTHORIZED = 13
_EXISTS_ALREADY = 48
_NO_SUCH_INDEX = 27
_NEWS_BYTES = 1024 * 1024

# What needs attention now, with all that the engine asks for, so that no document is read for it.
DUE = ("wake_at", "_id", "shard", "version", "weight", "status")


def _index(name: str, *fields: str, **options: object) -> IndexModel:
    return IndexModel([(field, ASCENDING) for field in fields], name=name, **options)


def _where(**condition: object) -> dict[str, object]:
    return {"partialFilterExpression": condition}


_EXISTS = {"$exists": True}

# One timer per key. A key is always in the same shard; in a sharded cluster, only an index that
# begins with the shard can be unique.
SHARD_KEY = _index("shard_key", "shard", "tenant", "group", "timer_id", unique=True)

TIMERS = [
    _index("key", "tenant", "group", "timer_id", unique=True),
    _index("due", *DUE, **_where(wake_at=_EXISTS)),
    # What may be dropped; and what was completed, for lists.
    _index("finished", "updated_at", **_where(status={"$in": _FINISHED})),
    # Lists. The order of ids is the order of creation.
    _index("created", "tenant", "_id"),
    _index("execute", "tenant", "execute_at", "_id"),
    _index("correlation", "tenant", "correlation_id", "_id"),
    _index("name", "tenant", "name", **_where(name=_EXISTS)),
    _index("tag", "tenant", "tags", "_id", **_where(tags=_EXISTS)),
    # By status, but for the one that nearly all end with.
    _index("status", "tenant", "status", "_id", **_where(status={"$in": _NOT_COMPLETED})),
]


# What may be dropped: those who are kept as usual by when they finished, for whom ``drop_at`` is
# null, and then the others by that. One index for both, so that a timer has one entry, as before.
DROP = _index("drop", "drop_at", "updated_at", **_where(status={"$in": _FINISHED}))


class Step(NamedTuple):
    """A step of the schema."""

    number: int
    name: str
    oldest: int  # the programs that can live with it know the schema up to this number
    make: Callable[[Database], Awaitable[None]]


async def _first(database: Database) -> None:
    await database["timers"].create_indexes(TIMERS)
    await database["records"].create_indexes([_index("name", "kind", "name", unique=True)])
    for name in ("attempts", "events", FENCES):
        await _create(database, name)
    # The oldest news make room for new ones.
    await _create(database, "news", capped=True, size=_NEWS_BYTES)


async def _create(database: Database, name: str, **options: Any) -> None:
    try:
        await database.create_collection(name, check_exists=False, **options)
    except OperationFailure as error:
        if error.code != _EXISTS_ALREADY:
            raise


async def _key_in_shard(database: Database) -> None:
    """There is always one of the two indexes that keeps keys unique."""
    await _replace_index(database, "key", SHARD_KEY)


async def _replace_index(database: Database, old: str, new: IndexModel) -> None:
    await database["timers"].create_indexes([new])
    try:
        await database["timers"].drop_index(old)
    except OperationFailure as error:
        if error.code != _NO_SUCH_INDEX:
            raise


async def _graves(database: Database) -> None:
    await _create(database, GRAVES)


async def _own_retention(database: Database) -> None:
    """No timer has one yet: all go on in the new index as they were in the old one."""
    await _replace_index(database, "finished", DROP)


async def _lines(database: Database) -> None:
    await database[LINES].create_indexes([_index("tenant", "tenant", "_id")])


STEPS = [
    Step(1, "first", 1, _first),
    Step(2, "key_in_shard", 2, _key_in_shard),
    Step(3, "graves", 2, _graves),
    Step(4, "own_retention", 4, _own_retention),  # older programs purge by the index that is gone
    Step(5, "lines", 4, _lines),
]


async def migrate(database: Database, steps: list[Step], *, must_exist: bool = False) -> None:
    """Make the steps that this database has not seen yet; or refuse, if it must have them all."""
    with pymongo.timeout(CONNECT_WITHIN):
        await _check_replicated(database)
    try:
        with pymongo.timeout(MIGRATE_WITHIN):
            newest = await _newest(database, steps)
            if must_exist:
                advice = "name the right one in the URL"
                known = steps[-1].number
                check_steps(f"the database {database.name}", newest, known, advice)
            await _make(database, [step for step in steps if step.number > newest])
    except OperationFailure as error:
        if error.code != _UNAUTHORIZED:
            raise
        raise ConfigurationError(
            f"this user may not use the database {database.name}: let an administrator grant the "
            f"role readWrite on {database.name}"
        ) from error


async def _newest(database: Database, steps: list[Step]) -> int:
    """The number of the newest step that was made; 0 if there was none."""
    newest = oldest = 0
    async for made in database[HISTORY].find():
        newest, oldest = max(newest, made["_id"]), max(oldest, made["oldest"])
    check_not_newer(f"the database {database.name}", newest, oldest, steps[-1].number)
    return newest


async def _make(database: Database, steps: list[Step]) -> None:
    for step in steps:
        await step.make(database)
        with contextlib.suppress(DuplicateKeyError):  # another node was as quick
            await database[HISTORY].insert_one(
                {"_id": step.number, "name": step.name, "oldest": step.oldest}
            )


async def _check_replicated(database: Database) -> None:
    """Only a replica set, be it of one member, or a sharded cluster numbers its writes."""
    answer = await database.command("hello")
    if "setName" not in answer and answer.get("msg") != "isdbgrid":
        raise ConfigurationError(
            "this MongoDB is no replica set, which Duetime needs: start it with --replSet and run "
            "rs.initiate() once; a set of one member will do"
        )
