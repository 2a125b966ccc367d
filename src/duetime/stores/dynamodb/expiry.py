"""Expiry: finished timers, and what lies beside them, are dropped by DynamoDB itself.

The timer's own item is told when it will be dropped by the write that finishes it. What lies beside
it is told after that, and told otherwise before a timer comes back to life. Both carry the version
of the timer that they speak of, and the older one does nothing: a word that comes late cannot take
away what a living timer needs.
"""

from collections.abc import Iterable, Sequence

from duetime.clock import Millis
from duetime.model import FINISHED, Attempt, Timer
from duetime.stores import Change
from duetime.stores.dynamodb import beside, items
from duetime.stores.dynamodb.at_once import each
from duetime.stores.dynamodb.calls import Calls, Item
from duetime.stores.dynamodb.items import integer
from duetime.stores.dynamodb.keys import Place

_SECOND = 1000
# Nobody knows what is dropped first of what is past its time. A timer without its content is of no
# use, so contents go a week later.
_LATER = 7 * 86_400_000


class Expiry:
    """Says what is dropped when; never anything if there is no retention."""

    def __init__(self, calls: Calls, retention: Millis | None, width: int) -> None:
        self._calls = calls
        self.retention = retention
        self._width = width

    def attribute(self, timer: Timer) -> Item:
        """What the item of a timer says of its end."""
        if self.retention is None or timer.status not in FINISHED:
            return {}
        return {"x": self.at(timer.updated_at)}

    def later(self, timer: Timer) -> Item:
        """What the items beside that of a new timer say of their end."""
        return {"x": self.later_at(timer.updated_at)} if self.attribute(timer) else {}

    def log_line(self, attempt: Attempt) -> Item:
        """A line of the execution log that has no place in its timer any more."""
        item = items.attempt_item(attempt)
        if self.retention is not None:
            item["x"] = self.at(attempt.finished_at)
        return item

    async def revive(self, changes: Sequence[Change]) -> None:
        """Before these are written: keep what lies beside timers that come back to life.

        Also without a retention: there may have been one when they finished.
        """
        revived = [
            change.new
            for change in changes
            if change.old.status in FINISHED and change.new.status not in FINISHED
        ]
        kept = (item for timer in revived for item in beside.all_of(timer))
        await beside.keep(self._calls, kept, self._width)

    async def end(self, timers: Iterable[Timer]) -> None:
        """After these were written: let what lies beside finished timers be dropped like them."""
        if self.retention is None:
            return
        ended = [
            (Place.of(item), timer)
            for timer in timers
            if timer.status in FINISHED
            for item in beside.all_of(timer)
        ]
        await each(ended, self._end, self._width)

    async def _end(self, ended: tuple[Place, Timer]) -> None:
        place, timer = ended
        await self._calls.write(
            "UpdateItem",
            Key=place.key,
            UpdateExpression="SET x = :x, v = :v",
            ConditionExpression="v < :v",
            ExpressionAttributeValues={
                ":x": self.later_at(timer.updated_at),
                ":v": integer(timer.version),
            },
        )

    def at(self, since: Millis, now: Millis = 0) -> dict[str, str]:
        """The second when it is dropped what came to its end then, and never one long past.

        DynamoDB takes a date of more than five years ago for a mistake.
        """
        return integer(max(since + (self.retention or 0), now) // _SECOND + 1)

    def later_at(self, since: Millis) -> dict[str, str]:
        """The same for what lies beside it."""
        return self.behind(self.at(since))

    @staticmethod
    def behind(date: dict[str, str]) -> dict[str, str]:
        """When that is dropped which lies beside what has this date."""
        return integer(int(date["N"]) + _LATER // _SECOND)
