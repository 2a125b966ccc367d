"""A round of the relay: from the oldest event on, page by page, past what the stream refuses.

What it refuses may lie there for good, and be more than a page. An event that is refused holds up
its timer, whose later events would come out of order, and nobody else.

Pages are read one after another, and an event may become visible behind the last one while a later
event of its timer lies ahead. That one was begun after the round, so from the second page on
nothing is published that is younger than the round, by as much as the clocks of nodes may differ.
"""

from collections.abc import Collection, Sequence

from duetime import ids
from duetime.clock import Millis
from duetime.errors import NatsError
from duetime.timer import Event

YOUNG: Millis = 5_000  # more than the clocks of nodes differ
MOST_REFUSED = 50_000  # timers in one round: with more, it ends


class Round:
    """One way through the outbox of some shards."""

    def __init__(self, shards: Collection[int], began_at: Millis) -> None:
        self.shards = shards
        self.cursor: str | None = None  # behind the pages before
        self.stored = 0
        self.error: NatsError | None = None  # why something was refused
        self._young = ids.first_at(began_at - YOUNG)
        self._refused: set[str] = set()

    @property
    def is_full(self) -> bool:
        """Tell whether so much is refused that nobody can remember more of it."""
        return len(self._refused) >= MOST_REFUSED

    def old_enough(self, events: Sequence[Event]) -> list[Event]:
        """Those of a page that can be published in this round without passing others by."""
        if self.cursor is None:
            return list(events)
        return [event for event in events if event.id < self._young]

    def open(self, events: Sequence[Event]) -> list[Event]:
        """Those whose timers are not held up."""
        return [event for event in events if event.timer not in self._refused]

    def refuse(self, refused: dict[str, NatsError]) -> None:
        """Take note of the timers of which an event was refused."""
        self._refused.update(refused)
        self.error = self.error or next(iter(refused.values()), None)
