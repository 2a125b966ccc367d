"""The lanes of all shards that this process writes to."""

import asyncio
from collections.abc import Sequence

from duetime.clock import Millis
from duetime.errors import StoreUnavailable, gravest
from duetime.stores.cassandra.lane import Capacity, Lane
from duetime.stores.cassandra.pieces import Piece
from duetime.stores.cassandra.session import Session
from duetime.stores.cassandra.shards import Shards

AT_ONCE = 64  # batches under way,
HEAVY_AT_ONCE = 2  # and those of one big timer, which may have megabytes


class Lanes:
    """A lane for each shard, made when it is first written to."""

    def __init__(self, session: Session, shards: Shards) -> None:
        self._session = session
        self._shards = shards
        self._capacity = Capacity(asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(HEAVY_AT_ONCE))
        self._lanes: dict[int, Lane] = {}
        self.latest: Millis | None = None  # when the newest change was made, by somebody's clock

    def known(self, shard: int) -> Lane | None:
        """The lane of a shard that was written to."""
        return self._lanes.get(shard)

    async def write(self, pieces: Sequence[tuple[int, Piece]]) -> list[bool]:
        """Write pieces, each in its shard; tells which did not lose.

        When it raises, all of them are over.
        """
        by_shard: dict[int, list[int]] = {}
        for place, (shard, _) in enumerate(pieces):
            by_shard.setdefault(shard, []).append(place)
        answers = [False] * len(pieces)
        errors: list[StoreUnavailable] = []

        async def write(shard: int, places: Sequence[int]) -> None:
            try:
                wins = await self._lane(shard).write([pieces[place][1] for place in places])
            except StoreUnavailable as error:
                errors.append(error)
            else:
                for place, has_won in zip(places, wins, strict=True):
                    answers[place] = has_won

        await asyncio.gather(*(write(shard, places) for shard, places in by_shard.items()))
        if errors:
            raise gravest(errors)
        return answers

    async def idle(self) -> None:
        """Return when nothing is under way."""
        for lane in list(self._lanes.values()):
            await lane.idle()

    def _lane(self, shard: int) -> Lane:
        lane = self._lanes.get(shard)
        if lane is None:
            lane = Lane(shard, self._session, self._shards, self._capacity)
            self._lanes[shard] = lane
        return lane
