"""What lies beside a timer: where it lies, if it has a key of the user's, and a heavy content.

Each carries the version of the timer that it was last written for, and whoever comes with an older
one changes nothing: a write that comes late cannot take away what a living timer needs.
"""

from collections.abc import Iterable, Iterator, Sequence

from duetime.stores.dynamodb import keys
from duetime.stores.dynamodb.at_once import each
from duetime.stores.dynamodb.calls import Calls, Item
from duetime.stores.dynamodb.items import Content, integer, text
from duetime.stores.dynamodb.keys import Place
from duetime.timer import Timer


def pointer(timer: Timer) -> Item:
    """Where the timer with an id lies."""
    return {
        **keys.of_id(timer.shard, timer.id).key,
        "k": text(keys.of_timer(timer).place),
        "v": integer(timer.version),
    }


def parts(timer: Timer) -> Iterator[Item]:
    """The parts of its content, if it is heavy."""
    return Content(timer).parts(timer.version)


def all_of(timer: Timer) -> Iterator[Item]:
    """All that lies beside a timer."""
    if keys.has_own_key(timer):
        yield pointer(timer)
    yield from parts(timer)


async def keep(calls: Calls, items: Iterable[Item], width: int) -> None:
    """Write these, unless they were written for a newer version; before the timer itself."""

    async def put(item: Item) -> None:
        await calls.write(
            "PutItem",
            Item=item,
            ConditionExpression="attribute_not_exists(pk) OR v < :v",
            ExpressionAttributeValues={":v": item["v"]},
        )

    await each(list(items), put, width)


async def let_go(calls: Calls, ended: Sequence[tuple[Place, int]], width: int) -> None:
    """Remove these, unless they were written for this version or a newer one."""

    async def remove(one: tuple[Place, int]) -> None:
        place, version = one
        await calls.write(
            "DeleteItem",
            Key=place.key,
            ConditionExpression="v < :v",
            ExpressionAttributeValues={":v": integer(version)},
        )

    await each(ended, remove, width)
