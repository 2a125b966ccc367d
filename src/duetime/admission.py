"""An admission lets in as much as fits: so many things, and so many bytes, at once.

Up to its marks nobody notices it. Beyond them callers wait in line, in order; when the line is
full as well, or somebody has stood in it for too long, they are refused. So memory is bounded,
however slow the store is, and what was let in is not concerned by what is refused.

Something larger than the marks by itself is let in when nothing else is.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial

import msgspec

from duetime.clock import Clock
from duetime.errors import CallerGone, Unavailable

MIB = 1024 * 1024

# Seconds in line. Clients give up after ten or more: they should hear of it before.
PATIENCE = 5.0

# Returns when the caller has hung up, where somebody can tell: nobody stands in line for them.
hung_up: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("hung_up", default=None)


class Marks(msgspec.Struct, frozen=True):
    """How much is let in, and how much more may stand in line."""

    most: int
    most_bytes: int
    most_in_line: int
    most_bytes_in_line: int


class _Place:
    """A place in line."""

    __slots__ = ("count", "is_in", "turn", "weight")

    def __init__(self, count: int, weight: int) -> None:
        self.count = count
        self.weight = weight
        self.is_in = False
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Admission:
    """Bounds what is under way, and who waits for it."""

    def __init__(self, what: str, clock: Clock, marks: Marks) -> None:
        self._what = what  # that there is too much of, for those who are refused
        self._clock = clock
        self._marks = marks
        self._count = 0
        self._weight = 0
        self._line: OrderedDict[_Place, None] = OrderedDict()
        self._count_in_line = 0
        self._weight_in_line = 0

    def check(self) -> None:
        """Refuse at once if the line is full, before anything was done for the caller."""
        if self._line and (
            self._count_in_line >= self._marks.most_in_line
            or self._weight_in_line >= self._marks.most_bytes_in_line
        ):
            raise self._refusal()

    def lets_in(self, count: int, weight: int) -> bool:
        """Take so much room, if there is any now; whoever was let in has to leave."""
        if self._line or not self._has_room_for(count, weight):
            return False
        self._count += count
        self._weight += weight
        return True

    async def enter(self, count: int, weight: int) -> "Room":
        """Take so much room, when there is; whoever was let in has to leave."""
        if not self.lets_in(count, weight):
            if self._line and not self._has_room_in_line_for(count, weight):
                raise self._refusal()
            await self._stand_in_line(_Place(count, weight))
        return Room(self, count, weight)

    def leave(self, count: int, weight: int) -> None:
        """Give room back."""
        self._count -= count
        self._weight -= weight
        if self._line:
            self._let_in()

    def _has_room_for(self, count: int, weight: int) -> bool:
        return (
            self._count + count <= self._marks.most
            and self._weight + weight <= self._marks.most_bytes
        ) or not self._count

    def _has_room_in_line_for(self, count: int, weight: int) -> bool:
        return (
            self._count_in_line + count <= self._marks.most_in_line
            and self._weight_in_line + weight <= self._marks.most_bytes_in_line
        )

    async def _stand_in_line(self, place: _Place) -> None:
        self._line[place] = None
        self._count_in_line += place.count
        self._weight_in_line += place.weight
        alarm = self._clock.alarm(PATIENCE, partial(self._send_away, place, self._refusal()))
        watch = self._watch(place)
        try:
            await place.turn
        except BaseException:
            if place in self._line:
                self._step_out(place)
                self._let_in()
            elif place.is_in:  # and cancelled in the same moment
                self.leave(place.count, place.weight)
            raise
        finally:
            alarm.cancel()
            if watch is not None:
                watch.cancel()

    def _watch(self, place: _Place) -> asyncio.Future[None] | None:
        """Keep an eye on the caller, if that is possible."""
        hangs_up = hung_up.get()
        if hangs_up is None:
            return None

        def on_end(watch: asyncio.Future[None]) -> None:
            if not watch.cancelled():
                self._send_away(place, CallerGone("the caller hung up while it stood in line"))

        watch = asyncio.ensure_future(hangs_up())
        watch.add_done_callback(on_end)
        return watch

    def _send_away(self, place: _Place, error: Exception) -> None:
        if place in self._line:
            self._step_out(place)
            if not place.turn.done():
                place.turn.set_exception(error)
            self._let_in()  # it may have been too large for the room that there is

    def _let_in(self) -> None:
        while self._line:
            place = next(iter(self._line))
            if not self._has_room_for(place.count, place.weight):
                return
            self._step_out(place)
            if place.turn.done():
                continue  # it was cancelled, and has not noticed yet
            self._count += place.count
            self._weight += place.weight
            place.is_in = True
            place.turn.set_result(None)

    def _step_out(self, place: _Place) -> None:
        del self._line[place]
        self._count_in_line -= place.count
        self._weight_in_line -= place.weight

    def _refusal(self) -> Unavailable:
        return Unavailable(f"{self._what}; nothing was written, try again")


class Room:
    """Room that was taken. Whoever has it gives it back; only the first time counts."""

    __slots__ = ("_admission", "_count", "_weight")

    def __init__(self, admission: Admission, count: int, weight: int) -> None:
        self._admission = admission
        self._count = count
        self._weight = weight

    def shrink(self, weight: int) -> None:
        """Keep no more than so many bytes of it."""
        self._admission.leave(0, self._weight - weight)
        self._weight = weight

    def leave(self) -> None:
        """Give it back."""
        count, weight = self._count, self._weight
        if count:
            self._count = self._weight = 0
            self._admission.leave(count, weight)
