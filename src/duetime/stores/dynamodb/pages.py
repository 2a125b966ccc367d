"""Pages: an answer of more than a megabyte comes in several."""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from duetime.stores.dynamodb.calls import Calls, Item


class Look(NamedTuple):
    """What a query has found, among how many, and up to which place; None: to the end."""

    items: list[Item]
    seen: int
    place: str | None


async def looks(calls: Calls, limit: int | None, **query: Any) -> AsyncIterator[Look]:
    """What a query finds, linearizable; it looks at so many at most at a time."""
    if limit is not None:
        query["Limit"] = max(limit, 1)
    while True:
        answer = await calls.ask("Query", ConsistentRead=True, **query)
        last = answer.get("LastEvaluatedKey")
        yield Look(answer["Items"], answer["ScannedCount"], last and last["sk"]["S"])
        if last is None:
            return
        query["ExclusiveStartKey"] = last


async def pages(calls: Calls, limit: int | None, **query: Any) -> AsyncIterator[list[Item]]:
    """The items that a query finds, linearizable; a page has so many at most, and may be empty."""
    async for look in looks(calls, limit, **query):
        yield look.items
