"""Walks through whole shards: for lists, counts, moving house, and dropping what is finished."""

from collections import Counter
from collections.abc import Collection
from functools import partial
from typing import Any

from duetime import ids
from duetime.clock import Millis
from duetime.stores import Count, Page, Query
from duetime.stores.dynamodb import items, keys
from duetime.stores.dynamodb.at_once import each
from duetime.stores.dynamodb.calls import Calls
from duetime.stores.dynamodb.items import FINISHED_VALUES, IS_OVER, text
from duetime.stores.dynamodb.pages import looks, pages
from duetime.stores.dynamodb.removals import Removals
from duetime.stores.dynamodb.shards import Shards
from duetime.stores.dynamodb.timers import Timers
from duetime.stores.portions import parts, portions
from duetime.stores.walking import Part, scan_shards, walk
from duetime.timer import Status, Timer

_SHORTEST = 200  # items that are looked at in one page, if there are so many
_COUNTED_AT_ONCE = 16  # shards
_PORTION = 16 * 1024 * 1024  # bytes of timers that are read at once, more or less


class Walks:
    """Reads shards in the order of ids."""

    def __init__(
        self, calls: Calls, timers: Timers, shards: Shards, removals: Removals, width: int
    ) -> None:
        self._calls = calls
        self._timers = timers
        self._shards = shards
        self._removals = removals
        self._width = width

    async def search(self, query: Query) -> Page:
        """A page of one tenant's timers."""
        read = partial(self._part, tenant=query.tenant)
        return await walk(query, await self._shards.in_use(ids.ALL_SHARDS), read)

    async def scan(self, after: str | None, limit: int) -> list[Timer]:
        """Timers in the order of (shard, id)."""
        shards = await self._shards.in_use(ids.ALL_SHARDS)
        return await scan_shards(after, limit, shards, self._part, _PORTION)

    async def _part(
        self,
        shard: int,
        after: str | None,
        is_descending: bool,  # noqa: FBT001 - as a walk calls it
        limit: int,
        tenant: str | None = None,
    ) -> Part:
        """Some timers of a shard, behind a place, of one tenant or of all.

        It goes on until it has looked at something, or there is no more. What timers of others
        carry beside them is not read.
        """
        query = _query(shard, after, tenant, is_descending=is_descending)
        # Not too few at once: many may be of timers that are gone.
        async for look in looks(self._calls, max(limit + 1, _SHORTEST), **query):
            there = [item for item in look.items if item["sk"]["S"] != after]
            found = await self._timers.of(there)
            order = [found[item["sk"]["S"]] for item in there if item["sk"]["S"] in found]
            if tenant is not None:
                order = [item for item in order if items.tenant_of(item) == tenant]
            left_out = look.seen - len(order)
            for part in portions(order, items.weight_of, heaviest=_PORTION, longest=limit):
                by_id = await self._timers.whole({items.id_of(item): item for item in part})
                timers = [by_id[id_] for id_ in map(items.id_of, part) if id_ in by_id]
                if timers and part[-1] is order[-1]:
                    return Part(timers, look.place is None, left_out, look.place)
                if timers:  # Nobody knows what lies between them: as much as their share.
                    share = left_out * len(part) // len(order)
                    return Part(timers, is_last=False, left_out=share, place=timers[-1].id)
            if tenant is not None and look.place is not None:
                return Part([], is_last=False, left_out=left_out, place=look.place)
        return Part([], is_last=True)

    async def count(self, tenant: str) -> list[Count]:
        """How many timers a tenant has in each group and status; it reads along, too."""
        found: Counter[tuple[str, str]] = Counter()
        # Not all shards as one batch, which ends after a while, however many timers there are.
        for some in parts(await self._shards.in_use(ids.ALL_SHARDS), _COUNTED_AT_ONCE):
            for of_shard in await each(some, partial(self._count, tenant), len(some)):
                found += of_shard
        return [Count(group, Status(status), timers) for (group, status), timers in found.items()]

    async def _count(self, tenant: str, shard: int) -> Counter[tuple[str, str]]:
        found: Counter[tuple[str, str]] = Counter()
        async for page in pages(
            self._calls,
            None,
            KeyConditionExpression="pk = :pk",
            FilterExpression="begins_with(r, :tenant)",  # the others do not leave DynamoDB
            ProjectionExpression="s, r",
            ExpressionAttributeValues={
                ":pk": text(keys.partition_of(shard)),
                ":tenant": text(items.beginning_of(tenant)),
            },
        ):
            found.update((items.group_of(item), item["s"]["S"]) for item in page)
        return found

    async def purge(self, shards: Collection[int], before: Millis, limit: int) -> int:
        """Drop finished timers; it reads through whole shards, since no index knows them."""
        dropped = 0
        for shard in await self._shards.in_use(shards):
            async for page in pages(
                self._calls,
                None,
                KeyConditionExpression="pk = :pk",
                # Those with a retention of their own have been told when to go.
                FilterExpression=f"{IS_OVER} AND attribute_not_exists(t)",
                ExpressionAttributeValues={
                    ":pk": text(keys.partition_of(shard)),
                    **FINISHED_VALUES,
                },
            ):
                old = [item for item in page if items.updated_at(item) < before]
                dropped += sum(await each(old[: limit - dropped], self._removals.drop, self._width))
                if dropped >= limit:
                    return dropped
        return dropped


def _query(
    shard: int, after: str | None, tenant: str | None, *, is_descending: bool
) -> dict[str, Any]:
    """The question for what lies behind a place of a shard, with that place itself."""
    first, last = (after or " ", keys.BEHIND_IDS)
    if is_descending:
        first, last = " ", after or keys.BEHIND_IDS
    query: dict[str, Any] = {
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :first AND :last",
        "ExpressionAttributeValues": {
            ":pk": text(keys.partition_of(shard)),
            ":first": text(first),
            ":last": text(last),
        },
        "ScanIndexForward": not is_descending,
    }
    if tenant is not None:
        # The others do not leave DynamoDB, but for places that say where one with a key lies.
        query["FilterExpression"] = "begins_with(r, :tenant) OR attribute_exists(k)"
        query["ExpressionAttributeValues"][":tenant"] = text(items.beginning_of(tenant))
    return query
