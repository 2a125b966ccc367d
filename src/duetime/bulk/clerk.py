"""The clerk works on the actions that are under way: one batch of each in turn, then a breath.

An action belongs to the node that its record names. Whoever finds a record that has stood still for
a while, on its own monotonic clock, takes it up: it writes its own name into it, and whoever loses
a record stops working on that action. So two may work on the same batch for a moment, and each
timer is still changed once: see ``batch.py``.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable

import msgspec
from msgspec.structs import replace

from duetime.bulk import action as actions
from duetime.bulk import resuming
from duetime.bulk.action import Action, Tally, carries, record_of
from duetime.bulk.batch import Batches
from duetime.bulk.sightings import Sightings
from duetime.clock import Clock
from duetime.errors import StoreError, UnsupportedQuery
from duetime.searching import Part, search
from duetime.stores import Record, Store

log = logging.getLogger("duetime.bulk")

BATCH = 200
MOST_SEEN = 2_000  # timers that are looked at for one batch
LOOK_EVERY = 3.0  # seconds
TIDY_EVERY = 3_600.0
TAKEN_UP_AFTER = 10.0  # that a record has stood still
PREPARED_FOR = 60.0  # seconds: longer than anybody waits for all nodes to obey
SHORTEST_BREATH = 0.005

Conclude = Callable[[Action], Awaitable[None]]


class Work(msgspec.Struct):
    """An action that this node works on."""

    record: Record
    action: Action
    tally: Tally | None = None  # of its batch; None: nobody knows what became of that


class Clerk:
    """Works on actions, those of all tenants."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        batches: Batches,
        *,
        conclude: Conclude,
        begun: Callable[[Action], Awaitable[Action | None]],
    ) -> None:
        self.name = f"clerk-{secrets.token_hex(6)}"
        self._store = store
        self._clock = clock
        self._batches = batches
        self._conclude = conclude  # what is to be done when an action has ended
        self._begun = begun  # one that was only prepared, if it shall begin
        self._works: dict[str, Work] = {}
        self._sightings = Sightings(LOOK_EVERY)
        self._look_at = clock.monotonic()
        self._ends: dict[str, asyncio.Event] = {}

    def look_soon(self) -> None:
        """Look at the records with the next pass, and not only when it is time."""
        self._look_at = self._clock.monotonic()

    async def wait_for(self, action: str, seconds: float) -> None:
        """Wait until this node has ended an action, at most so long."""
        event = self._ends.setdefault(action, asyncio.Event())
        try:
            await self._clock.wait(event, seconds)
        finally:
            self._ends.pop(action, None)

    async def step(self) -> float:
        """Write one batch of each action that is this node's."""
        began_at = self._clock.monotonic()
        if began_at >= self._look_at:
            await self._look()
        for name in list(self._works):
            await self._turn(name)
        now = self._clock.monotonic()
        if not self._works:
            return max(self._look_at - now, 0)
        return max((now - began_at) / 2, SHORTEST_BREATH)

    # Which actions ----------------------------------------------------------------------------

    async def _look(self) -> None:
        asked_at = self._clock.monotonic()
        records = await self._store.records(actions.KIND)
        self._sightings.look_at(records, asked_at=asked_at, seen_at=self._clock.monotonic())
        self._look_at = self._clock.monotonic() + LOOK_EVERY
        known = {record.name for record in records}
        self._works = {name: work for name, work in self._works.items() if name in known}
        for record in records:
            work = self._works.get(record.name)
            if work is not None and work.record.version == record.version:
                continue
            self._works.pop(record.name, None)  # somebody else has written it
            await self._consider(record)

    async def _consider(self, record: Record) -> None:
        """Work on an action if it is this node's, or nobody's any more."""
        try:
            action = actions.read(record)
        except msgspec.MsgspecError:  # another version wrote it, and will work on it
            return
        still_for = self._sightings.still_for(record.name)
        if action.state == "prepared":
            if still_for >= PREPARED_FOR:
                await self._begin(record, action)
        elif action.node == self.name:
            self._works[record.name] = Work(record, action)
        elif action.node is None or still_for >= TAKEN_UP_AFTER:
            if action.node is not None:
                log.info("action %s is taken up: its node has left it", action.id)
            await self._put(Work(record, action), replace(action, node=self.name))

    async def _begin(self, record: Record, action: Action) -> None:
        """See to an action whose maker is gone before it let it begin."""
        begun = await self._begun(action)
        if begun is None:
            await self._store.put_record(record, None)
        else:
            await self._put(Work(record, action), replace(begun, node=self.name))

    # One of them ------------------------------------------------------------------------------

    async def _turn(self, name: str) -> None:
        work = self._works[name]
        try:
            await self._go_on(work)
        except UnsupportedQuery as error:
            await self._fail(work, str(error))
        except StoreError:
            self._forget(name)  # nobody knows what became of it: it is read again
            raise
        except Exception as error:  # it must not stand in the way of the others
            log.exception("action %s failed", work.action.id)
            await self._fail(work, f"unexpected error: {type(error).__name__}")

    async def _go_on(self, work: Work) -> None:
        action = work.action
        if action.has_ended:
            await self._file(work)
            return
        tally = work.tally
        if tally is None:
            tally = await self._batches.write(action)
        work.tally = None
        action = replace(action, tally=action.tally + tally, batch=(), updated_at=self._clock.now())
        if action.has_seen_all and action.latest is not None:
            if await self._put(work, resuming.concluded(action)):
                work.tally = await self._batches.write(work.action)
        elif action.is_canceling or action.has_seen_all:
            await self._end(work, action)
        else:
            await self._next_batch(work, action)

    async def _next_batch(self, work: Work, action: Action) -> None:
        part = Part(descending=False, limit=BATCH, after=action.cursor)
        page = await search(
            self._store.search, action.tenant, action.wanted, part, most_seen=MOST_SEEN
        )
        place = page.stopped_at
        if len(page.timers) == BATCH:
            place = page.timers[-1].created_at, page.timers[-1].id
        found = [timer for timer in page.timers if not carries(timer, action.id)]
        action = replace(action, cursor=place, has_seen_all=place is None)
        if action.dry_run:
            action = replace(action, tally=action.tally + self._batches.judge(action, found))
        elif action.verb == "let go":
            action = resuming.planned(action, found)
        else:
            action = replace(action, batch=tuple(timer.id for timer in found))
        if await self._put(work, action):
            batch = set(action.batch)
            found = [timer for timer in found if timer.id in batch]
            work.tally = await self._batches.write(action, found)

    async def _end(self, work: Work, action: Action) -> None:
        is_canceled = action.is_canceling and not action.has_seen_all
        ended = replace(
            action, state="canceled" if is_canceled else "done", finished_at=self._clock.now()
        )
        if await self._put(work, ended):
            await self._file(work)

    async def _fail(self, work: Work, error: str) -> None:
        now = self._clock.now()
        failed = replace(work.action, state="failed", error=error, updated_at=now, finished_at=now)
        if not work.action.has_ended and await self._put(work, failed):
            await self._file(work)
        else:
            self._forget(work.record.name)

    async def _file(self, work: Work) -> None:
        """Conclude an action that has ended, and take it off the table."""
        await self._conclude(work.action)
        await self._store.put_record(work.record, None)
        self._works.pop(work.record.name, None)
        if (event := self._ends.get(work.action.id)) is not None:
            event.set()

    async def _put(self, work: Work, action: Action) -> bool:
        """Write down how far an action has come; who loses that works on it no more."""
        record = record_of(action, work.record)
        name = record.name
        if not await self._store.put_record(work.record, record):
            self._forget(name)
            return False
        work.record, work.action, work.tally = record, action, None
        self._works[name] = work
        return True

    def _forget(self, name: str) -> None:
        self._works.pop(name, None)
        self.look_soon()
