"""The DynamoDB store: timers that many nodes look after, in a table that AWS looks after.

There are no conditional batches in DynamoDB, so a batch is as many writes at once as there are
connections. Heartbeats and other small documents have connections to themselves, so that a node
that is busy does not pass for dead.
"""

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from duetime.audit_line import AuditLine
from duetime.clock import Millis, SystemClock
from duetime.errors import StoreUnavailable
from duetime.stores import Change, Count, Due, Insert, Key, Page, Query, Record, Waking
from duetime.stores.base import BaseStore
from duetime.stores.dynamodb import attempts, events, records
from duetime.stores.dynamodb.address import Address
from duetime.stores.dynamodb.calls import Calls
from duetime.stores.dynamodb.changes import Changes
from duetime.stores.dynamodb.due import DueIndex
from duetime.stores.dynamodb.expiry import Expiry
from duetime.stores.dynamodb.inserts import Inserts
from duetime.stores.dynamodb.lines import Lines
from duetime.stores.dynamodb.removals import Removals
from duetime.stores.dynamodb.shards import Shards
from duetime.stores.dynamodb.sweep import Sweep
from duetime.stores.dynamodb.table import Table
from duetime.stores.dynamodb.timers import Timers
from duetime.stores.dynamodb.traits import TRAITS
from duetime.stores.dynamodb.walks import Walks
from duetime.stores.dynamodb.wire import Wire
from duetime.timer import Attempt, Event, Timer

T = TypeVar("T")

# Seconds for one answer, and for a call with all that is repeated in it.
ANSWER_WITHIN = 5.0
CALL_WITHIN = 15.0
# The same for a heartbeat: a third of what a node is given by default before it is taken for dead.
QUICK_ANSWER_WITHIN = 1.5
QUICK_WITHIN = 1.5
# The same for the sweep: longer than one of its steps, and short enough for a node that stops.
SWEEP_WITHIN = 5.0
_QUICK_SIZE = 4
_SWEEPER = 0  # whoever looks after this shard sweeps the table


