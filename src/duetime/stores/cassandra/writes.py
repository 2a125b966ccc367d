"""What is written: pieces for the lanes of their shards."""

import asyncio
from collections.abc import Collection, Iterable, Sequence

from duetime import ids
from duetime.clock import Millis
from duetime.errors import StoreUnavailable
from duetime.model import FINISHED as ENDED
from duetime.model import Attempt, Timer
from duetime.stores import Change, Insert, Key
from duetime.stores.cassandra.lanes import Lanes
from duetime.stores.cassandra.pieces import (
    Forgetting,
    Insertion,
    Removal,
    Revision,
    attempt_step,
)
from duetime.stores.cassandra.reads import Reads
from duetime.stores.cassandra.session import Session
from duetime.stores.cassandra.shards import Shards

# How often an insert is tried that lost to a timer which was gone when it was looked for.
_MOST_TRIES = 3
_EVENTS_AT_ONCE = 200
_ATTEMPTS_AT_ONCE = 100
_MOST_ATTEMPTS = 10_000  # of one timer, that end with it


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
        await self._log([attempt for insert in inserts for attempt in insert.attempts])
        answers: list[Timer | None] = [None] * len(inserts)
        left = list(enumerate(inserts))
        for _ in range(_MOST_TRIES):
            written = await self._lanes.write(
                [(insert.timer.shard, Insertion(insert, self._retention)) for _, insert in left]
            )
            left = [placed for placed, is_in in zip(left, written, strict=True) if not is_in]
            if not left:
                return answers
            owners = await self._owners([insert.timer for _, insert in left])
            for (place, _), owner in zip(left, owners, strict=True):
                answers[place] = owner
            left = [placed for placed in left if answers[placed[0]] is None]
            if not left:
                return answers
        raise StoreUnavailable("Cassandra: timers with the same keys come and go all the time")

    async def _owners(self, timers: Sequence[Timer]) -> list[Timer | None]:
        keys = [Key(timer.tenant, timer.group, timer.timer_id, timer.shard) for timer in timers]
        by_key, by_id = await asyncio.gather(
            self._reads.get_by_key(keys), self._reads.get([timer.id for timer in timers])
        )
        return [first or second for first, second in zip(by_key, by_id, strict=True)]

    async def _log(self, attempts: Sequence[Attempt]) -> None:
        """Write attempts that come along with a timer from elsewhere, before the timer."""
        by_shard: dict[int, list[Attempt]] = {}
        for attempt in attempts:
            by_shard.setdefault(ids.shard_of(attempt.timer), []).append(attempt)
        for shard, own in by_shard.items():
            for start in range(0, len(own), _ATTEMPTS_AT_ONCE):
                part = own[start : start + _ATTEMPTS_AT_ONCE]
                await self._session.run_batch(
                    [await self._session.bind(*attempt_step(each, shard, 0)) for each in part]
                )

    async def apply(self, changes: Sequence[Change]) -> list[bool]:
        """Compare and set: tell for each change whether it was written."""
        self._note(change.new for change in changes)
        logs = await asyncio.gather(*(self._log_to_end(change) for change in changes))
        return await self._lanes.write(
            [
                (change.old.shard, Revision(change, self._retention, log))
                for change, log in zip(changes, logs, strict=True)
            ]
        )

    async def _log_to_end(self, change: Change) -> Sequence[Attempt]:
        """The attempts so far, where the timer is about to end and they shall end with it."""
        progress = change.old.progress
        is_first = progress.occurrence == 1 and progress.attempt <= 1
        if self._retention is None or change.new.status not in ENDED or is_first:
            return ()
        return await self._reads.attempts(change.old.id, None, _MOST_ATTEMPTS)

    async def published(self, told: Sequence[str]) -> None:
        """Forget these events."""
        by_shard: dict[int, list[str]] = {}
        for id_ in filter(ids.is_id, told):
            by_shard.setdefault(ids.shard_of(id_), []).append(id_)
        await self._lanes.write(
            [
                (shard, Forgetting(own[start : start + _EVENTS_AT_ONCE]))
                for shard, own in by_shard.items()
                for start in range(0, len(own), _EVENTS_AT_ONCE)
            ]
        )

    async def purge(self, shards: Collection[int], before: Millis, limit: int) -> int:
        """Drop finished timers that no time to live ends; how many."""
        doomed = await self._reads.finished(shards, before, limit)
        timers = [timer for timer in await self._reads.get(doomed) if timer is not None]
        gone = [timer for timer in timers if timer.status in ENDED and timer.updated_at < before]
        logs = await asyncio.gather(
            *(self._reads.attempts(timer.id, None, _MOST_ATTEMPTS) for timer in gone)
        )
        dropped = await self._lanes.write(
            [(timer.shard, Removal(timer, log)) for timer, log in zip(gone, logs, strict=True)]
        )
        return sum(dropped)

    def _note(self, timers: Iterable[Timer]) -> None:
        """Note what time it is."""
        for timer in timers:
            if self._lanes.latest is None or timer.updated_at > self._lanes.latest:
                self._lanes.latest = timer.updated_at
