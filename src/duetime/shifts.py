"""Shifts: long work for the event loop is done bit by bit, and of many such works, one at a time.

Whoever has much to do takes a breath now and then, and lets in requests, callbacks and whatever
else there is. Of those who do so, the one that is to end first goes on. If each went on in turn,
all would end together: a store would have nothing to do until then, and everything at once.

To end first is whoever has the least to do, counted from when it came. So what is small passes by
what is large, and nothing waits for ever: it is passed only by what comes before others have done
as much as it has to do itself.
"""

import asyncio
from heapq import heappop, heappush
from itertools import count

BREATH = 100  # things that are done before others are let in


class Shifts:
    """Tells who goes on."""

    def __init__(self) -> None:
        self._done = 0  # by all of them together
        self._numbers = count()
        # Who takes a breath: when they are to end, who came first of those, and what lets them go.
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._is_calling = False

    def begin(self, things: int) -> "Shift":
        """Come with so many things to do."""
        return Shift(self, self._done + things, next(self._numbers))

    async def wait(self, ends: int, number: int) -> None:
        """Wait until nobody else who waits is to end earlier; others are let in in any case."""
        self._done += BREATH
        loop = asyncio.get_running_loop()
        called = loop.create_future()
        heappush(self._waiting, (ends, number, called))
        if not self._is_calling:
            self._is_calling = True
            loop.call_soon(self._call)
        await called

    def _call(self) -> None:
        """Let one of them go on, and look again in the next turn of the event loop.

        By then it has taken its next breath, or it waits for a store, and holds up nobody.
        """
        while self._waiting:
            called = heappop(self._waiting)[-1]
            if not called.done():  # whoever waited may have been canceled
                called.set_result(None)
                asyncio.get_running_loop().call_soon(self._call)
                return
        self._is_calling = False


class Shift:
    """One work."""

    __slots__ = ("_ends", "_number", "_shifts")

    def __init__(self, shifts: Shifts, ends: int, number: int) -> None:
        self._shifts = shifts
        self._ends = ends
        self._number = number

    async def breathe(self) -> None:
        """Let others in, after each ``BREATH`` things."""
        await self._shifts.wait(self._ends, self._number)
