"""A clerk writes timers to a store, notes down what it is told, and compares in the end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from duetime.errors import StoreUnavailable, Unanswered
from duetime.stores import Change, Insert, Store
from duetime.timer import Status, Timer
from tests.factories import claimed, completed, make_timer
from tests.waiting import eventually

WRITERS = 8
PATIENCE = 60.0  # seconds for a call; stores have shorter limits of their own
PAUSE = 0.05  # after a failure


class Clerk:
    """Knows of each timer what it may be by now: one thing, unless nobody could say."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.written = 0  # changes that were acknowledged
        self.failed = 0  # changes of which it was said that they are over
        self.unknown = 0  # changes of which nobody knew
        self._may_be: dict[str, list[Timer | None]] = {}
        self._is_over = False

    @asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        """Meanwhile, several write all the time."""
        self._is_over = False
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(self._write())
            yield
            self._is_over = True

    async def has_written(self, more: int = 60) -> None:
        """Wait until so many more changes were acknowledged."""
        enough = self.written + more

        async def has() -> bool:
            return self.written >= enough

        await eventually(has, f"{more} more changes", within=2 * PATIENCE)

    async def complaints(self, store: Store) -> list[str]:
        """What this store says otherwise than its writers were told."""
        ids = list(self._may_be)
        complaints = []
        for id_, found in zip(ids, await store.get(ids), strict=True):
            if found not in self._may_be[id_]:
                told = " or ".join(map(_told, self._may_be[id_]))
                complaints.append(f"{id_} is {_told(found)} and not {told}")
        waking = {
            timer.id: timer.version
            for timers in self._may_be.values()
            for timer in timers[:1]
            if len(timers) == 1 and timer is not None and timer.wake_at is not None
        }
        shards = {timer.shard for own in self._may_be.values() for timer in own if timer}
        due = await store.due(shards, None, 2**62, 1_000_000)
        lines = {line.id: line.version for line in due}
        complaints += [f"{id_} is not due" for id_ in waking if lines.get(id_) != waking[id_]]
        return complaints

    async def _write(self) -> None:
        """Take one timer after the other through its life, as far as it goes."""
        while not self._is_over:
            timer = make_timer()
            if not await self._insert(timer):
                continue
            for new in (claimed(timer), completed(timer)):
                if not await self._change(timer, new):
                    break
                timer = new

    async def _insert(self, timer: Timer) -> bool:
        self._may_be[timer.id] = [None, timer]
        try:
            async with asyncio.timeout(PATIENCE):
                assert await self.store.insert([Insert(timer)]) == [None]
        except StoreUnavailable as error:
            return await self._look_again(timer, error)
        self._acknowledged(timer)
        return True

    async def _change(self, old: Timer, new: Timer) -> bool:
        self._may_be[old.id] = [old, new]
        try:
            async with asyncio.timeout(PATIENCE):
                assert await self.store.apply([Change(old, new)]) == [True]
        except StoreUnavailable as error:
            return await self._look_again(new, error)
        self._acknowledged(new)
        return True

    def _acknowledged(self, timer: Timer) -> None:
        self._may_be[timer.id] = [timer]
        self.written += 1

    async def _look_again(self, timer: Timer, error: StoreUnavailable) -> bool:
        """After a failure: what a look tells is what became of it, unless the store said no."""
        await asyncio.sleep(PAUSE)
        if isinstance(error, Unanswered):
            self.unknown += 1
            return False
        self.failed += 1
        while True:
            try:
                async with asyncio.timeout(PATIENCE):
                    [found] = await self.store.get([timer.id])
            except StoreUnavailable:
                await asyncio.sleep(PAUSE)
            else:
                assert found in self._may_be[timer.id]
                self._may_be[timer.id] = [found]
                return found == timer


def _told(timer: Timer | None) -> str:
    return "not there" if timer is None else Status(timer.status).value
