"""Reads are calls to the store that change nothing: so many at once, and each for so long."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from duetime.admission import Admission
from duetime.clock import Clock, time_limit
from duetime.errors import StoreUnavailable, Unavailable

# Seconds that a read may take: a list of millions of timers takes some.
LONGEST = 20.0

# Calls at once. The others wait here, so that the engine's do not queue up behind all of them.
MOST_CALLS = 32

P = ParamSpec("P")
AnswerT = TypeVar("AnswerT")


async def tried(reading: Awaitable[AnswerT]) -> AnswerT:
    """What a read answers; if it fails, nothing was harmed by that."""
    try:
        return await reading
    except StoreUnavailable as error:
        raise Unavailable(
            f"the database did not answer ({error}); try again",
            told="the database did not answer; try again",
        ) from error


class Reads:
    """Makes reads, within their bounds."""

    def __init__(self, clock: Clock, admission: Admission) -> None:
        self._clock = clock
        self._admission = admission
        self._calls = asyncio.Semaphore(MOST_CALLS)

    async def read(
        self,
        count: int,
        call: Callable[P, Awaitable[AnswerT]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> AnswerT:
        """What the call answers; it may bring as many timers as the count says."""
        room = await self._admission.enter(count, 0)
        try:
            async with time_limit(self._clock, LONGEST), self._calls:
                return await call(*args, **kwargs)
        except TimeoutError:
            raise StoreUnavailable(f"no answer within {LONGEST:.0f} s") from None
        finally:
            room.leave()
