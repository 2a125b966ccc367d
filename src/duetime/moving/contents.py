"""The contents of a store, read a part at a time, such that each part fits into memory."""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

from duetime import ids
from duetime.model import Attempt, Event, Timer
from duetime.moving.checksum import Tally
from duetime.moving.patience import Patience
from duetime.stores import Record, Store

# The kinds of records that belong to the timers, and move with them. Those of nodes do not, nor
# does what a move or a store notes down for itself.
CARRIED = ("layout",)

PART = 500  # timers, or events, that are read at once
LOG_PART = 1_000  # attempts
LOGS_AT_ONCE = 32


class TimerWithLog(NamedTuple):
    """A timer with its execution log."""

    timer: Timer
    attempts: tuple[Attempt, ...]


class Contents:
    """All that one store holds."""

    def __init__(self, store: Store, patience: Patience) -> None:
        self._store = store
        self._patience = patience
        self._logs = asyncio.Semaphore(LOGS_AT_ONCE)

    async def timers(self, after: str | None) -> list[TimerWithLog]:
        """The timers behind this one, in the store's order; none are left if there are none."""
        timers = await self._patience.ask(self._store.scan, after, PART)
        logs = await asyncio.gather(*map(self._log, timers))
        return [TimerWithLog(timer, log) for timer, log in zip(timers, logs, strict=True)]

    async def get(self, wanted: list[str]) -> list[TimerWithLog | None]:
        """These timers, with their logs."""
        timers = await self._patience.ask(self._store.get, wanted)
        return [
            None if timer is None else TimerWithLog(timer, await self._log(timer))
            for timer in timers
        ]

    async def _log(self, timer: Timer) -> tuple[Attempt, ...]:
        if timer.version == 1:  # every attempt makes another version of its timer
            return ()
        log: list[Attempt] = []
        async with self._logs:
            while True:
                after = (log[-1].occurrence, log[-1].attempt) if log else None
                part = await self._patience.ask(self._store.attempts, timer.id, after, LOG_PART)
                log += part
                if len(part) < LOG_PART:
                    return tuple(log)

    async def events(self) -> AsyncIterator[list[Event]]:
        """What is still to be told of timers that are there. Others cannot be carried along."""
        after: str | None = None
        while part := await self._patience.ask(self._store.events, ids.ALL_SHARDS, after, PART):
            after = part[-1].id
            owners = list({event.timer for event in part})
            timers = await self._patience.ask(self._store.get, owners)
            there = {timer.id for timer in timers if timer}
            yield [event for event in part if event.timer in there]

    async def records(self) -> list[Record]:
        """The small documents that move with the timers."""
        return [
            record
            for kind in CARRIED
            for record in await self._patience.ask(self._store.records, kind)
        ]

    async def tally(self) -> AsyncIterator[Tally]:
        """Count and sum up everything; the last answer is the whole."""
        tally = Tally()
        after: str | None = None
        while part := await self.timers(after):
            for one in part:
                tally.add_timer(*one)
            after = part[-1].timer.id
            yield tally
        async for events in self.events():
            for event in events:
                tally.add_event(event)
        for record in await self.records():
            tally.add_record(record)
        yield tally
