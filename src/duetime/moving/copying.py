"""A copy: everything of the source, written into the target, and compared on both sides.

It can be stopped at any time, in whatever way, and begun again: timers are inserted by their ids,
with their versions, so that one which is there already is the proof that it has been copied, and a
line of the audit that is written again is kept once. The source is only read.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from duetime.audit_line import AuditLine
from duetime.clock import Clock, Millis
from duetime.errors import ConfigurationError, Conflict, InUse, StoreError
from duetime.moving.checksum import Tally
from duetime.moving.contents import Contents, TimerWithLog
from duetime.moving.differences import FROM, TO, Expiry, differences
from duetime.moving.journal import COPY_KIND, Journal
from duetime.moving.patience import Patience
from duetime.moving.stillness import Stillness
from duetime.stores import Insert, Store
from duetime.stores.portions import portions
from duetime.timer import Event

NOTE_EVERY = 1.0  # seconds after which it is written down how far the copy has come
MOST_EVENTS = 200_000  # they are kept in memory until their timers come along
MOST_NAMED = 10  # timers that a message names

_HEAVIEST = 8 * 1024 * 1024  # bytes, about, that are inserted at once
_LONGEST = 1_000
_ATTEMPT_WEIGHT = 512

LINES = "lines of the audit"  # as the onlooker is told

ANEW = "nothing was overwritten; empty the target and copy again"


class Onlooker(Protocol):
    """Who is told how it goes."""

    def at(self, task: str, count: int, things: str = "timers") -> None:
        """So many timers, or other things, have been copied, or compared."""

    def say(self, sentence: str) -> None:
        """Something that the user should know of."""


class Copy:
    """One store's contents on their way into another."""

    def __init__(
        self,
        source: Store,
        target: Store,
        clock: Clock,
        onlooker: Onlooker,
        *,
        name: str,
        keep_lines_for: Millis | None = None,
    ) -> None:
        self._from_source = Patience(FROM, clock, onlooker.say)
        self._to_target = Patience(TO, clock, onlooker.say)
        self._source = source
        self._target = target
        self._clock = clock
        self._onlooker = onlooker
        self._keep_lines_for = keep_lines_for  # where the target drops lines of the audit by itself
        self._old = Contents(source, self._from_source)
        self._new = Contents(target, self._to_target)
        self._journal = Journal(target, name, self._to_target)
        self._nodes = [
            Stillness(FROM, source, clock, self._from_source),
            Stillness(TO, target, clock, self._to_target),
        ]
        self._noted_at = clock.monotonic()
        self._checked_at = clock.monotonic()
        self.dropped = 0  # timers, logs and lines that one side has dropped by itself since

    async def run(self) -> Tally:
        """Copy and compare; what both sides hold."""
        await self._wait_for_stillness()
        if await self._from_source.ask(self._source.records, COPY_KIND):
            raise ConfigurationError(
                "FROM: a copy into it was begun and has not been finished, so that it holds a part "
                "only: finish that copy first"
            )
        is_resumed = await self._journal.begin()
        if is_resumed:
            timers, lines = self._journal.entry.timers, self._journal.entry.lines
            and_lines = f" and {lines:,} lines of the audit" if lines else ""
            self._onlooker.say(
                f"going on behind {timers:,} timers{and_lines} that are there already"
            )
        if await self._journal.is_in(self._source):
            await self._journal.end()
            raise ConfigurationError("FROM and TO are the same database")
        # Whoever started before the journal was there has a record by now; who comes later is
        # kept out by the journal: see threshold.py.
        try:
            await self._check_stillness()
        except InUse:
            if not is_resumed:  # it has brought nothing yet: the node may stay
                await self._journal.end()
            raise
        await self._copy_records()
        await self._copy_timers()
        await self._copy_lines()
        tally = await self._compare()
        await self._check_stillness()
        await self._journal.end()
        return tally

    async def _wait_for_stillness(self) -> None:
        seconds = [await nodes.begin() for nodes in self._nodes]
        if any(seconds):
            self._onlooker.say(
                f"there are records of nodes: watching for {max(seconds):g} s whether they run"
            )
        await asyncio.gather(
            *(nodes.watch(each) for nodes, each in zip(self._nodes, seconds, strict=True))
        )

    async def _check_stillness(self) -> None:
        for nodes in self._nodes:
            await nodes.check()
        self._checked_at = self._clock.monotonic()

    async def _copy_records(self) -> None:
        """Make the target's records those of the source: they say how its timers are laid out."""
        for kind in dict.fromkeys(await self._old.kinds() + await self._new.kinds()):
            wanted = {each.name: each for each in await self._old.records(kind)}
            stored = {each.name: each for each in await self._new.records(kind)}
            for name in wanted.keys() | stored.keys():
                old, new = stored.get(name), wanted.get(name)
                if old != new:
                    await self._to_target.ask(self._target.put_record, old, new)

    async def _copy_timers(self) -> None:
        events = await self._events()
        done = self._journal.entry.timers
        part = await self._old.timers(self._journal.entry.after)
        while part:
            after = part[-1].timer.id
            # The next part is read while this one is written.
            next_part, _ = await asyncio.gather(self._old.timers(after), self._insert(part, events))
            done += len(part)
            self._onlooker.at("copied", done)
            if not next_part or self._clock.monotonic() - self._noted_at >= NOTE_EVERY:
                await self._journal.advance(after, done)
                self._noted_at = self._clock.monotonic()
                await self._check_stillness()
            part = next_part

    async def _copy_lines(self) -> None:
        entry = self._journal.entry
        done = entry.lines
        last: AuditLine | None = None
        for tenant in await self._old.tenants():
            if entry.tenant is not None and tenant < entry.tenant:
                continue
            part = await self._old.lines(tenant, entry.line if tenant == entry.tenant else None)
            while part:
                last = part[-1]
                next_part, _ = await asyncio.gather(
                    self._old.lines(tenant, last.id),
                    self._to_target.ask(self._target.write_lines, part, self._keep_lines_for),
                )
                done += len(part)
                self._onlooker.at("copied", done, LINES)
                if self._clock.monotonic() - self._noted_at >= NOTE_EVERY:
                    await self._note_lines(last, done)
                part = next_part
        if last is not None:
            await self._note_lines(last, done)

    async def _note_lines(self, last: AuditLine, done: int) -> None:
        await self._journal.advance_lines(last.tenant, last.id, done)
        self._noted_at = self._clock.monotonic()
        await self._check_stillness()

    async def _events(self) -> dict[str, list[Event]]:
        """What is still to be told, by timer: it is written with its timer or not at all."""
        events: dict[str, list[Event]] = {}
        count = 0
        async for part in self._old.events():
            for event in part:
                events.setdefault(event.timer, []).append(event)
            count += len(part)
            if count > MOST_EVENTS:
                raise StoreError(
                    f"FROM: more than {MOST_EVENTS:,} events wait to be published: let a node do "
                    "so first, or drop those that are older than its OUTBOX_RETENTION"
                )
        return events

    async def _insert(self, part: Sequence[TimerWithLog], events: dict[str, list[Event]]) -> None:
        inserts = [
            Insert(timer, tuple(events.get(timer.id, ())), attempts) for timer, attempts in part
        ]
        for few in portions(inserts, _weight, heaviest=_HEAVIEST, longest=_LONGEST):
            answers = await self._to_target.ask(self._target.insert, few)
            others = [
                insert.timer.id
                for insert, stored in zip(few, answers, strict=True)
                if stored is not None and stored != insert.timer
            ]
            if others:
                raise Conflict(_told([f"{id_} differs in the target" for id_ in others]))

    async def _compare(self) -> Tally:
        """Read everything again, on both sides; Conflict names what differs."""
        old, new = await asyncio.gather(self._tally(self._old), self._tally(self._new))
        if old == new:
            return new
        sides = {FROM: self._source, TO: self._target}
        found = await differences(
            self._old,
            self._new,
            MOST_NAMED + 1,
            droppers={side for side, store in sides.items() if store.traits.drops_by_itself},
            expiry=Expiry(self._clock.now(), self._keep_lines_for),
        )
        self.dropped = found.dropped.total()
        if found.named or not self.dropped:
            raise Conflict(_told(found.named or ["something that was not found again"]))
        for side, count in found.dropped.items():
            self._onlooker.say(
                f"{side} drops what is old: {count:,} timers, logs or lines of the audit that "
                f"{TO if side == FROM else FROM} has are no longer, or no longer whole, in {side}; "
                "all else is the same"
            )
        return new

    async def _tally(self, contents: Contents) -> Tally:
        whole = Tally()
        async for tally in contents.tally():
            whole = tally
            if contents is self._new and tally.lines:
                self._onlooker.at("compared", tally.lines, LINES)
            elif contents is self._new:
                self._onlooker.at("compared", tally.timers)
            if self._clock.monotonic() - self._checked_at >= NOTE_EVERY:
                await self._check_stillness()
        return whole


def _weight(insert: Insert) -> int:
    return insert.timer.weight + _ATTEMPT_WEIGHT * len(insert.attempts)


def _told(differing: Sequence[str]) -> str:
    named = "; ".join(differing[:MOST_NAMED])
    more = "; and more" if len(differing) > MOST_NAMED else ""
    return f"FROM and TO do not hold the same: {named}{more} ({ANEW})"
