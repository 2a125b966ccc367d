"""A stretch: rows of one kind in one shard, read from a place towards an end, part by part.

Where nothing is in the way, that is one read, shared with the other shards that are asked the same.
"""

from contextlib import suppress
from typing import Any

from cassandra import ReadFailure

from duetime.stores import Due
from duetime.stores.cassandra.crowd import Crowd
from duetime.stores.cassandra.cuts import Cuts
from duetime.stores.cassandra.session import Row

# Reads of one call that may fail, for each of them takes a while. Each makes those after it
# narrower, and whoever asks again goes on from there.
MOST_FAILURES = 25


class Patience:
    """How many reads may still fail, of all the stretches that share it."""

    def __init__(self) -> None:
        self.left = MOST_FAILURES


class Stretch:
    """What is left to read, at one time.

    The statement asks for rows between two places, whose values come twice with their kind, and for
    so many; a row begins with its place. It may lead upwards or downwards.

    ReadFailure: it cannot be read on, for good or, if ``is_given_up``, by this call.
    """

    def __init__(
        self,
        crowd: Crowd,
        cuts: Cuts,
        statement: str,
        *,
        kind: int,
        shard: int,
        place: Due,
        end: Due,
        patience: Patience,
    ) -> None:
        self.shard = shard
        self.kind = kind
        self.place = place  # all before it has been read
        self.is_over = place == end
        self.is_given_up = False
        self._crowd = crowd
        self._cuts = cuts
        self._statement = statement
        self._begin = place
        self._end = end
        self._patience = patience
        self._is_alone = False

    async def read(self, size: int) -> list[Row]:
        """The next rows, so many at most and perhaps none, though it is not over."""
        rows, until = await self._read_part(size)
        if len(rows) < size:
            self._cuts.passed(self.shard, *sorted((self.place, until)))
            self.place = until
            self.is_over = until == self._end
        else:
            self.place = Due(*rows[-1][:2])
        if self.is_over and not self._is_alone:
            self._cuts.leave_one_out(self.shard, *sorted((self._begin, self._end)))
        return rows

    async def _read_part(self, size: int) -> tuple[list[Row], Due]:
        """The rows up to a cut, and which; it is made where there is none and must be one."""
        if not self._is_alone:
            until = self._cuts.next(self.shard, self.place, self._end)
            with suppress(ReadFailure):
                values = self._values(until, size)
                return await self._crowd.ask(self._statement, self.shard, values), until
            self._is_alone = True  # from here on, for it was perhaps the fault of another shard
        async with self._cuts.turn:
            while True:
                until = self._cuts.next(self.shard, self.place, self._end)
                values = self._values(until, size)
                try:
                    return await self._crowd.ask_alone(self._statement, self.shard, values), until
                except ReadFailure:
                    self._patience.left -= 1
                    low, high = sorted((self.place, until))
                    is_cut = self._cuts.cut(self.shard, low, high)
                    self.is_given_up = is_cut and self._patience.left <= 0
                    if not is_cut or self.is_given_up:
                        raise

    def _values(self, until: Due, size: int) -> tuple[Any, ...]:
        return (self.kind, *self.place, self.kind, *until, size)
