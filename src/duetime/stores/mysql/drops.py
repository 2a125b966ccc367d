"""What is dropped from MySQL: timers that somebody removes, and those whose retention is over.

The state of a timer is locked first, as by every change of it; then all that is the timer's goes,
in one transaction of two round trips.
"""

from collections.abc import Collection, Sequence

from duetime import ids
from duetime.clock import Millis
from duetime.stores.mysql import statements
from duetime.stores.mysql.disentangling import disentangled
from duetime.stores.mysql.literals import in_shards
from duetime.stores.mysql.session import Session
from duetime.stores.mysql.writes import LONGEST
from duetime.stores.portions import parts
from duetime.timer import Timer


async def remove(session: Session, timers: Sequence[Timer]) -> list[bool]:
    """Drop timers that are still as they were read: tell for each whether it was."""
    removed = [False] * len(timers)
    placed = sorted(enumerate(timers), key=lambda each: each[1].id)
    for part in parts(placed, LONGEST):
        for place in await _remove_part(session, part):
            removed[place] = True
    return removed


async def _remove_part(session: Session, part: Sequence[tuple[int, Timer]]) -> list[int]:
    wanted = list(dict.fromkeys(timer.id for _, timer in part))

    async def work() -> list[int]:
        _, locked = await session.ask(b"BEGIN", statements.locking(wanted))
        versions = {ids.from_bytes(id_): version for id_, version in locked.rows}
        winners: dict[str, int] = {}
        for place, timer in part:
            if versions.get(timer.id) == timer.version:
                winners.setdefault(timer.id, place)  # twice in one batch, it is dropped once
        await session.ask(*statements.dropping(list(winners)), b"COMMIT")
        return list(winners.values())

    return await disentangled(session, work)


async def purge(session: Session, shards: Collection[int], before: Millis, limit: int) -> int:
    """Drop finished timers that are kept for the usual time; how many."""
    return await _drop_found(session, doomed(shards, before, limit))


def doomed(shards: Collection[int], before: Millis, limit: int) -> str:
    """The query for what may be dropped, but for those that have a retention of their own."""
    return (
        f"SELECT id FROM states FORCE INDEX (states_finished) WHERE finished_at < {before}"
        f"{in_shards(shards)} ORDER BY finished_at LIMIT {limit}"
    )


async def drop_outlived(session: Session, shards: Collection[int], now: Millis, limit: int) -> int:
    """Drop finished timers whose own retention is over; how many."""
    return await _drop_found(session, outlived(shards, now, limit))


def outlived(shards: Collection[int], now: Millis, limit: int) -> str:
    """The query for what has outlived a retention of its own."""
    return (
        "SELECT s.id FROM retentions r FORCE INDEX (retentions_drop) STRAIGHT_JOIN states s "
        f"ON s.id = r.id AND s.version = r.version WHERE r.drop_at <= {now}"
        f"{in_shards(shards, 'r.shard')} ORDER BY r.drop_at LIMIT {limit}"
    )


async def _drop_found(session: Session, query: str) -> int:
    """Drop what a query finds; those that somebody is changing are left for next time."""

    async def work() -> int:
        _, found = await session.ask(b"BEGIN", query + session.dialect.locking_what_is_free)
        theirs = [ids.from_bytes(id_) for (id_,) in sorted(found.rows)]
        await session.ask(*statements.dropping(theirs), b"COMMIT")
        return len(theirs)

    return await disentangled(session, work)
