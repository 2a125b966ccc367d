"""What is read from MySQL: one statement, and one round trip, for each question."""

from collections.abc import Collection, Sequence

from duetime import ids
from duetime.clock import Millis
from duetime.stores import Due, Key, Record, Waking
from duetime.stores.codec import decode_event
from duetime.stores.mysql.literals import in_shards, listed, text, uuid, uuids
from duetime.stores.mysql.rows import NAMES, attempt_of, timer_of, waking_of
from duetime.stores.mysql.session import Session
from duetime.stores.portions import parts, portions
from duetime.timer import Attempt, Event, Timer

# Timers in one answer: so many, or as many as have this weight together.
_LONGEST = 1_000
_FEW = 64
_PORTION = 16 * 1024 * 1024

# Found in the one and read from the other, in this order, whatever the planner thinks of it.
WHOLE = f"SELECT {NAMES}, s.progress, t.spec FROM timers t STRAIGHT_JOIN states s ON s.id = t.id"
_BY_ID = WHOLE.replace("timers t", "timers t FORCE INDEX (PRIMARY)")
_BY_KEY = WHOLE.replace("timers t", "timers t FORCE INDEX (timers_key)")

PINGING = "SELECT number FROM schema_history LIMIT 1"


async def ping(session: Session) -> None:
    """Reach the tables: a database that was dropped or is not ours does not answer."""
    await session.rows(PINGING)


async def get(
    session: Session, asked: Sequence[str], tenant: str | None = None
) -> list[Timer | None]:
    """Timers by id, of one tenant or of all, one answer for each that was asked for."""
    found: dict[str, Timer] = {}
    for part in await _portions(session, uuids(asked)):
        for row in await session.rows(getting(part, tenant)):
            timer = timer_of(row)
            found[timer.id] = timer
    return [found.get(id_) for id_ in asked]


def getting(part: Sequence[str], tenant: str | None = None) -> str:
    """The statement that reads timers by their ids."""
    owner = "" if tenant is None else f" AND t.tenant = {text(tenant)}"
    return f"{_BY_ID} WHERE t.id IN {listed(map(uuid, part))}{owner}"


async def _portions(session: Session, asked: list[str]) -> Sequence[list[str]]:
    """Split what was asked for, so that no answer is too large; the unknown fall out."""
    if len(asked) <= _FEW:
        return [asked] if asked else []
    weights: dict[str, int] = {}
    for part in portions(asked, len, heaviest=_PORTION, longest=_LONGEST):
        rows = await session.rows(weighing(part))
        weights.update((ids.from_bytes(id_), weight) for id_, weight in rows)
    return list(portions(weights, weights.__getitem__, heaviest=_PORTION, longest=_LONGEST))


def weighing(part: Sequence[str]) -> str:
    """The statement that reads how heavy timers are."""
    return (
        "SELECT id, weight FROM states FORCE INDEX (PRIMARY) "
        f"WHERE id IN {listed(map(uuid, part))} ORDER BY id"
    )


async def get_by_key(session: Session, keys: Sequence[Key]) -> list[Timer | None]:
    """Timers by key, one answer for each that was asked for."""
    names = [(key.tenant, key.group, key.timer_id) for key in keys]
    found: dict[tuple[str, str, str], Timer] = {}
    for part in parts(list(dict.fromkeys(names)), _FEW):
        for row in await session.rows(getting_by_key(part)):
            timer = timer_of(row)
            found[timer.tenant, timer.group, timer.timer_id] = timer
    return [found.get(name) for name in names]


def getting_by_key(names: Sequence[tuple[str, str, str]]) -> str:
    """The statement that reads timers by their keys."""
    wanted = " OR ".join(
        f"(t.tenant = {text(tenant)} AND t.`group` = {text(group)} AND t.timer_id = {text(id_)})"
        for tenant, group, id_ in names
    )
    return f"{_BY_KEY} WHERE {wanted}"


async def due(
    session: Session, shards: Collection[int], after: Due | None, before: Millis, limit: int
) -> list[Waking]:
    """What wakes up until then, in order."""
    return [waking_of(row) for row in await session.rows(waking(shards, after, before, limit))]


def waking(shards: Collection[int], after: Due | None, before: Millis, limit: int) -> str:
    """The due query: a stretch of one index, which holds all that is asked for."""
    where = f"wake_at <= {before}"
    if after is not None:
        # As two stretches: a comparison of pairs would be read from the start of its time.
        at, id_ = after
        behind = f"wake_at = {at} AND id > {uuid(ids.bound(id_))}"
        where = f"({behind} AND {where} OR wake_at > {at} AND {where})"
    return (
        "SELECT wake_at, id, version, weight, status FROM states FORCE INDEX (states_due) "
        f"WHERE {where}{in_shards(shards)} ORDER BY wake_at, id LIMIT {limit}"
    )


async def scan(session: Session, after: str | None, limit: int) -> list[Timer]:
    """Every timer, by id: as many as make up one answer."""
    lines = {
        ids.from_bytes(id_): weight for id_, weight in await session.rows(scanning(after, limit))
    }
    for part in portions(lines, lines.__getitem__, heaviest=_PORTION, longest=_LONGEST):
        rows = await session.rows(f"{getting(part)} ORDER BY t.id")
        # None, if all of them were dropped meanwhile: that is not the end.
        return [timer_of(row) for row in rows] or await scan(session, part[-1], limit)
    return []


def scanning(after: str | None, limit: int) -> str:
    """The statement that reads on from an id: what comes, and how heavy it is."""
    return (
        "SELECT id, weight FROM states FORCE INDEX (PRIMARY) "
        f"WHERE id > {uuid(ids.bound(after or ''))} ORDER BY id LIMIT {limit}"
    )


async def attempts(
    session: Session, timer: str, after: tuple[int, int] | None, limit: int
) -> list[Attempt]:
    """A timer's execution log, in order."""
    if not uuids([timer]):
        return []
    return [
        attempt_of(timer, row) for row in await session.rows(reading_attempts(timer, after, limit))
    ]


def reading_attempts(timer: str, after: tuple[int, int] | None, limit: int) -> str:
    """The statement that reads a log."""
    where = f"timer = {uuid(timer)}"
    if after is not None:
        occurrence, attempt = after
        where += (
            f" AND (occurrence = {occurrence} AND attempt > {attempt} OR occurrence > {occurrence})"
        )
    return (
        "SELECT occurrence, attempt, node, started_at, finished_at, next_at, outcome "
        f"FROM attempts WHERE {where} ORDER BY occurrence, attempt LIMIT {limit}"
    )


async def events(
    session: Session, shards: Collection[int], after: str | None, limit: int
) -> list[Event]:
    """What is still to be told, by id."""
    rows = await session.rows(reading_events(shards, after, limit))
    return [decode_event(row[0]) for row in rows]


def reading_events(shards: Collection[int], after: str | None, limit: int) -> str:
    """The statement that reads events."""
    return (
        "SELECT body FROM events FORCE INDEX (PRIMARY) "
        f"WHERE id > {uuid(ids.bound(after or ''))}{in_shards(shards)} ORDER BY id LIMIT {limit}"
    )


async def records(session: Session, kind: str) -> list[Record]:
    """Every document of a kind, by name."""
    rows = await session.rows(
        f"SELECT name, version, data FROM records WHERE kind = {text(kind)} ORDER BY name"
    )
    return [
        Record(kind=kind, name=name.decode(), version=version, data=data)
        for name, version, data in rows
    ]
