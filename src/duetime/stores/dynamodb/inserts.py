"""New timers: first what must lie beside them, and then the one write that decides."""

from collections.abc import Iterator, Sequence

from duetime import ids
from duetime.model import Timer
from duetime.stores import Insert, Key
from duetime.stores.dynamodb import batches, items, keys
from duetime.stores.dynamodb.calls import Calls, Item, Verdict
from duetime.stores.dynamodb.crowd import each
from duetime.stores.dynamodb.events import put_of
from duetime.stores.dynamodb.expiry import Expiry
from duetime.stores.dynamodb.items import Content, integer, new_mark, text
from duetime.stores.dynamodb.keys import Place
from duetime.stores.dynamodb.shards import Shards
from duetime.stores.dynamodb.timers import Timers


class Inserts:
    """Stores new timers, each by itself."""

    def __init__(
        self, calls: Calls, timers: Timers, shards: Shards, expiry: Expiry, width: int
    ) -> None:
        self._calls = calls
        self._timers = timers
        self._shards = shards
        self._expiry = expiry
        self._width = width

    async def insert(self, inserts: Sequence[Insert]) -> list[Timer | None]:
        """Per timer None, or the timer that has its key or its id."""
        await self._shards.add(insert.timer.shard for insert in inserts)
        answers: list[Timer | None] = [None] * len(inserts)
        for wave in _waves(inserts):
            chosen = [inserts[place] for place in wave]
            await batches.put(self._calls, self._beside(chosen))
            found = await each(chosen, self._insert, self._width)
            for place, timer in zip(wave, found, strict=True):
                answers[place] = timer
        return answers

    def _beside(self, inserts: Sequence[Insert]) -> Iterator[Item]:
        """What no timer may be without: its content if it is heavy, and a log from elsewhere."""
        for insert in inserts:
            yield from Content(insert.timer).parts(insert.timer.version)
            for attempt in insert.attempts:
                yield self._expiry.log_line(attempt)

    async def _insert(self, insert: Insert) -> Timer | None:
        timer = insert.timer
        if keys.has_own_key(timer):
            owner = await self._namesake(timer) or await self._point(timer)
            if owner is not None:
                return owner
        place = keys.of_timer(timer)
        item = {
            **place.key,
            **items.attributes(timer),
            **Content(timer).attribute,
            **self._expiry.attribute(timer),
            "m": text(new_mark()),
        }
        while not (verdict := await self._put(insert, item)).is_written:
            owner = await self._owner(timer, verdict.found or {})
            if owner is not None:
                # Ids are never made twice: after a lost answer, this one is our own.
                is_own = verdict.was_in_doubt and owner.id == timer.id
                return None if is_own else owner
        self._timers.hint(timer.id, place)
        return None

    async def _put(self, insert: Insert, item: Item) -> Verdict:
        condition = "attribute_not_exists(pk)"
        if not insert.events:
            return await self._calls.write("PutItem", Item=item, ConditionExpression=condition)
        first = {
            "TableName": self._calls.table,
            "Item": item,
            "ConditionExpression": condition,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        events = [put_of(event, self._calls.table) for event in insert.events]
        return await self._calls.transact([{"Put": first}, *events], item["m"]["S"])

    async def _owner(self, timer: Timer, found: Item) -> Timer | None:
        """Whose place it is; None if it is free by now."""
        if items.is_timer(found):
            [owner] = (await self._timers.whole({items.id_of(found): found})).values() or [None]
            if owner is not None and owner.id != timer.id:
                parts = map(Place.of, Content(timer).parts(timer.version))
                pointer = keys.of_id(timer.shard, timer.id)
                await batches.remove(self._calls, [pointer, *parts])
            return owner
        [owner] = await self._timers.get([timer.id])
        if owner is None and found:  # It points to a timer that was never stored.
            await batches.remove(self._calls, [keys.of_id(timer.shard, timer.id)])
        return owner

    async def _namesake(self, timer: Timer) -> Timer | None:
        """The timer whose id was chosen as this one's key, if there is one."""
        if not ids.is_id(timer.timer_id):
            return None
        key = Key(timer.tenant, timer.group, timer.timer_id, timer.shard)
        return (await self._timers.get_by_key([key]))[0]

    async def _point(self, timer: Timer) -> Timer | None:
        """Write down where the timer with this id will lie; or the timer that has the id."""
        place = keys.of_timer(timer).place
        pointer = {
            **keys.of_id(timer.shard, timer.id).key,
            "k": text(place),
            "v": integer(timer.version),
            **self._expiry.attribute(timer),
        }
        verdict = await self._calls.write(
            "PutItem",
            Item=pointer,
            ConditionExpression="attribute_not_exists(pk) OR k = :k",
            ExpressionAttributeValues={":k": text(place)},
        )
        if verdict.is_written:
            return None
        [owner] = await self._timers.get([timer.id])
        if owner is None:  # It pointed to a timer that was never stored.
            await batches.put(self._calls, [pointer])
        return owner


def _waves(inserts: Sequence[Insert]) -> Iterator[list[int]]:
    """Places in the batch, such that no key and no id occurs twice in a wave."""
    left = list(range(len(inserts)))
    while left:
        taken: set[object] = set()
        wave, later = [], []
        for place in left:
            timer = inserts[place].timer
            names = {timer.id, keys.of_timer(timer)}
            if taken.isdisjoint(names):
                wave.append(place)
            else:
                later.append(place)
            taken |= names
        yield wave
        left = later
