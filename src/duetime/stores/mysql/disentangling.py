"""Disentangling: two that wait for each other, of which the server has rolled one back.

That one is done again, as if it had come a little later.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from asyncmy import errors

from duetime.stores.mysql.errors import ENTANGLED, number_of
from duetime.stores.mysql.session import Session

# How often what the server rolled back is tried again, before somebody hears of it.
MOST_TRIES = 8

T = TypeVar("T")


async def disentangled(session: Session, work: Callable[[], Awaitable[T]]) -> T:
    """Do it; again, if the server rolled it back because it waited in a circle."""
    for _ in range(MOST_TRIES):
        try:
            return await work()
        except errors.MySQLError as error:
            if number_of(error) not in ENTANGLED:
                raise
            await session.ask(b"ROLLBACK")
    return await work()
