"""The contents of a store, read a part at a time, such that each part fits into memory."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import NamedTuple

from duetime import ids
from duetime.audit_line import AuditLine
from duetime.moving.checksum import Tally
from duetime.moving.patience import Patience
from duetime.stores import Record, Store
from duetime.timer import DEFAULT_TENANT, Attempt, Event, Timer

# The kinds of records that move with the timers: how these are laid out, whose they are, and the
# actions under way, which go on where they have moved to. Those of nodes do not move, nor what a
# move or a store notes down for itself, nor revisions: a node that finds none reads everything. The
# names are those of ``tenancy`` and ``bulk``, which this room does not know; a test compares them.
TENANTS, KEYS, GROUPS, KEY_USES, ACTIONS = "tenant", "key", "group", "key uses", "action"
TARGETS = "target"
CARRIED = ("layout", TENANTS, KEYS, GROUPS, TARGETS, KEY_USES, ACTIONS)

# How the kinds begin of which each tenant has its own: its actions that have ended.
CARRIED_BY_TENANT = ("ended action/",)

PART = 500  # timers, or events, that are read at once
LOG_PART = 1_000  # attempts
LINES_PART = 1_000  # lines of the audit
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

    async def tenants(self) -> list[str]:
        """The names of all tenants, in order; deleted ones too, for their lines are still there."""
        return sorted({DEFAULT_TENANT, *(record.name for record in await self.records(TENANTS))})

    async def kinds(self) -> list[str]:
        """The kinds of all records that move."""
        tenants = await self.tenants()
        return [*CARRIED, *(kind + tenant for kind in CARRIED_BY_TENANT for tenant in tenants)]

    async def records(self, kind: str) -> list[Record]:
        """The small documents of a kind."""
        return await self._patience.ask(self._store.records, kind)

    async def lines(self, tenant: str, after: str | None) -> list[AuditLine]:
        """Lines of a tenant's audit behind this one, by id; none are left if there are none."""
        return await self._patience.ask(
            self._store.lines, tenant, after, LINES_PART, descending=False
        )

    async def all_lines(self, tenant: str) -> AsyncGenerator[list[AuditLine]]:
        """Every line of a tenant's audit, a part at a time."""
        after: str | None = None
        while part := await self.lines(tenant, after):
            yield part
            after = part[-1].id

    async def is_lived_in(self) -> bool:
        """Tell whether somebody has tenants, keys, groups or targets here, or has done anything."""
        for kind in (TENANTS, KEYS, GROUPS, TARGETS):
            if await self.records(kind):
                return True
        return bool(await self.lines(DEFAULT_TENANT, None))

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
        for kind in await self.kinds():
            for record in await self.records(kind):
                tally.add_record(record)
        yield tally
        for tenant in await self.tenants():
            async for lines in self.all_lines(tenant):
                for line in lines:
                    tally.add_line(line)
                yield tally
