"""Removals: timers that go before their time, or because it is over, with what lies beside them.

The timer's own item goes first, under the condition that it is still the one that was meant: that
decides. What lies beside it is looked for after that, and goes by the batch.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from duetime import ids
from duetime.errors import StoreUnavailable
from duetime.stores.dynamodb import batches, items, keys
from duetime.stores.dynamodb.at_once import each
from duetime.stores.dynamodb.calls import Calls, Item
from duetime.stores.dynamodb.items import integer, text
from duetime.stores.dynamodb.keys import Place
from duetime.stores.dynamodb.pages import pages
from duetime.timer import Timer


class Removals:
    """Removes timers, each by itself."""

    def __init__(self, calls: Calls, width: int) -> None:
        self._calls = calls
        self._width = width

    async def remove(self, timers: Sequence[Timer]) -> list[bool]:
        """Tell which were still of this version, and are gone."""
        # The same one twice is asked for once: both might find it gone after a lost answer.
        wanted = {(timer.id, timer.version): timer for timer in timers}
        won: list[Timer] = []
        try:
            await each(list(wanted.values()), partial(self._remove, won), self._width)
        finally:
            # It fails in silence: what was won holds all the same, and the rest is swept up.
            with suppress(StoreUnavailable):
                await self._clean_up([(timer.id, keys.has_own_key(timer)) for timer in won])
        gone = {(timer.id, timer.version) for timer in won}
        answers = []
        for timer in timers:
            version = (timer.id, timer.version)
            answers.append(version in gone)
            gone.discard(version)
        return answers

    async def _remove(self, won: list[Timer], timer: Timer) -> None:
        condition = "v = :v AND attribute_exists(r)"  # and not where a timer with this id lies
        values: Item = {":v": integer(timer.version)}
        if keys.has_own_key(timer):
            condition += " AND i = :i"
            values[":i"] = text(timer.id)
        if await self._is_gone(keys.of_timer(timer), timer.id, condition, values):
            won.append(timer)

    async def drop(self, item: Item) -> bool:
        """Drop the timer of an item unless it has changed, and then what lies beside it."""
        # No other timer has had this mark, nor will have.
        id_, values = items.id_of(item), {":m": item["m"]}
        if not await self._is_gone(Place.of(item), id_, "m = :m", values):
            return False
        await self._clean_up([(id_, "i" in item)])
        return True

    async def _is_gone(
        self, place: Place, id_: str, condition: str, values: dict[str, Any]
    ) -> bool:
        verdict = await self._calls.write(
            "DeleteItem",
            Key=place.key,
            ConditionExpression=condition,
            ExpressionAttributeValues=values,
        )
        if verdict.is_written or not verdict.was_in_doubt:
            return verdict.is_written
        # After a lost answer: it is gone, as was asked, also if another has its key by now.
        return verdict.found is None or items.id_of(verdict.found) != id_

    async def _clean_up(self, gone: Sequence[tuple[str, bool]]) -> None:
        """Remove what lay beside timers: by their ids, and whether they had keys of the users'."""
        found = await each([id_ for id_, _ in gone], self._beside, self._width)
        places = [place for some in found for place in some]
        places += [keys.of_id(ids.shard_of(id_), id_) for id_, has_key in gone if has_key]
        await batches.remove(self._calls, places)

    async def _beside(self, id_: str) -> list[Place]:
        return [place async for page in self._pages(id_) for place in page]

    async def _pages(self, id_: str) -> AsyncIterator[Iterable[Place]]:
        async for page in pages(
            self._calls,
            None,
            KeyConditionExpression="pk = :pk",
            ProjectionExpression="pk, sk",
            ExpressionAttributeValues={":pk": text(id_)},
        ):
            yield map(Place.of, page)
