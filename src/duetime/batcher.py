"""A batcher lets calls that arrive together share one write.

Nobody waits while few writes are under way: what has arrived in one turn of the event loop goes
out at once. Only when so many are under way that the store is the slower side, whatever arrives
gathers and goes out together as soon as one of them has ended.

More than one write is under way so that the store always has the next at hand: a busy event loop
may take some milliseconds to notice that one has ended.

Nobody waits for ever: what is not even being written after a while is taken out and refused. For a
write that does not answer, nobody knows what became of it; its callers are told so. What it holds
in memory it holds until it ends, so only then does it leave the admission.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, cast

from duetime.admission import Admission, Room
from duetime.clock import Alarm, Clock
from duetime.errors import Unanswered, Unavailable, not_known

# Seconds that an item waits for its write to begin ...
LONGEST_WAIT = 10.0

# ... and that the write may take. Stores have shorter limits of their own, as far as they can.
LONGEST_WRITE = 30.0

Item = TypeVar("Item")
Answer = TypeVar("Answer")

# An item, who waits for it, its weight, and since when.
_Entry: TypeAlias = tuple[Item, asyncio.Future[Answer], int, float]


class _UnderWay:
    """A write, and who waits for it."""

    __slots__ = ("ended", "since", "waiters")

    def __init__(self, since: float, waiters: Sequence[asyncio.Future[Any]]) -> None:
        self.since = since
        self.waiters = waiters
        self.ended: asyncio.Future[None] | None = None  # for those who did not wait for it


class Batcher(Generic[Item, Answer]):
    """Gathers single items into batches for a function that takes many."""

    def __init__(
        self,
        write: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        clock: Clock,
        admission: Admission,
        *,
        largest: int = 1000,
        at_once: int = 8,
    ) -> None:
        self._write = write
        self._clock = clock
        self._admission = admission
        self._largest = largest
        self._at_once = at_once
        self._waiting: deque[_Entry[Item, Answer]] = deque()
        self._wait_alarm: Alarm | None = None
        self._write_alarm: Alarm | None = None
        self._under_way: dict[_UnderWay, None] = {}  # the oldest first
        self._writers: set[asyncio.Task[None]] = set()
        self._apart: set[asyncio.Task[None]] = set()
        self._is_starting = False  # one of the writers, in the next turn of the event loop

    async def submit(self, item: Item, weight: int) -> Answer:
        """Write one item, of so many bytes, and answer when its batch has been written."""
        # Nearly always there is room, and then entering need not even be begun.
        if not self._admission.lets_in(1, weight):
            await self._admission.enter(1, weight)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer, weight, self._clock.monotonic()))
        if not self._is_starting and len(self._writers) < self._at_once:
            self._is_starting = True
            self._writers.add(asyncio.create_task(self._write_all()))
        if self._wait_alarm is None:
            self._wait_alarm = self._clock.alarm(LONGEST_WAIT, self._refuse_waiting)
        return await answer

    async def write_apart(self, items: Sequence[Item], room: Room) -> Sequence[Answer]:
        """Write many items by themselves; the room that was taken for them is left for them."""
        answers: asyncio.Future[Sequence[Answer]] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._perform(items, [answers], room, _settle_as_one))
        self._apart.add(task)
        task.add_done_callback(self._apart.discard)
        return await answers

    async def _write_all(self) -> None:
        self._is_starting = False
        try:
            while self._waiting:
                count = min(len(self._waiting), self._largest)
                batch = [self._waiting.popleft() for _ in range(count)]
                await self._perform(
                    [entry[0] for entry in batch],
                    [entry[1] for entry in batch],
                    Room(self._admission, count, sum([entry[2] for entry in batch])),
                    _settle_each,
                )
        finally:
            # Before anyone else runs: an item must not wait for a writer that has just ended.
            self._writers.remove(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _perform(
        self,
        items: Sequence[Item],
        waiters: Sequence[asyncio.Future[Any]],
        room: Room,
        settle: Callable[[Sequence[asyncio.Future[Any]], Sequence[Answer]], None],
    ) -> None:
        """Make a write, and tell all that wait for it what came of it."""
        under_way = _UnderWay(self._clock.monotonic(), waiters)
        self._under_way[under_way] = None
        # One alarm for all: to set one for each would take longer than all else here.
        if self._write_alarm is None:
            self._write_alarm = self._clock.alarm(LONGEST_WRITE, self._give_up)
        try:
            settle(waiters, _one_each(items, await self._write(items)))
        except BaseException as error:
            _fail(waiters, error)
            if not isinstance(error, Exception):
                raise
        finally:
            del self._under_way[under_way]
            room.leave()
            if under_way.ended is not None:
                under_way.ended.set_result(None)

    def _give_up(self) -> None:
        """Tell the callers of writes that take too long, and look again when the next will have."""
        self._write_alarm = None
        now = self._clock.monotonic()
        for under_way in self._under_way:
            if (pause := under_way.since + LONGEST_WRITE - now) > 0:
                self._write_alarm = self._clock.alarm(pause, self._give_up)
                return
            if under_way.ended is None:
                under_way.ended = asyncio.get_running_loop().create_future()
                _fail(under_way.waiters, _unanswered(under_way.ended))

    def _refuse_waiting(self) -> None:
        """Take out those that have waited too long, and look again when the next will have."""
        self._wait_alarm = None
        now = self._clock.monotonic()
        while self._waiting:
            _, answer, weight, since = self._waiting[0]
            if (pause := since + LONGEST_WAIT - now) > 0:
                self._wait_alarm = self._clock.alarm(pause, self._refuse_waiting)
                return
            self._waiting.popleft()
            _fail([answer], _not_begun())
            self._admission.leave(1, weight)


def _one_each(items: Sequence[Item], answers: Sequence[Answer]) -> Sequence[Answer]:
    if len(answers) != len(items):
        raise ValueError(f"{len(answers)} answers to a write of {len(items)} items")
    return answers


def _settle_each(waiters: Sequence[asyncio.Future[Answer]], answers: Sequence[Answer]) -> None:
    for waiter, answer in zip(waiters, answers, strict=True):
        if not waiter.done():  # its caller may have gone away
            waiter.set_result(answer)


def _settle_as_one(
    waiters: Sequence[asyncio.Future[Sequence[Answer]]], answers: Sequence[Answer]
) -> None:
    _settle_each(waiters, [answers])


def _fail(waiters: Sequence[asyncio.Future[Answer]], error: BaseException) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_exception(error)


def _unanswered(ended: asyncio.Future[None]) -> Unanswered:
    why = not_known(f"no answer within {LONGEST_WRITE:.0f} s")
    return Unanswered(why, told=why, ended=ended)


def _not_begun() -> Unavailable:
    return Unavailable("the database is too slow; nothing was written, try again")
