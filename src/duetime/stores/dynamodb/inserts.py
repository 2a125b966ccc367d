"""New timers: first what must lie beside them, and then the one write that decides."""

from collections.abc import Sequence

from duetime import ids
from duetime.errors import StoreUnavailable
from duetime.stores import Insert, Key
from duetime.stores.dynamodb import batches, beside, items, keys
from duetime.stores.dynamodb.at_once import each
from duetime.stores.dynamodb.calls import Calls, Item, Verdict
from duetime.stores.dynamodb.events import put_of
from duetime.stores.dynamodb.expiry import Expiry
from duetime.stores.dynamodb.items import text
from duetime.stores.dynamodb.keys import Place
from duetime.stores.dynamodb.shards import Shards
from duetime.stores.dynamodb.timers import Timers
from duetime.stores.waves import insert_waves
from duetime.timer import Timer

# How often an insert is tried that lost to a timer which was gone when it was looked for.
_MOST_TRIES = 5


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
        for wave in insert_waves(enumerate(inserts)):
            chosen = [insert for _, insert in wave]
            owners = await self._moved_in(chosen) | await self._point(chosen)
            free = [placed for placed in wave if placed[1].timer.id not in owners]
            chosen = [insert for _, insert in free]
            await self._prepare(chosen)
            found = await each(chosen, self._insert, self._width)
            for place, insert in wave:
                answers[place] = owners.get(insert.timer.id)
            for (place, _), timer in zip(free, found, strict=True):
                answers[place] = timer
            await self._expiry.begin(insert.timer for insert in chosen)
        return answers

    async def _moved_in(self, inserts: Sequence[Insert]) -> dict[str, Timer]:
        """Those of timers with a past that are there already: their logs are left as they are."""
        wanted = [insert.timer.id for insert in inserts if insert.attempts]
        found = zip(wanted, await self._timers.get(wanted), strict=True)
        return {id_: owner for id_, owner in found if owner is not None}

    async def _prepare(self, inserts: Sequence[Insert]) -> None:
        """Write what no timer may be without, and the log that it brings along."""
        contents = [
            {**part, **self._expiry.later(insert.timer)}
            for insert in inserts
            for part in beside.parts(insert.timer)
        ]
        await beside.keep(self._calls, contents, self._width)
        logs = (
            self._expiry.log_line(insert.timer, line)
            for insert in inserts
            for line in insert.attempts
        )
        await batches.put(self._calls, logs)

    async def _insert(self, insert: Insert) -> Timer | None:
        timer = insert.timer
        item = {**items.new_item(timer), **self._expiry.attribute(timer)}
        for _ in range(_MOST_TRIES):
            verdict = await self._put(insert, item)
            if verdict.is_written:
                self._timers.hint(timer.id, Place.of(item))
                return None
            owner = await self._owner(insert, verdict.found or {})
            if owner is not None:
                # Ids are never made twice: after a lost answer, this one is our own.
                is_own = verdict.was_in_doubt and owner.id == timer.id
                return None if is_own else owner
        raise StoreUnavailable("DynamoDB: timers with the same keys come and go all the time")

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

    async def _owner(self, insert: Insert, found: Item) -> Timer | None:
        """Whose place it is; None if it is free by now."""
        timer = insert.timer
        if items.is_timer(found):
            [owner] = (await self._timers.whole({items.id_of(found): found})).values() or [None]
            if owner is None:  # It is being dropped, and has lost its content already.
                await self._calls.write(
                    "DeleteItem",
                    Key=Place.of(found).key,
                    ConditionExpression="m = :m",
                    ExpressionAttributeValues={":m": found["m"]},
                )
            elif owner.id != timer.id:
                written = [*beside.all_of(timer), *map(items.attempt_item, insert.attempts)]
                await batches.remove(self._calls, map(Place.of, written))
            return owner
        [owner] = await self._timers.get([timer.id])
        if owner is None and found:  # It points to a timer that was never stored.
            await batches.remove(self._calls, [keys.of_id(timer.shard, timer.id)])
        return owner

    async def _point(self, inserts: Sequence[Insert]) -> dict[str, Timer]:
        """Write down where the timers with keys will lie; for some, the timer that is in the way.

        It has the id, under another key, or its id was made the key.
        """
        keyed = [insert.timer for insert in inserts if keys.has_own_key(insert.timer)]
        read = await batches.read(self._calls, (keys.of_id(t.shard, t.id) for t in keyed))
        there = {id_.place: item for id_, item in read.items()}
        wanted = {timer.id: text(keys.of_timer(timer).place) for timer in keyed}
        others = [id_ for id_, item in there.items() if item.get("k") != wanted[id_]]
        found = zip(others, await self._timers.get(others), strict=True)
        owners = {id_: owner for id_, owner in found if owner is not None}
        namesakes = [timer for timer in keyed if ids.is_id(timer.timer_id)]
        for timer, owner in zip(
            namesakes, await self._timers.get_by_key(list(map(Key.of, namesakes))), strict=True
        ):
            if owner is not None:
                owners[timer.id] = owner
        new = [t for t in keyed if t.id not in owners and (t.id not in there or t.id in others)]
        pointers = ({**beside.pointer(t), **self._expiry.later(t)} for t in new)
        await batches.put(self._calls, pointers)
        return owners
