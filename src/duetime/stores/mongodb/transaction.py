"""A transaction: all of it is written or nothing, and again if another got in the way."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pymongo.errors import BulkWriteError, PyMongoError
from pymongo.read_concern import ReadConcern

from duetime.stores.mongodb.connection import DURABLE, Session
from duetime.stores.mongodb.errors import DUPLICATE_KEY

T = TypeVar("T")

# How often a transaction is tried that met another, and the longest pause in between, in seconds.
_MOST_TRIES = 30
_PAUSE = 0.1

_LOST_A_RACE = "TransientTransactionError"


async def in_transaction(session: Session, work: Callable[[], Awaitable[T]]) -> T:
    """Do all of it or nothing, and again if another got in the way."""
    for left in reversed(range(_MOST_TRIES)):
        try:
            async with await session.start_transaction(
                read_concern=ReadConcern("snapshot"), write_concern=DURABLE
            ):
                return await work()
        except PyMongoError as error:
            if not (error.has_error_label(_LOST_A_RACE) or _is_taken(error)) or not left:
                raise
        await asyncio.sleep(random.random() * _PAUSE)  # noqa: S311 - no secret
    raise AssertionError("the last try raises")


def _is_taken(error: PyMongoError) -> bool:
    """Tell whether a key or an id was taken by another, after it was found free."""
    if not isinstance(error, BulkWriteError):
        return False
    return any(each["code"] == DUPLICATE_KEY for each in error.details["writeErrors"])
