"""A batch: the timers of an action that are written together, each at most once."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from duetime.bulk import action as actions
from duetime.bulk.action import Action, Example, Tally, is_done, marked
from duetime.bulk.verbs import Become, become
from duetime.clock import Clock, Millis
from duetime.decoding import decode
from duetime.errors import (
    DuetimeError,
    Forbidden,
    IllegalTransition,
    InvalidRequest,
    PayloadTooLarge,
)
from duetime.requests import UpdateTimer
from duetime.stores import Change, Record, Store
from duetime.timer import Timer

MOST_TRIES = 5  # on timers that keep changing
_LONGEST_ERROR = 200
_MOST_ENDED = 10_000  # actions that are remembered

# Hears of each timer that was written, as it was and as it is, and when that was begun, on the
# monotonic clock; None: it is gone.
Notice: TypeAlias = Callable[[Timer, Timer | None, float], None]

# What an update makes of a timer; or an error of users: it is not allowed, say.
Updated: TypeAlias = Callable[[Timer, UpdateTimer, Millis], Timer]


class Batches:
    """Writes batches."""

    def __init__(self, store: Store, clock: Clock, updated: Updated, notice: Notice) -> None:
        self._store = store
        self._clock = clock
        self._updated = updated
        self._notice = notice
        self._ended: set[str] = set()  # actions of which nobody counts timers any more

    async def write(
        self, record: Record, action: Action, found: Sequence[Timer] = ()
    ) -> Tally | None:
        """Change the timers of the batch, but for those that the action has changed already.

        ``found`` are those of them that were found to match before the record was written; the
        others are read. None: the record is another by now, and all this is somebody else's.
        """
        timers: dict[str, Timer | None] = {timer.id: timer for timer in found}
        book = _Book(action, timers)
        way = self._become(action)
        left = list(action.batch)
        for _ in range(MOST_TRIES):
            unread = [id_ for id_ in left if id_ not in timers]
            if unread:
                timers |= zip(unread, await self._store.get(unread), strict=True)
                # Once they are read: when the action has ended, others take its id off its timers,
                # and those look as if nobody had changed them.
                if not await self._is_still(record):
                    return None
            changes = []
            for id_ in left:
                timer = timers.pop(id_)
                if book.is_open(id_, timer) and timer is not None:
                    new = book.tried(way, timer, self._clock.now())
                    changes += [] if new is None else [Change(timer, new)]
            left = book.count(changes, await self._written(action, changes)) if changes else []
            if not left:
                break
        for id_ in left:
            book.fail(id_, "it keeps changing")
        return book.tally

    async def given_up(self, action: Action, error: str) -> Tally:
        """Count what became of the batch of an action that has failed: some may be written."""
        book = _Book(action, {})
        for id_, timer in zip(action.batch, await self._store.get(action.batch), strict=True):
            if book.is_changed(timer):
                book.changed += 1
            else:
                book.fail(id_, error)
        return book.tally

    def judge(self, action: Action, found: Sequence[Timer]) -> Tally:
        """Count what would become of timers that match."""
        book = _Book(action, {})
        way = self._become(action)
        now = self._clock.now()
        for timer in found:
            if book.tried(way, timer, now) is not None:
                book.changed += 1
        return book.tally

    def _become(self, action: Action) -> Become:
        if action.verb != "update":
            return become(action, _unchanged)
        body = decode(bytes(action.update or b""), UpdateTimer)
        return become(action, lambda timer, now: self._updated(timer, body, now))

    async def _is_still(self, record: Record) -> bool:
        """Tell whether nobody has written the record of an action since."""
        records = await self._store.records(actions.KIND)
        return any((each.name, each.version) == (record.name, record.version) for each in records)

    async def _written(self, action: Action, changes: list[Change]) -> list[bool]:
        if action.verb == "delete":
            since = self._clock.monotonic()
            won = await self._store.remove([change.old for change in changes])
            for change, is_ours in zip(changes, won, strict=True):
                if is_ours:
                    self._notice(change.old, None, since)
            return won
        others = await self._under_way(action, changes)
        writing = [Change(change.old, marked(change.new, action.id, others)) for change in changes]
        since = self._clock.monotonic()
        won = await self._store.apply(writing)
        for change, is_ours in zip(writing, won, strict=True):
            if is_ours:
                self._notice(change.old, change.new, since)
        return won

    async def _under_way(self, action: Action, changes: list[Change]) -> frozenset[str]:
        """The other actions that still must know which of these timers they have changed."""
        others = {each for change in changes for each in (change.old.progress.action or "").split()}
        others -= {action.id, *self._ended}
        if not others:
            return frozenset()
        # An action stands in its record before it changes anything: who does not, has ended.
        records = await self._store.records(actions.KIND)
        under_way = set(map(actions.id_in, records))
        if len(self._ended) > _MOST_ENDED:
            self._ended.clear()
        self._ended |= others - under_way
        return frozenset(others & under_way)


class _Book:
    """What became of each timer of a batch, so far."""

    def __init__(self, action: Action, found: dict[str, Timer | None]) -> None:
        self._action = action
        self._wanted = action.wanted
        self._found = {id_: timer.version for id_, timer in found.items() if timer is not None}
        self.changed = self._skipped = self._failed = 0
        self._examples: list[Example] = []

    @property
    def tally(self) -> Tally:
        return Tally(
            matched=self.changed + self._skipped + self._failed,
            changed=self.changed,
            skipped=self._skipped,
            failed=self._failed,
            examples=tuple(self._examples[: actions.MOST_EXAMPLES]),
        )

    def is_changed(self, timer: Timer | None) -> bool:
        """Tell whether the action has changed a timer."""
        if timer is None:
            return self._action.verb == "delete"  # or others have; nobody can tell these apart
        return is_done(self._action, timer)

    def is_open(self, id_: str, timer: Timer | None) -> bool:
        """Tell whether a timer is still to be changed; otherwise it is counted."""
        is_changed = self.is_changed(timer)
        if timer is not None and not is_changed:
            is_as_found = self._found.get(id_) == timer.version
            if is_as_found or self._wanted.matches(timer):
                return True
        self.changed += is_changed
        self._skipped += not is_changed
        return False

    def tried(self, way: Become, timer: Timer, now: int) -> Timer | None:
        """What becomes of a timer; if nothing can, that is counted."""
        try:
            return way(timer, now)
        except IllegalTransition:
            self._skipped += 1
        except (InvalidRequest, PayloadTooLarge, Forbidden) as error:
            self.fail(timer.id, str(error))
        return None

    def count(self, changes: list[Change], won: list[bool]) -> list[str]:
        """Count what was written; the others must be looked at again."""
        self.changed += sum(won)
        return [each.old.id for each, is_ours in zip(changes, won, strict=True) if not is_ours]

    def fail(self, id_: str, error: str) -> None:
        """Count a timer that could not be changed."""
        self._failed += 1
        self._examples.append(Example(id_, error[:_LONGEST_ERROR]))


def _unchanged(_timer: Timer, _now: int) -> Timer:
    raise DuetimeError("this action updates nothing")
