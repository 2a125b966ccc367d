"""Expiry: finished timers, and what lies beside them, are dropped by DynamoDB itself.

The timer's own item is told when it will be dropped by the write that finishes it. What lies beside
it is told after that, and told otherwise before a timer comes back to life. Both carry the version
of the timer that they speak of, and the older one does nothing: a word that comes late cannot take
away what a living timer needs.

A timer with a retention of its own is kept for so long, whatever the usual one is, or if there is
none at all.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from duetime.clock import Millis
from duetime.stores import Change
from duetime.stores.dynamodb import beside, items
from duetime.stores.dynamodb.at_once import each
from duetime.stores.dynamodb.calls import Calls, Item
from duetime.stores.dynamodb.items import integer
from duetime.stores.dynamodb.keys import Place
from duetime.timer import Attempt, Timer

_SECOND = 1000
# Nobody knows what is dropped first of what is past its time. A timer without its content is of no
# use, so contents go a week later.
LATER: Millis = 7 * 86_400_000

# Sees to it that the table drops what is past its time, also if nobody has asked for that before.
LetDrop = Callable[[], Awaitable[None]]


class Expiry:
    """Says what is dropped when; nothing where there is neither a retention nor one of its own."""

    def __init__(
        self, calls: Calls, retention: Millis | None, width: int, let_drop: LetDrop
    ) -> None:
        self._calls = calls
        self.retention = retention
        self._width = width
        self._let_drop = let_drop

    def attribute(self, timer: Timer) -> Item:
        """What the item of a timer says of its end."""
        if not timer.is_over or not self._is_dropped(timer):
            return {}
        return {"x": self.at(timer.updated_at, timer.spec.retention)}

    def later(self, timer: Timer) -> Item:
        """What the items beside that of a new timer say of their end."""
        return {name: self.behind(date) for name, date in self.attribute(timer).items()}

    def log_line(self, timer: Timer, attempt: Attempt) -> Item:
        """A line of the execution log that has no place in its timer any more.

        Its timer may live for long yet. The usual retention is long enough for a line that is
        older than four others; one of the timer's own may be of seconds, and so it has a week more.
        """
        item = items.attempt_item(attempt)
        own = timer.spec.retention
        if own is not None:
            item["x"] = self.behind(self.at(attempt.finished_at, own))
        elif self.retention is not None:
            item["x"] = self.at(attempt.finished_at)
        return item

    async def begin(self, timers: Iterable[Timer]) -> None:
        """After these were stored: see to it that those are dropped that were finished before."""
        if any(timer.drop_at is not None for timer in timers):
            await self._let_drop()

    async def revive(self, changes: Sequence[Change]) -> None:
        """Before these are written: keep what lies beside timers that come back to life.

        Also without a retention: there may have been one when they finished.
        """
        revived = [
            change.new for change in changes if change.old.is_over and not change.new.is_over
        ]
        kept = (item for timer in revived for item in beside.all_of(timer))
        await beside.keep(self._calls, kept, self._width)

    async def end(self, timers: Iterable[Timer]) -> None:
        """After these were written: let what lies beside finished timers be dropped like them."""
        finished = [timer for timer in timers if timer.is_over and self._is_dropped(timer)]
        await self.begin(finished)
        ended = [(Place.of(item), timer) for timer in finished for item in beside.all_of(timer)]
        await each(ended, self._end, self._width)

    def _is_dropped(self, timer: Timer) -> bool:
        return self.retention is not None or timer.spec.retention is not None

    async def _end(self, ended: tuple[Place, Timer]) -> None:
        place, timer = ended
        await self._calls.write(
            "UpdateItem",
            Key=place.key,
            UpdateExpression="SET x = :x, v = :v",
            ConditionExpression="v < :v",
            ExpressionAttributeValues={
                ":x": self.behind(self.at(timer.updated_at, timer.spec.retention)),
                ":v": integer(timer.version),
            },
        )

    def at(self, since: Millis, own: Millis | None = None, now: Millis = 0) -> dict[str, str]:
        """The second when it is dropped what came to its end then, and never one long past.

        DynamoDB takes a date of more than five years ago for a mistake.
        """
        kept_for = self.retention or 0 if own is None else own
        return second_after(max(since + kept_for, now))

    @staticmethod
    def behind(date: dict[str, str]) -> dict[str, str]:
        """When that is dropped which lies beside what has this date."""
        return integer(int(date["N"]) + LATER // _SECOND)


def second_after(time: Millis) -> dict[str, str]:
    """The date of what is dropped when that time has passed."""
    return integer(time // _SECOND + 1)