class DynamoStore(BaseStore):
    """Timers in a table of DynamoDB. Nothing is asked before ``migrate``.

    With ``must_exist`` the table is taken as it is, and never made.
    """

    traits = TRAITS

    def __init__(
        self, address: Address, retention: Millis | None = None, *, must_exist: bool = False
    ) -> None:
        super().__init__()
        wire, size = Wire(address, address.pool_size), address.pool_size
        quick = Wire(address, _QUICK_SIZE)
        self._calls = Calls(wire, address.table, within=CALL_WITHIN, answer_within=ANSWER_WITHIN)
        self._quick = Calls(
            quick, address.table, within=QUICK_WITHIN, answer_within=QUICK_ANSWER_WITHIN
        )
        self._table = Table(wire, address, drops=retention is not None, must_exist=must_exist)
        self._timers = Timers(self._calls)
        self._shards = Shards(self._calls)
        expiry = Expiry(self._calls, retention, size, self._table.let_drop)
        self._inserts = Inserts(self._calls, self._timers, self._shards, expiry, size)
        self._changes = Changes(self._calls, expiry, size)
        self._due = DueIndex(self._calls, self._timers)
        self._removals = Removals(self._calls, size)
        self._walks = Walks(self._calls, self._timers, self._shards, self._removals, size)
        self._lines = Lines(self._calls, self._table.let_drop)
        sweeping = Calls(wire, address.table, within=SWEEP_WITHIN, answer_within=ANSWER_WITHIN)
        self._sweep = Sweep(sweeping, self._quick, expiry, SystemClock())
        self._retention = retention
        self._must_exist = must_exist
        self._writing: set[asyncio.Task[Any]] = set()

    async def _open(self) -> None:
        is_made = await self._table.migrate()
        if self._retention is None and not self._must_exist:
            await self._sweep.is_needed()
        elif is_made:
            with suppress(StoreUnavailable):  # It is swept in vain, and that is all.
                await self._sweep.is_not_needed()

    async def ping(self) -> None:
        self._check_open()
        await self._quick.ask("GetItem", Key={"pk": {"S": "shards"}, "sk": {"S": "000"}})

    async def _shut(self) -> None:
        while self._writing:
            await asyncio.wait(self._writing)
        await self._calls.close()
        await self._quick.close()

    async def insert(self, inserts: Sequence[Insert]) -> list[Timer | None]:
        return await self._to_its_end(self._inserts.insert(inserts))

    async def get(self, ids: Sequence[str], tenant: str | None = None) -> list[Timer | None]:
        self._check_open()
        return await self._timers.get(ids, tenant)

    async def get_by_key(self, keys: Sequence[Key]) -> list[Timer | None]:
        self._check_open()
        return await self._timers.get_by_key(keys)

    async def apply(self, changes: Sequence[Change]) -> list[bool]:
        return await self._to_its_end(self._changes.apply(changes))

    async def due(
        self, shards: Collection[int], after: Due | None, before: Millis, limit: int
    ) -> list[Waking]:
        self._check_open()
        return await self._due.read(await self._shards.in_use(shards), after, before, limit)

    async def remove(self, timers: Sequence[Timer]) -> list[bool]:
        return await self._to_its_end(self._removals.remove(timers))

    async def search(self, query: Query) -> Page:
        self.traits.check(query)
        self._check_open()
        return await self._walks.search(query)

    async def count(self, tenant: str) -> list[Count]:
        self._check_open()
        return await self._walks.count(tenant)

    async def scan(self, after: str | None, limit: int) -> list[Timer]:
        self._check_open()
        return await self._walks.scan(after, limit)

    async def attempts(
        self, timer: str, after: tuple[int, int] | None, limit: int
    ) -> list[Attempt]:
        self._check_open()
        return await attempts.read(self._calls, self._timers, timer, after, limit)

    async def events(self, shards: Collection[int], after: str | None, limit: int) -> list[Event]:
        self._check_open()
        return await events.read(self._calls, await self._shards.in_use(shards), after, limit)

    async def published(self, ids: Sequence[str]) -> None:
        await self._to_its_end(events.forget(self._calls, ids))

    async def records(self, kind: str) -> list[Record]:
        self._check_open()
        return await records.read(self._quick, kind)

    async def put_record(self, old: Record | None, new: Record | None) -> bool:
        return await self._to_its_end(records.put(self._quick, old, new))

    async def purge(self, shards: Collection[int], before: Millis, limit: int) -> int:
        """Drop finished timers; with a retention, tell those when to go that were not told yet.

        Then what belongs to no timer is removed too, and the answer is how many items that were.
        """
        self._check_open()
        if self._retention is None:
            return await self._to_its_end(self._walks.purge(shards, before, limit))
        if _SWEEPER not in shards:  # One node is enough: the table is not walked by shards.
            return 0
        now = before + self._retention  # it is asked with the retention it was opened with
        return await self._to_its_end(self._sweep.step(now, limit))

    async def drop_outlived(self, shards: Collection[int], now: Millis, limit: int) -> int:  # noqa: ARG002 - DynamoDB does it
        self._check_open()
        return 0

    async def write_lines(self, lines: Sequence[AuditLine], keep_for: Millis | None) -> None:
        await self._to_its_end(self._lines.write(lines, keep_for))

    async def lines(
        self, tenant: str, after: str | None, limit: int, *, descending: bool
    ) -> list[AuditLine]:
        self._check_open()
        return await self._lines.read(tenant, after, limit, descending=descending)

    async def drop_lines(self, before: Millis, limit: int) -> int:  # noqa: ARG002 - DynamoDB does it
        self._check_open()
        return 0

    async def _to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Write to the end, also if whoever asked for it is gone."""
        try:
            self._check_open()
        except StoreUnavailable:
            work.close()
            raise
        task = asyncio.create_task(work)
        self._writing.add(task)
        task.add_done_callback(self._has_ended)
        return await asyncio.shield(task)

    def _has_ended(self, task: asyncio.Task[Any]) -> None:
        self._writing.discard(task)
        if not task.cancelled():
            task.exception()  # Nobody may be left to hear of it.
