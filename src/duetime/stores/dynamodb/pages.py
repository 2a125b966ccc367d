"""Pages: an answer of more than a megabyte comes in several."""

from collections.abc import AsyncIterator
from typing import Any

from duetime.stores.dynamodb.calls import Calls, Item


async def pages(calls: Calls, limit: int | None, **query: Any) -> AsyncIterator[list[Item]]:
    """The items that a query finds, linearizable; a page has so many at most, and may be empty."""
    if limit is not None:
        query["Limit"] = max(limit, 1)
    while True:
        answer = await calls.ask("Query", ConsistentRead=True, **query)
        yield answer["Items"]
        if "LastEvaluatedKey" not in answer:
            return
        query["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
