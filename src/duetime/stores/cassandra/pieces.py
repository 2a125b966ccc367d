"""Pieces: what is written for one timer, all or nothing, and how to tell that it lost.

Many pieces of one shard share a conditional batch. If one of them lost, none was written: the
answer names what was found instead, and each piece can tell from that whether it was the one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from duetime.clock import Millis
from duetime.stores import Change, Due, Insert, Waking
from duetime.stores.cassandra import statements as cql
from duetime.stores.cassandra.rows import (
    ATTEMPT,
    DUE,
    EVENT,
    FINISHED,
    KEY,
    LATE,
    Ended,
    attempt_body,
    key_of,
    number_of,
    spec_columns,
    state_of,
)
from duetime.stores.cassandra.session import Step
from duetime.stores.codec import to_json
from duetime.timer import FINISHED as ENDED
from duetime.timer import Attempt, Event, Status, Timer

_MOST_SECONDS = 20 * 365 * 24 * 3600  # the longest time to live that Cassandra takes
_OVERHEAD = 1_000  # bytes of a timer's rows beside its spec


class Ground(NamedTuple):
    """What a writer knows of a partition."""

    shard: int
    epoch: int | None = None  # None: nobody ever wrote there
    floor: Due | None = None  # below it, nothing is put among what is due any more
    head: Due | None = None  # below it, nothing that is due is left

    def kind_of(self, place: Due) -> int:
        """Where a line of what is due is put."""
        return DUE if self.floor is None or place >= self.floor else LATE

    def kinds_of(self, place: Due) -> tuple[int, ...]:
        """Where it may have been put, when the floor was this or lower."""
        if self.floor is None or place >= self.floor:
            return (DUE,)
        return (LATE,) if self.head is not None and place < self.head else (DUE, LATE)


class Found(NamedTuple):
    """What a batch that was not written found in the partition."""

    versions: Mapping[str, int]  # of timers
    keys: Mapping[str, str]  # whose they are


class Piece(Protocol):
    """What is written for one timer."""

    @property
    def touches(self) -> tuple[str, ...]:
        """The ids and keys that no other piece of its batch may touch."""
        ...

    @property
    def weight(self) -> int:
        """About how many bytes are sent for it."""
        ...

    def steps(self, ground: Ground) -> Iterator[Step]:
        """What to write."""
        ...

    def has_lost(self, found: Found) -> bool:
        """Tell whether it was this one that kept its batch from being written."""
        ...


class Insertion:
    """A new timer."""

    def __init__(self, insert: Insert, retention: Millis | None) -> None:
        self._insert = insert
        self._timer = insert.timer
        self._key = key_of(insert.timer)
        self._retention = retention

    @property
    def touches(self) -> tuple[str, ...]:
        return self._timer.id, self._key

    @property
    def weight(self) -> int:
        return _OVERHEAD + self._timer.weight + 400 * len(self._insert.events)

    def steps(self, ground: Ground) -> Iterator[Step]:
        timer, shard = self._timer, ground.shard
        lives = seconds_of(timer, self._retention)
        whole = (lives, timer.version, state_of(timer), *spec_columns(timer))
        yield cql.NEW_TRUTH, (*whole, shard, timer.id)
        yield cql.NEW_KEY, (lives, timer.id, shard, self._key)
        if timer.wake_at is not None:
            yield _waking(timer, timer.wake_at, ground)
        if timer.is_over and kept_for(timer, self._retention) is None:
            yield _finished(timer, shard)
        yield from _events(self._insert.events, shard)

    def has_lost(self, found: Found) -> bool:
        return self._timer.id in found.versions or self._key in found.keys


class Revision:
    """A change of a timer. ``log`` are those lines of its log that are to end with it from now on.

    They are numbers and texts. Lines that have a time to live already keep it.
    """

    def __init__(
        self, change: Change, retention: Millis | None, log: Sequence[tuple[int, str]] = ()
    ) -> None:
        self._change = change
        self._retention = retention
        self._log = log

    @property
    def touches(self) -> tuple[str, ...]:
        return (self._change.old.id,)

    @property
    def weight(self) -> int:
        spec = self._change.new.weight if self._is_rewritten else 0
        return _OVERHEAD + spec + 400 * (len(self._change.events) + len(self._log))

    @property
    def _is_rewritten(self) -> bool:
        """Tell whether all is written: it was changed, or its time to live was."""
        old, new = self._change.old, self._change.new
        if new.spec is not old.spec:
            return True
        lives_otherwise = old.is_over != new.is_over
        return lives_otherwise and kept_for(new, self._retention) is not None

    def steps(self, ground: Ground) -> Iterator[Step]:
        old, new, shard = self._change.old, self._change.new, ground.shard
        lives = seconds_of(new, self._retention)
        if self._is_rewritten or lives:
            whole = (lives, new.version, state_of(new), *spec_columns(new, old))
            yield cql.REWRITE, (*whole, shard, new.id, old.version)
            yield cql.SAME_KEY, (lives, new.id, shard, key_of(new))
        else:
            yield cql.MOVE, (new.version, state_of(new), shard, new.id, old.version)
        yield from self._due_steps(ground)
        is_kept = new.is_over and kept_for(new, self._retention) is None
        if is_kept:
            yield _finished(new, shard)
        if old.is_over and not (is_kept and old.updated_at == new.updated_at):
            yield cql.DELETE, (shard, FINISHED, old.updated_at, old.id, 0)
        for number, body in self._log:
            yield cql.BODY, (lives, body, shard, ATTEMPT, 0, new.id, number)
        if self._change.attempt is not None:
            yield attempt_step(self._change.attempt, shard, lives)
        yield from _events(self._change.events, shard)

    def _due_steps(self, ground: Ground) -> Iterator[Step]:
        """Move its line. What is both written and removed at once is gone: so only one of them."""
        old, new = self._change.old, self._change.new
        written = None
        if new.wake_at is not None:
            written = (ground.kind_of(Due(new.wake_at, new.id)), new.wake_at)
            yield _waking(new, new.wake_at, ground)
        if old.wake_at is not None:
            for kind in ground.kinds_of(Due(old.wake_at, old.id)):
                if (kind, old.wake_at) != written:
                    yield cql.DELETE, (ground.shard, kind, old.wake_at, old.id, 0)

    def has_lost(self, found: Found) -> bool:
        return found.versions.get(self._change.old.id) != self._change.old.version


class Shelving:
    """A line below the floor that is moved from what is due to the late ones; its timer stays."""

    def __init__(self, line: Waking) -> None:
        self._line = line

    @property
    def touches(self) -> tuple[str, ...]:
        return (self._line.id,)

    @property
    def weight(self) -> int:
        return _OVERHEAD

    def steps(self, ground: Ground) -> Iterator[Step]:
        wake_at, id_, version, weight, is_claimed = self._line
        yield cql.SAME, (version, ground.shard, id_, version)
        if ground.kind_of(self._line.place) == LATE:
            place = (wake_at, id_, 0)
            yield cql.WAKE, (version, weight, is_claimed, ground.shard, LATE, *place)
            yield cql.DELETE, (ground.shard, DUE, *place)

    def has_lost(self, found: Found) -> bool:
        return found.versions.get(self._line.id) != self._line.version


class Removal:
    """A timer that is dropped, with its attempts, and its line among those that wake or ended."""

    def __init__(self, timer: Timer | Ended) -> None:
        self._timer = timer

    @property
    def touches(self) -> tuple[str, ...]:
        return self._timer.id, key_of(self._timer)

    @property
    def weight(self) -> int:
        return _OVERHEAD

    def steps(self, ground: Ground) -> Iterator[Step]:
        timer, shard = self._timer, ground.shard
        yield cql.DROP, (shard, timer.id, timer.version)
        yield cql.DELETE, (shard, KEY, 0, key_of(timer), 0)
        if timer.status in ENDED:
            yield cql.DELETE, (shard, FINISHED, timer.updated_at, timer.id, 0)
        if timer.wake_at is not None:
            for kind in ground.kinds_of(Due(timer.wake_at, timer.id)):
                yield cql.DELETE, (shard, kind, timer.wake_at, timer.id, 0)
        yield cql.DROP_LOG, (shard, timer.id)

    def has_lost(self, found: Found) -> bool:
        return found.versions.get(self._timer.id) != self._timer.version


class Forgetting:
    """Events that have been told. It is written like the rest, so that it cannot come before them.

    A plain write has the time of some clock, and would be in vain if the event's were ahead.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = ids

    @property
    def touches(self) -> tuple[str, ...]:
        return ()

    @property
    def weight(self) -> int:
        return 100 * len(self._ids)

    def steps(self, ground: Ground) -> Iterator[Step]:
        for id_ in self._ids:
            yield cql.DELETE, (ground.shard, EVENT, 0, id_, 0)

    def has_lost(self, found: Found) -> bool:  # noqa: ARG002 - there is nothing to lose to
        return False


