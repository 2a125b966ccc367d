"""The sweep: a slow walk through the whole table, for what nobody else has told when to go.

| what it meets | how that comes about | what it does |
|---|---|---|
| a finished timer without a date | a copy brought it, or there was no retention | dates it |
| a line of the log without one | the same | dates it |
| a pointer to no timer | a crash before the timer was written, or at its end | removes it |
| a part of a content that no timer has | the same, or a change of unknown fate | removes it |

How far it has come is a record, so that it goes on wherever a node of any name takes it up. It is
done once a month, and anew after the table was open to somebody without a retention. It reads what
may be a second old, at half the price: whatever it decides, it looks at the timer itself before,
and each of its writes has a condition.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from duetime import ids
from duetime.clock import Millis
from duetime.stores import Record
from duetime.stores.dynamodb import items, keys, records
from duetime.stores.dynamodb.calls import Calls, Item
from duetime.stores.dynamodb.crowd import each
from duetime.stores.dynamodb.expiry import Expiry
from duetime.stores.dynamodb.items import FINISHED_VALUES, text
from duetime.stores.dynamodb.keys import Place
from duetime.stores.dynamodb.pages import pages
from duetime.stores.dynamodb.timers import Timers

KIND = "sweep"
EVERY: Millis = 30 * 86_400_000
# The timer of what is so old may be missed: no insert takes that long.
OLD: Millis = 86_400_000

_NAME = "table"


class _Stand(msgspec.Struct, frozen=True):
    after: dict[str, dict[str, str]] | None = None  # the item that it has come to
    ended_at: Millis | None = None  # None: it is under way


class Sweep:
    """Walks, and tidies up."""

    def __init__(
        self, calls: Calls, quick: Calls, timers: Timers, expiry: Expiry, width: int
    ) -> None:
        self._calls = calls
        self._quick = quick
        self._timers = timers
        self._expiry = expiry
        self._width = width

    async def is_needed(self) -> None:
        """Say that it must begin anew: from now on, somebody may write without dates."""
        place = records.place_of(KIND, _NAME)
        await self._quick.ask("DeleteItem", Key=place.key)

    async def step(self, now: Millis, limit: int) -> int:
        """Go on for a page, of a megabyte at most: it shall be in nobody's way.

        Tells how many items were dated or removed.
        """
        record = next(iter(await records.read(self._quick, KIND)), None)
        stand = msgspec.json.decode(record.data, type=_Stand) if record else _Stand()
        if stand.ended_at is not None and now < stand.ended_at + EVERY:
            return 0
        page, after = await self._page(stand.after, limit)
        done = await self._tidy(page, now)
        new = Record(
            kind=KIND,
            name=_NAME,
            version=record.version + 1 if record else 1,
            data=msgspec.json.encode(_Stand(after, now if after is None else None)),
        )
        # If it fails, somebody else sweeps too, or it must begin anew: the next step will see.
        await records.put(self._quick, record, new)
        return done

    async def _page(self, after: Item | None, limit: int) -> tuple[list[Item], Item | None]:
        where = {"ExclusiveStartKey": after} if after else {}
        answer = await self._calls.ask(
            "Scan",
            Limit=max(limit, 1),
            FilterExpression=_UNDATED,
            ExpressionAttributeValues={**FINISHED_VALUES, ":a": text("a"), ":s": text("s")},
            **where,
        )
        return answer["Items"], answer.get("LastEvaluatedKey")

    async def _tidy(self, page: Sequence[Item], now: Millis) -> int:
        finished = [item for item in page if items.is_timer(item)]
        pointers = [item for item in page if "k" in item]
        beside = [item for item in page if ids.is_id(item["pk"]["S"])]
        lines = [item for item in beside if _is_line(item)]
        parts = [item for item in beside if not _is_line(item)]
        owners = await self._owners(pointers, parts)
        lost = [item for item in pointers if _has_no_timer(item["sk"]["S"], owners, now)]
        lost += [item for item in parts if _is_lost_part(item, owners, now)]
        work = [
            *(partial(self._date, item, now) for item in finished),
            *(partial(self._date_line, item, now) for item in lines),
            *(partial(self._remove, item) for item in lost),
        ]
        return sum(await each(work, lambda piece: piece(), self._width))

    async def _owners(self, pointers: Sequence[Item], parts: Sequence[Item]) -> dict[str, Item]:
        """The timers that these belong to, by id, as far as there are any."""
        wanted = {item["sk"]["S"] for item in pointers} | {item["pk"]["S"] for item in parts}
        return await self._timers.items({id_: keys.of_id(ids.shard_of(id_), id_) for id_ in wanted})

    async def _date(self, item: Item, now: Millis) -> bool:
        """Tell a finished timer when to go, but first all that lies beside it."""
        id_, updated_at = items.id_of(item), items.updated_at(item)
        places = [keys.of_id(ids.shard_of(id_), id_)] if "i" in item else []
        query = {
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": text(id_)},
        }
        async for page in pages(self._calls, None, **query):
            for other in page:
                if _is_line(other):
                    await self._date_line(other, now)
                else:
                    places.append(Place.of(other))
        for place in places:
            # Not what was written for a newer version: the timer comes back to life.
            await self._set_date(
                place, self._expiry.later_at(updated_at, now), "v <= :v", {":v": item["v"]}
            )
        return await self._set_date(
            Place.of(item), self._expiry.at(updated_at, now), "m = :m", {":m": item["m"]}
        )

    async def _date_line(self, item: Item, now: Millis) -> bool:
        line = items.to_attempt(item["pk"]["S"], item["b"]["S"])
        date = self._expiry.at(line.finished_at, now)
        return await self._set_date(Place.of(item), date, "attribute_exists(pk)", {})

    async def _set_date(
        self, place: Place, date: dict[str, str], condition: str, values: Item
    ) -> bool:
        verdict = await self._calls.write(
            "UpdateItem",
            Key=place.key,
            UpdateExpression="SET x = :x",
            ConditionExpression=f"{condition} AND attribute_not_exists(x)",
            ExpressionAttributeValues={":x": date, **values},
        )
        return verdict.is_written

    async def _remove(self, item: Item) -> bool:
        verdict = await self._calls.write(
            "DeleteItem",
            Key=Place.of(item).key,
            # Only as it was seen; and never a timer, which a pointer may lie in the place of.
            ConditionExpression="v = :v AND attribute_not_exists(r)",
            ExpressionAttributeValues={":v": item["v"]},
        )
        return verdict.is_written


def _is_line(item: dict[str, Any]) -> bool:
    """Whether an item beside a timer is a line of its log, and not a part of its content."""
    return bool(item["sk"]["S"].startswith("a"))


def _has_no_timer(id_: str, owners: dict[str, Item], now: Millis) -> bool:
    return id_ not in owners and ids.time_of(id_) < now - OLD


def _is_lost_part(item: Item, owners: dict[str, Item], now: Millis) -> bool:
    """Whether no timer has this part, nor a change that is under way."""
    id_ = item["pk"]["S"]
    if id_ not in owners:
        return _has_no_timer(id_, owners, now)
    owner = owners[id_]
    is_older = items.version_of(item) <= items.version_of(owner)
    return is_older and Place.of(item) not in items.parts_of(owner)


_UNDATED = (
    f"attribute_not_exists(x) AND (s IN ({', '.join(FINISHED_VALUES)}) OR attribute_exists(k) "
    "OR begins_with(sk, :a) OR begins_with(sk, :s))"
)
