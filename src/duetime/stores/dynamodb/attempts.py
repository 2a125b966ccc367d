"""The execution log of a timer: the newest lines in its own item, the older ones beside it."""

from duetime import ids
from duetime.stores.dynamodb import items, keys
from duetime.stores.dynamodb.calls import Calls
from duetime.stores.dynamodb.items import text
from duetime.stores.dynamodb.pages import pages
from duetime.stores.dynamodb.timers import Timers
from duetime.timer import Attempt


async def read(
    calls: Calls, timers: Timers, timer: str, after: tuple[int, int] | None, limit: int
) -> list[Attempt]:
    """The lines behind a place, in order."""
    if not ids.is_id(timer) or limit < 1:
        return []
    # The timer first: what moves out of it is written beside it before.
    found = await timers.items({timer: keys.of_id(ids.shard_of(timer), timer)})
    log = {}
    first = keys.of_attempt(timer, *(after or (0, 0)))
    async for page in pages(
        calls,
        limit + 1,
        KeyConditionExpression="pk = :pk AND sk BETWEEN :first AND :last",
        ExpressionAttributeValues={
            ":pk": text(timer),
            ":first": text(first.place),
            ":last": text("b"),
        },
    ):
        for item in page:
            attempt = items.to_attempt(timer, item["b"]["S"])
            log[attempt.occurrence, attempt.attempt] = attempt
        if len(log) > limit:
            break
    for item in found.values():
        for attempt in items.attempts_in(item):
            log[attempt.occurrence, attempt.attempt] = attempt
    places = sorted(place for place in log if after is None or place > after)
    return [log[place] for place in places[:limit]]
