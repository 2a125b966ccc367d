"""Events: what happened to timers, until it has been told."""

from collections.abc import Collection, Sequence
from typing import Any

from duetime import ids
from duetime.stores.codec import decode_event, to_json
from duetime.stores.dynamodb import batches, keys
from duetime.stores.dynamodb.at_once import each
from duetime.stores.dynamodb.calls import Calls
from duetime.stores.dynamodb.items import text
from duetime.stores.dynamodb.pages import pages
from duetime.stores.merging import merged
from duetime.timer import Event

_WIDTH = 8


def put_of(event: Event, table: str) -> dict[str, Any]:
    """An event, as a part of a transaction."""
    place = keys.of_event(ids.shard_of(event.id), event.id)
    return {"Put": {"TableName": table, "Item": {**place.key, "b": text(to_json(event))}}}


async def read(calls: Calls, shards: Collection[int], after: str | None, limit: int) -> list[Event]:
    """The events of these shards, by id."""

    async def some(shards: Sequence[int], portion: int) -> list[list[Event]]:
        async def of_shard(shard: int) -> list[Event]:
            return await _of_shard(calls, shard, after, portion)

        return await each(shards, of_shard, _WIDTH)

    return await merged(shards, some, limit)


async def _of_shard(calls: Calls, shard: int, after: str | None, limit: int) -> list[Event]:
    first = keys.of_event(shard, after or " ")
    found: list[Event] = []
    async for page in pages(
        calls,
        limit,
        KeyConditionExpression="pk = :pk AND sk > :after",
        ExpressionAttributeValues={":pk": text(first.partition), ":after": text(first.place)},
    ):
        found += [decode_event(item["b"]["S"]) for item in page]
        if len(found) >= limit:
            break
    return found[:limit]


async def forget(calls: Calls, told: Sequence[str]) -> None:
    """Remove events; unknown ones are ignored."""
    await batches.remove(
        calls, (keys.of_event(ids.shard_of(id_), id_) for id_ in told if ids.is_id(id_))
    )
