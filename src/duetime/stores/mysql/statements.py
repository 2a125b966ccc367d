"""The statements that write: what a row of each table is made of, and what is made of rows."""

from collections.abc import Sequence

from duetime import ids
from duetime.stores.codec import progress_text, to_json
from duetime.stores.mysql.dialect import Dialect
from duetime.stores.mysql.literals import (
    content,
    listed,
    number_or_null,
    text,
    text_or_null,
    uuid,
)
from duetime.timer import Attempt, Event, Timer

TIMER = (
    *("id", "tenant", "`group`", "timer_id", "execute_at", "created_at", "fingerprint"),
    *("name", "correlation_id", "spec"),
)
REWRITTEN = ("execute_at", "fingerprint", "name", "correlation_id", "spec")
STATE = (
    *("id", "wake_at", "updated_at", "executed_at", "finished_at", "version", "weight"),
    *("shard", "status", "tenant", "progress"),
)
MOVED = (
    *("wake_at", "updated_at", "executed_at", "finished_at", "version", "weight"),
    *("status", "progress"),
)
ATTEMPT = (
    *("timer", "occurrence", "attempt", "started_at", "finished_at", "next_at"),
    *("node", "outcome"),
)
RETENTION = ("id", "drop_at", "shard", "version")

# Whoever is there stays as he is, and is not counted.
_OR_NOT = " ON DUPLICATE KEY UPDATE id = id"


def timer_row(timer: Timer) -> bytes:
    """What the user asked for."""
    spec = timer.spec
    return (
        f"({uuid(timer.id)},{text(timer.tenant)},{text(timer.group)},{text(timer.timer_id)},"
        f"{timer.execute_at},{timer.created_at},{text_or_null(timer.fingerprint)},"
        f"{text_or_null(spec.name)},{text(spec.correlation_id)},{content(to_json(spec))})"
    ).encode()


def state_row(timer: Timer) -> bytes:
    """How far it has come. Who has a retention of its own is not found by when it finished."""
    is_kept_as_usual = timer.is_over and timer.spec.retention is None
    finished_at = timer.updated_at if is_kept_as_usual else None
    return (
        f"({uuid(timer.id)},{number_or_null(timer.wake_at)},{timer.updated_at},"
        f"{number_or_null(timer.executed_at)},{number_or_null(finished_at)},{timer.version},"
        f"{timer.weight},{timer.shard},'{timer.status.value}',{text(timer.tenant)},"
        f"{text(progress_text(timer.progress))})"
    ).encode()


def tag_rows(timer: Timer) -> list[bytes]:
    """What it is found by."""
    return [
        f"({text(timer.tenant)},{text(tag)},{uuid(timer.id)})".encode()
        for tag in sorted(set(timer.spec.tags))
    ]


def event_rows(events: Sequence[Event]) -> list[bytes]:
    """What is to be told of it."""
    return [
        f"({uuid(event.id)},{ids.shard_of(event.id)},{text(to_json(event))})".encode()
        for event in events
    ]


def attempt_row(attempt: Attempt) -> bytes:
    """A line of its log."""
    return (
        f"({uuid(attempt.timer)},{attempt.occurrence},{attempt.attempt},{attempt.started_at},"
        f"{attempt.finished_at},{number_or_null(attempt.next_at)},{text(attempt.node)},"
        f"{text(to_json(attempt.outcome))})"
    ).encode()


def retention_rows(timer: Timer) -> list[bytes]:
    """Until when it is kept, if it has finished and says so itself."""
    if timer.drop_at is None:
        return []
    return [f"({uuid(timer.id)},{timer.drop_at},{timer.shard},{timer.version})".encode()]


def inserting_timers(rows: Sequence[bytes]) -> bytes:
    """It fails if a key or an id is taken."""
    return _inserting("timers", TIMER, rows)


def inserting_if_free(row: bytes) -> bytes:
    """It counts one row if the key and the id were free, and else none."""
    return inserting_timers([row]) + _OR_NOT.encode()


def inserting_states(rows: Sequence[bytes]) -> bytes:
    """The states of new timers."""
    return _inserting("states", STATE, rows)


def inserting_tags(rows: Sequence[bytes]) -> list[bytes]:
    """Tags; none is a statement less."""
    if not rows:
        return []
    columns = ("tenant", "tag", "timer")
    return [_inserting("tags", columns, rows) + b" ON DUPLICATE KEY UPDATE tag = tag"]


def inserting_events(rows: Sequence[bytes]) -> list[bytes]:
    """Events; none is a statement less."""
    if not rows:
        return []
    return [_inserting("events", ("id", "shard", "body"), rows) + _OR_NOT.encode()]


def logging(rows: Sequence[bytes], dialect: Dialect) -> list[bytes]:
    """Attempts; none is a statement less."""
    if not rows:
        return []
    return [_inserting("attempts", ATTEMPT, rows) + dialect.upsert(ATTEMPT[3:]).encode()]


def moving(rows: Sequence[bytes], dialect: Dialect) -> bytes:
    """The states of timers that are there, and locked: they are overwritten."""
    return _inserting("states", STATE, rows) + dialect.upsert(MOVED).encode()


def rewriting(rows: Sequence[bytes], dialect: Dialect) -> list[bytes]:
    """Timers that are there, and whose states are locked; none is a statement less."""
    if not rows:
        return []
    return [inserting_timers(rows) + dialect.upsert(REWRITTEN).encode()]


def untagging(timers: Sequence[str]) -> list[bytes]:
    """Take all tags off; no timer is a statement less."""
    if not timers:
        return []
    return [f"DELETE FROM tags WHERE timer IN {listed(map(uuid, timers))}".encode()]


def retaining(rows: Sequence[bytes], dialect: Dialect) -> list[bytes]:
    """Retentions of timers' own; none is a statement less."""
    if not rows:
        return []
    return [_inserting("retentions", RETENTION, rows) + dialect.upsert(RETENTION[1:]).encode()]


def releasing(timers: Sequence[str]) -> list[bytes]:
    """Take them away from timers that go on; no timer is a statement less."""
    if not timers:
        return []
    return [f"DELETE FROM retentions WHERE id IN {listed(map(uuid, timers))}".encode()]


def dropping(timers: Sequence[str]) -> list[bytes]:
    """Drop timers whose states are locked, with all that is theirs; none is no statement."""
    if not timers:
        return []
    theirs = listed(map(uuid, timers))
    return [
        f"DELETE FROM {table} WHERE {column} IN {theirs}".encode()
        for table, column in (
            *(("attempts", "timer"), ("tags", "timer"), ("retentions", "id")),
            *(("timers", "id"), ("states", "id")),
        )
    ]


def inserting_lines(rows: Sequence[bytes]) -> bytes:
    """Lines of the audit; those that are there stay."""
    return _inserting("audit_lines", ("id", "tenant", "body"), rows) + _OR_NOT.encode()


def locking(timers: Sequence[str]) -> str:
    """Lock the states of these timers, in the order of their ids, and tell their versions."""
    return (
        "SELECT id, version FROM states FORCE INDEX (PRIMARY) "
        f"WHERE id IN {listed(map(uuid, timers))} ORDER BY id FOR UPDATE"
    )


def _inserting(table: str, columns: tuple[str, ...], rows: Sequence[bytes]) -> bytes:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ".encode() + b",".join(rows)
