"""The due index: one stretch of it for each shard, merged."""

from collections.abc import Collection
from functools import partial
from typing import Any

from duetime.clock import Millis
from duetime.stores import Due, Waking
from duetime.stores.dynamodb import keys
from duetime.stores.dynamodb.at_once import each
from duetime.stores.dynamodb.calls import Calls, Item
from duetime.stores.dynamodb.items import text
from duetime.stores.dynamodb.keys import Place
from duetime.stores.dynamodb.table import INDEX
from duetime.stores.dynamodb.timers import Timers
from duetime.timer import Status

_WIDTH = 16  # shards that are read at once
_SHORTEST = 50  # lines that are read of a shard at first


class DueIndex:
    """Who wakes next."""

    def __init__(self, calls: Calls, timers: Timers) -> None:
        self._calls = calls
        self._timers = timers

    async def read(
        self, shards: Collection[int], after: Due | None, before: Millis, limit: int
    ) -> list[Waking]:
        """The lines of these shards up to then, in order."""
        first = "0" if after is None else f"{keys.waking(*after)}\0"
        last = f"{keys.waking(before, '')}~"
        if before < 0 or limit < 1 or first > last:
            return []
        # Nobody knows which shard has the next ones: an even share for each, and some more.
        size = min(limit, 2 * limit // max(len(shards), 1) + _SHORTEST)
        stretches = [_Stretch(self, shard, first, last) for shard in shards]
        while True:
            lines = sorted(line for stretch in stretches for line in stretch.lines)[:limit]
            end = lines[-1] if len(lines) == limit else None
            behind = [stretch for stretch in stretches if stretch.may_have_before(end)]
            if not behind:
                return lines
            await each(behind, partial(_Stretch.read, size=size), _WIDTH)
            size = limit

    async def ask(self, **query: Any) -> dict[str, Any]:
        """One page of a shard."""
        answer = await self._calls.ask("Query", IndexName=INDEX, ConsistentRead=True, **query)
        for item in answer["Items"]:
            self._timers.hint(_id_of(item), Place.of(item))
        return answer


class _Stretch:
    """One shard's part of the index, as far as it has been read."""

    def __init__(self, index: DueIndex, shard: int, first: str, last: str) -> None:
        self.lines: list[Waking] = []
        self._index = index
        self._has_more = True
        self._query: dict[str, Any] = {
            "KeyConditionExpression": "pk = :pk AND w BETWEEN :first AND :last",
            "ExpressionAttributeValues": {
                ":pk": text(keys.partition_of(shard)),
                ":first": text(first),
                ":last": text(last),
            },
        }

    def may_have_before(self, end: Waking | None) -> bool:
        """Whether lines that were not read yet may belong before this one."""
        return self._has_more and (end is None or not self.lines or self.lines[-1] < end)

    async def read(self, size: int) -> None:
        """Read on."""
        answer = await self._index.ask(Limit=size, **self._query)
        self.lines += map(_line, answer["Items"])
        self._has_more = "LastEvaluatedKey" in answer
        self._query["ExclusiveStartKey"] = answer.get("LastEvaluatedKey")


def _id_of(item: Item) -> str:
    return str(item["w"]["S"][15:])


def _line(item: Item) -> Waking:
    return Waking(
        wake_at=int(item["w"]["S"][:15]),
        id=_id_of(item),
        version=int(item["v"]["N"]),
        weight=int(item["y"]["N"]),
        is_claimed=item["s"]["S"] == Status.EXECUTING.value,
    )
