"""Batches: many items read, written or removed without conditions, again for what is left over."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from duetime.errors import StoreUnavailable
from duetime.stores.dynamodb.at_once import each
from duetime.stores.dynamodb.calls import Calls, Item
from duetime.stores.dynamodb.keys import Place
from duetime.stores.portions import parts, portions

_MOST_READ = 100  # items in one request
_MOST_WRITTEN = 25
_HEAVIEST = 1_000_000  # bytes in one request: more only wait for each other
_WIDTH = 8  # requests at once
_TRIES = 10  # in a row that get nowhere
_PAUSE = 0.02  # seconds after the first of them; twice as long after each


async def read(
    calls: Calls, places: Iterable[Place], at_once: int = _MOST_READ
) -> dict[Place, Item]:
    """The items at these places, as far as there are any. Linearizable."""
    wanted = list(dict.fromkeys(places))

    async def read_part(part: Sequence[Place]) -> list[Item]:
        found: list[Item] = []
        rest: Any = {"Keys": [place.key for place in part], "ConsistentRead": True}
        stuck = 0
        while rest:
            answer = await calls.batch("BatchGetItem", rest)
            more = answer["Responses"].get(calls.table, [])
            found += more
            rest = answer.get("UnprocessedKeys", {}).get(calls.table)
            stuck = await _patience(stuck, has_moved=bool(more), is_over=not rest)
        return found

    answers = await each(list(parts(wanted, at_once)), read_part, _WIDTH)
    return {Place.of(item): item for found in answers for item in found}


async def put(calls: Calls, items: Iterable[Item]) -> None:
    """Store items, whatever lies there."""
    await _write(calls, [{"PutRequest": {"Item": item}} for item in items])


async def remove(calls: Calls, places: Iterable[Place]) -> None:
    """Remove items, where there are any."""
    await _write(calls, [{"DeleteRequest": {"Key": place.key}} for place in dict.fromkeys(places)])


async def _write(calls: Calls, requests: Sequence[dict[str, Any]]) -> None:
    async def write_part(part: Sequence[dict[str, Any]]) -> None:
        rest: Any = part
        stuck = 0
        while rest:
            answer = await calls.batch("BatchWriteItem", rest)
            before = len(rest)
            rest = answer.get("UnprocessedItems", {}).get(calls.table)
            stuck = await _patience(stuck, has_moved=len(rest or ()) < before, is_over=not rest)

    split = portions(requests, _weight, heaviest=_HEAVIEST, longest=_MOST_WRITTEN)
    await each(list(split), write_part, _WIDTH)


def _weight(request: dict[str, Any]) -> int:
    item = request.get("PutRequest", {}).get("Item", {})
    return len(item["b"]["S"]) if "b" in item else 0


async def _patience(stuck: int, *, has_moved: bool, is_over: bool) -> int:
    """Wait a little if DynamoDB left all of it over; how often in a row it did."""
    if is_over or has_moved:
        return 0
    if stuck == _TRIES:
        raise StoreUnavailable("DynamoDB: throttled: it takes nothing of a batch")
    await asyncio.sleep(_PAUSE * 2**stuck)
    return stuck + 1
