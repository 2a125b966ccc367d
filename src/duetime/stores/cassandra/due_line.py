"""A due line: what is due, or late, in one shard; and how many are read until there is enough."""

import asyncio
from collections.abc import Sequence

from cassandra import ReadFailure

from duetime.stores import Due, Waking
from duetime.stores.cassandra.stretch import Stretch


class DueLine:
    """What is due, or late, in one shard, as far as it has been read."""

    def __init__(self, stretch: Stretch) -> None:
        self.stretch = stretch
        self.found: list[Waking] = []

    @property
    def is_over(self) -> bool:
        """Tell whether no more of it is read, this time."""
        return self.stretch.is_over or self.stretch.is_given_up

    async def read_on(self, size: int) -> None:
        """Read so many lines more, or as far as one read goes.

        Where that takes too long, the rest is left to the next call: other shards must not wait.
        """
        try:
            self.found += [Waking._make(row) for row in await self.stretch.read(size)]
        except ReadFailure:
            if not self.stretch.is_given_up:
                raise

    @property
    def beginning(self) -> Due:
        """A place right before the first line that was found; that one is behind it."""
        if not self.found:
            return self.stretch.place
        wake_at, id_ = self.found[0].place
        return Due(wake_at, id_[:-1])


async def read_lines(lines: Sequence[DueLine], size: int, limit: int) -> None:
    """Read each of them, and go on where one is short, until so many are found over all."""
    short = lines
    while short:
        answers = await asyncio.gather(
            *(line.read_on(size) for line in short), return_exceptions=True
        )
        for answer in answers:  # all of them are over by now
            if answer is not None:
                raise answer
        left = [line for line in lines if not line.is_over]
        last = min((line.stretch.place for line in left), default=None)
        if last is None or sum(one.place <= last for line in lines for one in line.found) >= limit:
            return
        short = [line for line in left if line.stretch.place == last]
