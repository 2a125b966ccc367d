"""A store that keeps note of all that was ever told."""

from collections.abc import Sequence

from duetime.stores import Change, Insert, Store
from duetime.stores.wrapper import Wrapper
from duetime.timer import Event, Timer


class Recording(Wrapper):
    """A store below an outbox."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.written: list[Event] = []

    async def insert(self, inserts: Sequence[Insert]) -> list[Timer | None]:
        answers = await super().insert(inserts)
        won = [each for each, taken in zip(inserts, answers, strict=True) if taken is None]
        self.written += [event for each in won for event in each.events]
        return answers

    async def apply(self, changes: Sequence[Change]) -> list[bool]:
        won = await super().apply(changes)
        winners = [change for change, is_won in zip(changes, won, strict=True) if is_won]
        self.written += [event for change in winners for event in change.events]
        return won
