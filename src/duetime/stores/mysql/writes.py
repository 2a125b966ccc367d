"""What is written to MySQL: a transaction for a whole batch, in one round trip or two.

A batch of new timers goes out whole, commit and all, for as a rule nobody has their keys. If
somebody has, the server stops there, and the rest is inserted with care. Changes need two trips:
the first locks the rows and tells who wins, the second writes what the winners bring.

Rows are locked in the order of the batch, so every batch is sorted: of two that meet, one waits for
the other. Should two wait for each other nevertheless, the server rolls one of them back, and it is
tried again: as if it had come a little later.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

import msgspec
from asyncmy import errors

from duetime import ids
from duetime.errors import StoreUnavailable
from duetime.stores import Change, Insert, Record
from duetime.stores.inserting import Placed, Way, insert_all, owners_of
from duetime.stores.mysql import reads, statements
from duetime.stores.mysql.disentangling import MOST_TRIES, disentangled
from duetime.stores.mysql.errors import DUPLICATE, ENTANGLED, number_of
from duetime.stores.mysql.literals import data, listed, text, uuid, uuids
from duetime.stores.mysql.session import Session
from duetime.stores.portions import portions
from duetime.stores.waves import insert_waves, waves
from duetime.timer import Timer

LONGEST = 1_000  # timers in a transaction
_HEAVIEST = 16 * 1024 * 1024  # bytes in a packet, unless the server takes less
_FRAME = 4096  # bytes of it that are not rows


class _New(msgspec.Struct):
    """A timer to insert, as it will be written."""

    place: int
    timer: Timer
    row: bytes
    state: bytes
    tags: list[bytes]
    events: list[bytes]
    retention: list[bytes]  # of its own, if it has finished

    @classmethod
    def of(cls, place: int, insert: Insert) -> "_New":
        timer = insert.timer
        return cls(
            place,
            timer,
            statements.timer_row(timer),
            statements.state_row(timer),
            statements.tag_rows(timer),
            statements.event_rows(insert.events),
            statements.retention_rows(timer),
        )

    @property
    def size(self) -> int:
        """Bytes, with what a statement of its own would add."""
        rows = (self.row, self.state, *self.tags, *self.events, *self.retention)
        return sum(map(len, rows)) + len(rows) + 256


class _Changed(msgspec.Struct):
    """A change to make, as it will be written."""

    place: int
    change: Change
    state: bytes
    row: bytes | None  # where what the user asked for has changed
    attempt: bytes | None
    events: list[bytes]
    tags: list[bytes] | None  # where they have changed
    retention: list[bytes]  # of its own, if it has finished

    @classmethod
    def of(cls, place: int, change: Change) -> "_Changed":
        old, new = change.old, change.new
        return cls(
            place,
            change,
            statements.state_row(new),
            statements.timer_row(new) if change.is_rewriting else None,
            None if change.attempt is None else statements.attempt_row(change.attempt),
            statements.event_rows(change.events),
            statements.tag_rows(new) if new.spec.tags != old.spec.tags else None,
            statements.retention_rows(new),
        )

    @property
    def size(self) -> int:
        """Bytes."""
        beside = (*self.events, *(self.tags or ()), *self.retention)
        rows = (self.state, self.row or b"", self.attempt or b"", *beside)
        return sum(map(len, rows)) + len(rows) + 64

    @property
    def is_begun_anew(self) -> bool:
        """Whether it had finished, with a retention of its own, and has none any more."""
        return not self.retention and self.change.old.drop_at is not None


_InsertPart: TypeAlias = Callable[[Session, Sequence[_New]], Awaitable[set[int]]]


# Inserting ------------------------------------------------------------------------------------


async def insert(session: Session, inserts: Sequence[Insert]) -> list[Timer | None]:
    """Store timers: per timer None, or the one that was there."""
    rows = [_New.of(place, each) for place, each in enumerate(inserts)]
    _check_sizes(session, rows)
    await _log(session, inserts)

    def by(insert_part: _InsertPart) -> Way:
        async def way(left: list[Placed]) -> set[int]:
            written: set[int] = set()
            firsts = [rows[place] for place, _ in next(insert_waves(left), [])]
            firsts.sort(key=lambda new: _key(new.timer))
            for part in _split(session, firsts):
                written |= await insert_part(session, part)
            return written

        return way

    async def owners(timers: Sequence[Timer]) -> list[Timer | None]:
        return await owners_of(
            timers, partial(reads.get, session), partial(reads.get_by_key, session)
        )

    ways = (by(_insert_whole), *[by(_insert_with_care)] * MOST_TRIES)
    return await insert_all(inserts, ways, owners, "MySQL")


async def _insert_whole(session: Session, part: Sequence[_New]) -> set[int]:
    """Insert all of them or none; return the places of those that were stored."""
    try:
        await session.ask(
            b"BEGIN",
            statements.inserting_timers([new.row for new in part]),
            *_beside(session, part),
            b"COMMIT",
        )
    except errors.MySQLError as error:
        if number_of(error) != DUPLICATE and number_of(error) not in ENTANGLED:
            raise
        await session.ask(b"ROLLBACK")
        return set()
    return {new.place for new in part}


async def _insert_with_care(session: Session, part: Sequence[_New]) -> set[int]:
    """Insert those whose key and id are free, each by a statement that tells; return places."""

    async def work() -> set[int]:
        _, *answers = await session.ask(
            b"BEGIN", *(statements.inserting_if_free(new.row) for new in part)
        )
        stored = [new for new, answer in zip(part, answers, strict=True) if answer.affected]
        await session.ask(*_beside(session, stored), b"COMMIT")
        return {new.place for new in stored}

    return await disentangled(session, work)


def _beside(session: Session, stored: Sequence[_New]) -> list[bytes]:
    """The statements that write all else of timers that were stored."""
    if not stored:
        return []
    dialect = session.dialect
    return [
        statements.inserting_states([new.state for new in stored]),
        *statements.retaining([row for new in stored for row in new.retention], dialect),
        *statements.inserting_tags([tag for new in stored for tag in new.tags]),
        *statements.inserting_events([event for new in stored for event in new.events]),
    ]


async def _log(session: Session, inserts: Sequence[Insert]) -> None:
    """Write the attempts that timers bring along."""
    rows = [statements.attempt_row(each) for insert in inserts for each in insert.attempts]
    for part in portions(rows, len, heaviest=room(session), longest=LONGEST):
        await session.ask(*statements.logging(part, session.dialect))


# Changing -------------------------------------------------------------------------------------


async def apply(session: Session, changes: Sequence[Change]) -> list[bool]:
    """Compare and set: tell for each change whether it was written."""
    won = [False] * len(changes)
    for wave in waves(changes):
        changed = [_Changed.of(place, change) for place, change in wave]
        _check_sizes(session, changed)
        changed.sort(key=lambda each: each.change.old.id)
        for part in _split(session, changed):
            for place in await _apply_part(session, part):
                won[place] = True
    return won


async def _apply_part(session: Session, part: Sequence[_Changed]) -> list[int]:
    wanted = [each.change.old.id for each in part]

    async def work() -> list[int]:
        _, locked = await session.ask(b"BEGIN", statements.locking(wanted))
        versions = {ids.from_bytes(id_): version for id_, version in locked.rows}
        winners = [
            each for each in part if versions.get(each.change.old.id) == each.change.old.version
        ]
        await session.ask(*_bringing(session, winners), b"COMMIT")
        return [each.place for each in winners]

    return await disentangled(session, work)


def _bringing(session: Session, winners: Sequence[_Changed]) -> list[bytes]:
    """The statements that write what the winners bring."""
    if not winners:
        return []
    dialect = session.dialect
    return [
        statements.moving([each.state for each in winners], dialect),
        *statements.rewriting([each.row for each in winners if each.row is not None], dialect),
        *statements.logging(
            [each.attempt for each in winners if each.attempt is not None], dialect
        ),
        *statements.inserting_events([event for each in winners for event in each.events]),
        *statements.untagging([each.change.old.id for each in winners if each.tags is not None]),
        *statements.inserting_tags([tag for each in winners for tag in each.tags or ()]),
        *statements.retaining([row for each in winners for row in each.retention], dialect),
        *statements.releasing([each.change.old.id for each in winners if each.is_begun_anew]),
    ]


# The rest -------------------------------------------------------------------------------------


async def published(session: Session, told: Sequence[str]) -> None:
    """Forget these events."""
    if known := uuids(told):

        async def work() -> None:
            await session.ask(f"DELETE FROM events WHERE id IN {listed(map(uuid, known))}")

        await disentangled(session, work)


async def put_record(session: Session, old: Record | None, new: Record | None) -> bool:
    """Store, replace or remove a document, if the stored one is still the old one."""
    record = new or old
    if record is None:
        return False
    place = f"kind = {text(record.kind)} AND name = {text(record.name)}"
    if old is None:
        statement = (
            "INSERT INTO records (kind, name, version, writes, data) VALUES "
            f"({text(record.kind)}, {text(record.name)}, {record.version}, 1, {data(record.data)}) "
            "ON DUPLICATE KEY UPDATE name = name"
        )
    elif new is None:
        statement = f"DELETE FROM records WHERE {place} AND version = {old.version}"
    else:
        statement = (
            f"UPDATE records SET version = {new.version}, writes = writes + 1, "
            f"data = {data(new.data)} WHERE {place} AND version = {old.version}"
        )

    async def work() -> bool:
        [answer] = await session.ask(statement)
        return answer.affected > 0

    return await disentangled(session, work)


# Helpers --------------------------------------------------------------------------------------


def room(session: Session) -> int:
    """Bytes of rows that fit into a packet."""
    return min(session.largest, _HEAVIEST) - _FRAME


_Written = TypeVar("_Written", _New, _Changed)


def _split(session: Session, written: Sequence[_Written]) -> Iterator[list[_Written]]:
    """Parts that fit into a packet each."""
    return portions(written, lambda each: each.size, heaviest=room(session), longest=LONGEST)


def _check_sizes(session: Session, written: Sequence[_Written]) -> None:
    """Refuse what the server would not take, before anything is written."""
    largest = max((each.size for each in written), default=0)
    if largest > session.largest - _FRAME:
        raise StoreUnavailable(
            f"MySQL: a timer of {largest:,} bytes does not fit into max_allowed_packet, which is "
            f"{session.largest:,}: raise it on the server, or lower the limits of requests"
        )


def _key(timer: Timer) -> tuple[str, str, str]:
    return timer.tenant, timer.group, timer.timer_id
