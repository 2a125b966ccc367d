"""Auditing: who did what, written down before they are told that it is done.

Creates are the exception: they are many, so their lines gather for a moment and are written
together. Whoever kills a node may lose the lines of its last second of creates, and no others; the
timers themselves are there.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Literal, TypeAlias

from duetime import ids
from duetime.admission import MIB, Admission, Marks, hung_up
from duetime.audit_line import AuditLine
from duetime.batcher import Batcher
from duetime.clock import Clock, Millis, sleep
from duetime.errors import StoreError, StoreUnavailable, Unavailable
from duetime.stores import Store
from duetime.tenancy.caller import Caller

log = logging.getLogger("duetime.audit")

# What is written down: everything, all but the creation of timers, or nothing.
Level: TypeAlias = Literal["all", "changes", "off"]

GATHER_FOR = 0.5  # seconds that the lines of creates gather
LARGEST = 1_000  # lines in one write
MOST_GATHERED = 20_000  # beyond this, creates wait for the store
DROP_EVERY = 60.0
DROPPED_AT_ONCE = 5_000

_MARKS = Marks(10_000, 32 * MIB, 10_000, 32 * MIB)
_WEIGHT = 1024  # about the bytes of a line


class Audit:
    """Writes lines."""

    def __init__(
        self, store: Store, clock: Clock, *, level: Level = "all", keep_for: Millis | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._level = level
        self._keep_for = keep_for
        admission = Admission(
            "the database is too slow for all that is to be audited", clock, _MARKS
        )
        self._notes = Batcher(self._write, clock, admission)
        self._gathered: list[AuditLine] = []
        self._last_at: Millis = 0
        self._nth: dict[str, int] = {}  # lines of each tenant since then
        self._writing: asyncio.Task[None] | None = None

    async def note(
        self,
        caller: Caller,
        action: str,
        kind: str,
        target: str,
        *,
        group: str | None = None,
        details: dict[str, object] | None = None,
    ) -> None:
        """Write a line of something that was done; when this returns, it is there."""
        if self._level == "off":
            return
        line = self._line(caller, action, (kind, target), group, details)
        hung_up.set(_never)  # also if nobody waits for the answer any more
        try:
            await self._notes.submit(line, _WEIGHT)
        except Unavailable as error:
            why = f"it was done, but not written into the audit: {error}"
            raise StoreUnavailable(why, told=why) from None

    async def note_create(
        self,
        caller: Caller,
        action: str,
        target: str,
        *,
        group: str | None = None,
        details: dict[str, object] | None = None,
    ) -> None:
        """Write a line soon; this waits only while too many are waiting."""
        if self._level != "all":
            return
        self._gathered.append(self._line(caller, action, ("timer", target), group, details))
        writing = self._start_writing()
        if len(self._gathered) > MOST_GATHERED:
            await asyncio.shield(writing)
        if len(self._gathered) > 2 * MOST_GATHERED:  # memory is bounded, also while the store fails
            log.warning("%d lines of the audit are lost", MOST_GATHERED)
            del self._gathered[:MOST_GATHERED]

    async def step(self) -> float:
        """Drop lines that are too old."""
        if self._gathered:  # since the store was failing
            self._start_writing()
        if self._keep_for is None:
            return DROP_EVERY
        dropped = await self._store.drop_lines(self._clock.now() - self._keep_for, DROPPED_AT_ONCE)
        return 0.1 if dropped == DROPPED_AT_ONCE else DROP_EVERY

    async def close(self) -> None:
        """Write what is still to be written."""
        if self._writing is not None:
            self._writing.cancel()  # a line that is written twice is kept once
            await asyncio.gather(self._writing, return_exceptions=True)
        try:
            while self._gathered:
                await self._write_some()
        except StoreError as error:
            log.warning("%d lines of the audit are lost: %s", len(self._gathered), error)

    def _line(
        self,
        caller: Caller,
        action: str,
        what: tuple[str, str],
        group: str | None,
        details: dict[str, object] | None,
    ) -> AuditLine:
        now = self._clock.now()
        # What is done within one millisecond is told in the order in which it was done here. Each
        # tenant has its own count: a line must not tell what others do meanwhile.
        if now != self._last_at:
            self._last_at, self._nth = now, {}
        nth = self._nth[caller.tenant] = self._nth.get(caller.tenant, -1) + 1
        return AuditLine(
            id=ids.new_id(now, min(nth, ids.SHARDS - 1)),
            tenant=caller.tenant,
            at=now,
            actor=caller.name,
            key=caller.key,
            action=action,
            kind=what[0],
            target=what[1],
            group=group,
            address=caller.address,
            correlation_id=caller.correlation_id,
            details=details or {},
        )

    async def _write(self, lines: Sequence[AuditLine]) -> list[None]:
        await self._store.write_lines(lines, self._keep_for)
        return [None] * len(lines)

    def _start_writing(self) -> asyncio.Task[None]:
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_gathered())
        return self._writing

    async def _write_gathered(self) -> None:
        try:
            if len(self._gathered) < LARGEST:
                await sleep(self._clock, GATHER_FOR)
            while self._gathered:
                await self._write_some()
        except StoreError as error:
            log.warning(
                "%d lines of the audit wait for a store that is failing: %s",
                len(self._gathered),
                error,
            )
        finally:
            self._writing = None

    async def _write_some(self) -> None:
        part, self._gathered = self._gathered[:LARGEST], self._gathered[LARGEST:]
        try:
            await self._store.write_lines(part, self._keep_for)
        except BaseException:
            self._gathered = part + self._gathered
            raise


async def _never() -> None:
    """Wait for ever: the caller does not hang up."""
    await asyncio.Event().wait()
