"""What is written: pieces for the lanes of their shards."""

import asyncio
from collections.abc import Collection, Iterable, Sequence

from duetime import ids
from duetime.clock import Millis
from duetime.stores import Change, Insert, Key
from duetime.stores.cassandra.lanes import Lanes
from duetime.stores.cassandra.pieces import (
    Forgetting,
    Insertion,
    Removal,
    Revision,
    attempt_step,
    kept_for,
    seconds_of,
)
from duetime.stores.cassandra.reads import Reads
from duetime.stores.cassandra.session import Session, Step
from duetime.stores.cassandra.shards import Shards
from duetime.stores.inserting import Placed, insert_all
from duetime.stores.portions import parts
from duetime.timer import FINISHED as ENDED
from duetime.timer import Status, Timer

# How often an insert is tried that lost to a timer which was gone when it was looked for.
_MOST_TRIES = 3
_EVENTS_AT_ONCE = 200
_ATTEMPTS_AT_ONCE = 100
_MOST_LINES = 10_000  # of one timer's log that get their time to live by one write


class Writes:
    """The changes."""

    def __init__(
        self,
        session: Session,
        shards: Shards,
        lanes: Lanes,
        reads: Reads,
        retention: Millis | None,
    ) -> None:
        self._session = session
        self._shards = shards
        self._lanes = lanes
        self._reads = reads
        self._retention = retention

    async def insert(self, inserts: Sequence[Insert]) -> list[Timer | None]:
        """Store timers: per timer None, or the one that was there."""
        self._note(insert.timer for insert in inserts)
        await self._shards.open_all({insert.timer.shard for insert in inserts})
        await self._log(inserts)

        async def way(left: Sequence[Placed]) -> set[int]:
            written = await self._lanes.write(
                [(insert.timer.shard, Insertion(insert, self._retention)) for _, insert in left]
            )
            return {place for (place, _), is_in in zip(left, written, strict=True) if is_in}

        return await insert_all(inserts, [way] * _MOST_TRIES, self._owners, "Cassandra")

    async def _owners(self, timers: Sequence[Timer]) -> list[Timer | None]:
        by_key, by_id = await asyncio.gather(
            self._reads.get_by_key([Key.of(timer) for timer in timers]),
            self._reads.get([timer.id for timer in timers]),
        )
        return [first or second for first, second in zip(by_key, by_id, strict=True)]

    async def _log(self, inserts: Sequence[Insert]) -> None:
        """Write the attempts that come along with timers from elsewhere, before the timers."""
        by_shard: dict[int, list[Step]] = {}
        for insert in inserts:
            shard, lives = insert.timer.shard, seconds_of(insert.timer, self._retention)
            for attempt in insert.attempts:
                by_shard.setdefault(shard, []).append(attempt_step(attempt, shard, lives))
        for steps in by_shard.values():
            for part in parts(steps, _ATTEMPTS_AT_ONCE):
                await self._session.run_batch(part)

    async def apply(self, changes: Sequence[Change]) -> list[bool]:
        """Compare and set: tell for each change whether it was written."""
        self._note(change.new for change in changes)
        ending = [change.old.id for change in changes if self._ends_a_log(change)]
        logs = await self._logs(ending)
        return await self._lanes.write(
            [
                (change.old.shard, Revision(change, self._retention, logs.get(change.old.id, ())))
                for change in changes
            ]
        )

    def _ends_a_log(self, change: Change) -> bool:
        """Tell whether there are attempts that are to end with the timer, but do not know it."""
        progress = change.old.progress
        # One that is under way has no line yet; it gets one by this change, if at all.
        tried = progress.attempt - (change.old.status is Status.EXECUTING)
        is_first = progress.occurrence == 1 and tried <= 0
        ends = change.new.is_over and kept_for(change.new, self._retention) is not None
        return ends and not is_first

    async def _logs(self, timers: Sequence[str]) -> dict[str, list[tuple[int, str]]]:
        """Of each of these timers, the lines of its log that nothing ends yet."""
        logs = await asyncio.gather(
            *(self._reads.endless_lines(timer, _MOST_LINES) for timer in timers)
        )
        return dict(zip(timers, logs, strict=True))

    async def published(self, told: Sequence[str]) -> None:
        """Forget these events."""
        by_shard: dict[int, list[str]] = {}
        for id_ in filter(ids.is_id, told):
            by_shard.setdefault(ids.shard_of(id_), []).append(id_)
        await self._lanes.write(
            [
                (shard, Forgetting(part))
                for shard, own in by_shard.items()
                for part in parts(own, _EVENTS_AT_ONCE)
            ]
        )

    async def remove(self, timers: Sequence[Timer]) -> list[bool]:
        """Compare and drop: tell for each timer whether it was."""
        return await self._lanes.write([(timer.shard, Removal(timer)) for timer in timers])

    async def purge(self, shards: Collection[int], before: Millis, limit: int) -> int:
        """Drop finished timers that no time to live ends; how many."""
        timers = await self._reads.ended(shards, before, limit)
        gone = [
            timer
            for timer in timers
            if timer.status in ENDED and timer.wake_at is None and timer.updated_at < before
        ]
        dropped = await self._lanes.write([(timer.shard, Removal(timer)) for timer in gone])
        return sum(dropped)

    def _note(self, timers: Iterable[Timer]) -> None:
        """Note what time it is."""
        for timer in timers:
            if self._lanes.latest is None or timer.updated_at > self._lanes.latest:
                self._lanes.latest = timer.updated_at