def attempt_step(attempt: Attempt, shard: int, lives: int) -> Step:
    """What writes a line of an execution log."""
    place = (shard, ATTEMPT, 0, attempt.timer, number_of(attempt.occurrence, attempt.attempt))
    return cql.BODY, (lives, attempt_body(attempt), *place)


def _waking(timer: Timer, wake_at: Millis, ground: Ground) -> Step:
    is_claimed = timer.status is Status.EXECUTING
    kind = ground.kind_of(Due(wake_at, timer.id))
    place = (ground.shard, kind, wake_at, timer.id, 0)
    return cql.WAKE, (timer.version, timer.weight, is_claimed, *place)


def _finished(timer: Timer, shard: int) -> Step:
    return cql.FINISH, (timer.version, shard, FINISHED, timer.updated_at, timer.id, 0)


def _events(events: Sequence[Event], shard: int) -> Iterator[Step]:
    for event in events:
        yield cql.BODY, (0, to_json(event), shard, EVENT, 0, event.id, 0)


def kept_for(timer: Timer, retention: Millis | None) -> Millis | None:
    """For how long a timer is kept by its time to live once it has finished; None: it has none."""
    own = timer.spec.retention
    return retention if own is None else own


def seconds_of(timer: Timer, retention: Millis | None) -> int:
    """For how long the rows of a timer live; 0 is for ever."""
    return time_to_live(kept_for(timer, retention)) if timer.is_over else 0


def time_to_live(millis: Millis | None) -> int:
    """The same for what is kept for so long; 0 also for what is longer than Cassandra can say."""
    if millis is None:
        return 0
    seconds = max(-(-millis // 1000), 1)
    return 0 if seconds > _MOST_SECONDS else seconds
