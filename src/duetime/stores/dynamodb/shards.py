"""The shards in use: a short list, so that nobody asks 4,096 partitions of which few are."""

from collections.abc import Collection, Iterable

from duetime.stores.dynamodb import batches, keys
from duetime.stores.dynamodb.calls import Calls
from duetime.stores.dynamodb.keys import Place


class Shards:
    """Grows, and never shrinks."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._known: set[int] = set()  # those that are surely on the list

    async def add(self, shards: Iterable[int]) -> None:
        """Put shards on the list, before anything is put into them."""
        new = set(shards) - self._known
        places = (Place(keys.SHARDS, keys.partition_of(shard)) for shard in new)
        await batches.put(self._calls, (place.key for place in places))
        self._known |= new

    async def in_use(self, wanted: Collection[int]) -> list[int]:
        """Those of the shards that may hold something, in their order."""
        answer = await self._calls.ask(
            "Query",
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": keys.SHARDS}},
            ConsistentRead=True,
        )
        listed = {int(item["sk"]["S"], 16) for item in answer["Items"]}
        self._known |= listed
        return sorted(listed & set(wanted))
