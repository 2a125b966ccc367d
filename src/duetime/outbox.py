"""The outbox: a store in which every change of a timer leaves the events that tell of it.

They are written with the change or not at all, since they are a part of it. That is seen to here,
below everybody who writes timers, so that nobody can forget it; where there is no outbox, this is
not there at all. Who brings timers from another store writes past it: nothing happened to those.
"""

from collections.abc import Callable, Collection, Sequence

from duetime.events.changes import of_change, of_new
from duetime.stores import Change, Insert, Store
from duetime.stores.wrapper import Wrapper
from duetime.timer import Timer


class Outbox(Wrapper):
    """A store that writes events of its own, but for whoever brings some along."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        # Called when some were written, with the shards in which they are.
        self.on_events: Callable[[Collection[int]], None] | None = None

    async def insert(self, inserts: Sequence[Insert]) -> list[Timer | None]:
        told = [
            Insert(each.timer, each.events or of_new(each.timer), each.attempts) for each in inserts
        ]
        answers = await self._store.insert(told)
        if self.on_events is not None:
            self.on_events({each.timer.shard for each in inserts})
        return answers

    async def apply(self, changes: Sequence[Change]) -> list[bool]:
        told = [
            Change(
                each.old,
                each.new,
                each.attempt,
                each.events or of_change(each.old, each.new, each.attempt),
            )
            for each in changes
        ]
        won = await self._store.apply(told)
        if self.on_events is not None:
            self.on_events({each.new.shard for each in changes})
        return won
