"""Leftovers: items that nobody has told when to go. They are dated, or removed.

| what | how that comes about | what is done |
|---|---|---|
| a finished timer without a date | a copy brought it, or there was no retention | it is dated |
| a line of the log without one | the same | it is dated |
| a pointer, or a part of a content, of a finished timer | the same, or a crash | it is dated |
| a pointer to no timer | a crash before the timer was written, or at its end | it is removed |
| a part that no timer has | the same, or a change of unknown fate | it is removed |

Each is dealt with where it is met, by one write. A timer is dated before what lies beside it, which
goes a week later than the timer says: nothing may take the content from a timer that stays.

Whoever met them may have read what was true a second ago. So what lies beside a timer is judged by
the timer as it is now; and each write has a condition, which fails if the item is another since.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from duetime import ids
from duetime.clock import Millis
from duetime.stores.dynamodb import items, keys
from duetime.stores.dynamodb.at_once import each
from duetime.stores.dynamodb.calls import Calls, Item, Verdict
from duetime.stores.dynamodb.expiry import Expiry
from duetime.stores.dynamodb.items import FINISHED_VALUES, IS_OVER, text
from duetime.stores.dynamodb.keys import Place
from duetime.stores.dynamodb.timers import Timers

# The timer of what is so old may be missed: no insert takes that long.
OLD: Millis = 86_400_000

# What a Scan must be asked for; it finds some others as well, which is_one tells apart.
FILTER: dict[str, Any] = {
    "FilterExpression": (
        f"attribute_not_exists(x) AND ({IS_OVER} "
        "OR attribute_exists(k) OR begins_with(sk, :a) OR begins_with(sk, :s))"
    ),
    "ExpressionAttributeValues": {**FINISHED_VALUES, ":a": text("a"), ":s": text("s")},
}


def is_one(item: Item) -> bool:
    """Whether an item without a date is a timer, or lies beside one."""
    return items.is_timer(item) or "k" in item or ids.is_id(item["pk"]["S"])


class Leftovers:
    """Dates and removes them."""

    def __init__(self, calls: Calls, expiry: Expiry) -> None:
        self._calls = calls
        self._expiry = expiry

    async def owners(self, found: Iterable[Item]) -> dict[str, Item]:
        """The timers that these lie beside, by id, as far as there are any."""
        beside = (item for item in found if not items.is_timer(item) and not _is_line(item))
        places = {id_: keys.of_id(ids.shard_of(id_), id_) for id_ in map(_owner_of, beside)}
        # Not by the store's own Timers: what it knows of places would be pushed out by a walk.
        return await Timers(self._calls).items(places)

    async def tidy(self, few: Sequence[Item], owners: dict[str, Item], now: Millis) -> int:
        """Date or remove these, all at once, as far as that is needed; how many of them were.

        Timers that are dated are noted among ``owners``, so that none is dated a second time: a
        write that is refused is paid for too.
        """
        timers = (item if items.is_timer(item) else owners.get(_owner_of(item)) for item in few)
        ended = {items.id_of(item): item for item in timers if item and items.is_over(item)}
        undated = [item for id_, item in ended.items() if "x" not in owners.get(id_, item)]
        await each(undated, partial(self._date_timer, owners, now), len(few))
        return sum(await each(few, partial(self._tidy, owners, now), len(few)))

    async def _tidy(self, owners: dict[str, Item], now: Millis, item: Item) -> bool:
        if items.is_timer(item):
            known = owners.get(items.id_of(item), {})
            return "x" in known and known["m"] == item["m"]
        if _is_line(item):
            return await self._date_line(item, now)
        id_ = _owner_of(item)
        owner = owners.get(id_)
        if owner is None:
            return ids.time_of(id_) < now - OLD and await self._remove(item)
        if items.version_of(item) > items.version_of(owner):
            return False  # It was written for a change that is under way, or that lost.
        if is_lost_part(item, owner):
            return await self._remove(item)
        return "x" in owner and await self._date_beside(item, owner)

    async def _date_timer(self, owners: dict[str, Item], now: Millis, timer: Item) -> None:
        """Tell a finished timer when to go, unless it has changed since it was seen."""
        date = self._expiry.at(items.updated_at(timer), items.retention_of(timer), now)
        verdict = await self._date(Place.of(timer), date, "m = :m", {":m": timer["m"]})
        known = {**timer, "x": date} if verdict.is_written else verdict.found
        if known and known.get("m") == timer["m"]:
            owners[items.id_of(timer)] = known

    async def _date_beside(self, item: Item, owner: Item) -> bool:
        date = self._expiry.behind(owner["x"])
        # Not what was written for a newer version: the timer comes back to life.
        verdict = await self._date(Place.of(item), date, "v <= :v", {":v": owner["v"]})
        return verdict.is_written

    async def _date_line(self, item: Item, now: Millis) -> bool:
        line = items.to_attempt(item["pk"]["S"], item["b"]["S"])
        date = self._expiry.at(line.finished_at, now=now)
        verdict = await self._date(Place.of(item), date, "attribute_exists(pk)", {})
        return verdict.is_written

    async def _date(
        self, place: Place, date: dict[str, Any], condition: str, values: Item
    ) -> Verdict:
        return await self._calls.write(
            "UpdateItem",
            Key=place.key,
            UpdateExpression="SET x = :x",
            ConditionExpression=f"{condition} AND attribute_not_exists(x)",
            ExpressionAttributeValues={":x": date, **values},
        )

    async def _remove(self, item: Item) -> bool:
        verdict = await self._calls.write(
            "DeleteItem",
            Key=Place.of(item).key,
            # Only as it was seen; and never a timer, which a pointer may lie in the place of.
            ConditionExpression="v = :v AND attribute_not_exists(r)",
            ExpressionAttributeValues={":v": item["v"]},
        )
        return verdict.is_written


def is_lost_part(item: Item, owner: Item) -> bool:
    """Whether it is a part of a content that the timer does not have."""
    return "k" not in item and Place.of(item) not in items.parts_of(owner)


def _owner_of(item: Item) -> str:
    """The id of the timer that a pointer or a part belongs to."""
    return str(item["sk" if "k" in item else "pk"]["S"])


def _is_line(item: Item) -> bool:
    """Whether it is a line of the log, and not a pointer or a part of a content."""
    return "k" not in item and bool(item["sk"]["S"].startswith("a"))
