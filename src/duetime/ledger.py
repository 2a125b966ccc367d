"""The ledger is the store as the use cases see it: bounded, and sure of what was written.

Writes share their calls to the store, creates and changes apart, and both wait and are refused as
their admissions say. Where a write failed, the ledger reads again and tells what became of it;
where it cannot, it says so: ``Unavailable`` means that nothing was written, ``StoreUnavailable``
that nobody knows.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import ParamSpec, TypeVar

import msgspec

from duetime.admission import MIB, Admission, Marks, Room
from duetime.audit_line import AuditLine
from duetime.batcher import Batcher
from duetime.clock import Clock
from duetime.errors import StoreError, StoreUnavailable, Unanswered, Unavailable, not_known
from duetime.reads import Reads, tried
from duetime.stores import Change, Insert, Key, Page, Query, Store
from duetime.timer import LIGHTEST, Attempt, Timer

P = ParamSpec("P")
AnswerT = TypeVar("AnswerT")

# Two batches of the largest size, and what a store writes in some seconds.
CREATES = Marks(20_000, 64 * MIB, 40_000, 64 * MIB)

# Their own, so that they get through while creates are refused; they are fewer.
CHANGES = Marks(10_000, 32 * MIB, 10_000, 32 * MIB)

# A read counts as many as the timers that it may answer with: hundreds of look-ups, few long lists.
# What it will weigh is not known before.
READS = Marks(2_000, 1, 10_000, 1)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of each may be under way."""

    creates: Marks = CREATES
    changes: Marks = CHANGES
    reads: Marks = READS


DEFAULT_LIMITS = Limits()


class Ledger:
    """Reads and writes timers, within bounds."""

    def __init__(self, store: Store, clock: Clock, limits: Limits) -> None:
        self._store = store
        slow = "the database is too slow for all that is to be"
        self.creates = Admission(f"{slow} created", clock, limits.creates)
        changes = Admission(f"{slow} changed", clock, limits.changes)
        self._inserts = Batcher(store.insert, clock, self.creates)
        self._applies = Batcher(store.apply, clock, changes)
        self._reads = Reads(clock, Admission(f"{slow} read", clock, limits.reads))
        # Those that a change begins with: whoever lists timers must not keep a cancel out.
        self._looks = Reads(clock, Admission(f"{slow} changed", clock, limits.reads))
        self._pinging: asyncio.Task[None] | None = None

    # Writing ----------------------------------------------------------------------------------

    def check_creates(self) -> None:
        """Refuse at once if more creates than may wait do so already."""
        self.creates.check()

    async def room_for(self, count: int, size: int) -> Room:
        """Take room for so many timers to create, that came in so many bytes."""
        return await self.creates.enter(count, size + count * LIGHTEST)

    async def insert(self, timer: Timer) -> Timer | None:
        """Write a new timer; the answer is the one that has its key already, if there is one."""
        try:
            return await self._inserts.submit(Insert(timer), timer.weight)
        except StoreUnavailable as doubt:
            return await self._what_was_inserted(timer, doubt)

    async def insert_many(
        self, timers: list[Timer], room: Room
    ) -> Sequence[Timer | Unavailable | None]:
        """Write many new timers at once; the room that was taken for them is left for them."""
        if not timers:
            room.leave()
            return []
        inserts = [Insert(timer) for timer in timers]
        try:
            return await self._inserts.write_apart(inserts, room)
        except StoreUnavailable as doubt:
            wanted = [timer.id for timer in timers]
            found = await self._look_again(doubt, len(wanted), self._store.get, wanted)
            return [_nothing_written() if timer is None else None for timer in found]

    async def apply(self, change: Change) -> bool:
        """Write a change; tells whether it won."""
        try:
            return await self._applies.submit(change, change.new.weight)
        except StoreUnavailable as doubt:
            [stored] = await self._look_again(doubt, 1, self._store.get, [change.old.id])
            if stored is not None and stored.version == change.old.version:
                raise _nothing_written() from None
            if stored is None or stored.version > change.new.version:
                why = not_known("the timer has changed again since")
                raise StoreUnavailable(why, told=why) from None
            return stored == change.new

    # Reading ----------------------------------------------------------------------------------

    async def get(self, id_: str, tenant: str) -> Timer | None:
        """The timer of this tenant with this id."""
        [timer] = await tried(self._reads.read(1, self._store.get, [id_], tenant))
        return timer

    async def get_by_key(self, keys: Sequence[Key]) -> list[Timer | None]:
        """The timers with these keys."""
        return await tried(self._reads.read(len(keys), self._store.get_by_key, keys))

    async def search(self, query: Query) -> Page:
        """A page of timers."""
        return await tried(self._reads.read(query.limit, self._store.search, query))

    async def attempts(self, id_: str, after: tuple[int, int] | None, limit: int) -> list[Attempt]:
        """A timer's execution log."""
        return await tried(self._reads.read(1, self._store.attempts, id_, after, limit))

    async def lines(
        self, tenant: str, after: str | None, limit: int, *, descending: bool
    ) -> list[AuditLine]:
        """A tenant's lines of the audit."""
        read = self._reads.read(
            limit, self._store.lines, tenant, after, limit, descending=descending
        )
        return await tried(read)

    async def get_for_change(self, which: str | Key, tenant: str) -> Timer | None:
        """The timer of this tenant with this id or key, for somebody who is going to change it."""
        if isinstance(which, Key):
            [timer] = await tried(self._looks.read(1, self._store.get_by_key, [which]))
        else:
            [timer] = await tried(self._looks.read(1, self._store.get, [which], tenant))
        return timer

    async def ping(self) -> None:
        """Ask the store for a sign of life; those who ask at once share the question."""
        if self._pinging is None or self._pinging.done():
            self._pinging = asyncio.create_task(self._store.ping())
            self._pinging.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._pinging)

    # After a write that failed ----------------------------------------------------------------

    async def _what_was_inserted(self, timer: Timer, doubt: StoreUnavailable) -> Timer | None:
        """None if the insert landed after all; otherwise who has the key, or Unavailable."""
        [stored] = await self._look_again(doubt, 1, self._store.get, [timer.id])
        if stored is not None:
            return None
        [holder] = await self._look_again(doubt, 1, self._store.get_by_key, [Key.of(timer)])
        if holder is None:
            raise _nothing_written()
        return holder

    async def _look_again(
        self,
        doubt: StoreUnavailable,
        count: int,
        call: Callable[P, Awaitable[AnswerT]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> AnswerT:
        """Read what a write may have changed, unless that still may: then nothing is proved."""
        if isinstance(doubt, Unanswered):
            raise doubt
        try:
            return await self._looks.read(count, call, *args, **kwargs)
        except StoreError as error:
            raise StoreUnavailable(not_known(str(error))) from error


def _nothing_written() -> Unavailable:
    return Unavailable("the database did not take the change; nothing was written, try again")
