"""Lines of the audit: by tenant and day, and a list of each tenant's days that have some.

A line is written without a condition, since its place says all: written again, it is the same. The
list is written before the lines, and goes a week after the last of them: a day that is not on it
would not be found.
"""

from collections.abc import AsyncIterator, Sequence
from functools import partial

from duetime import ids
from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.stores.codec import decode_line, to_json
from duetime.stores.dynamodb import batches
from duetime.stores.dynamodb.at_once import each
from duetime.stores.dynamodb.calls import Calls, Item
from duetime.stores.dynamodb.expiry import LATER, LetDrop, second_after
from duetime.stores.dynamodb.items import text
from duetime.stores.dynamodb.keys import Day
from duetime.stores.dynamodb.pages import pages

_WIDTH = 8
_LISTED = 100  # days that are read of the list at once
_MOST_DAYS = 8  # days whose lines are read at once
_MOST_KNOWN = 10_000
_FOR_EVER = 10**18


class Lines:
    """Writes them and reads them in their order."""

    def __init__(self, calls: Calls, let_drop: LetDrop) -> None:
        self._calls = calls
        self._let_drop = let_drop
        self._known: dict[Day, Millis] = {}  # those that are surely on the list, and until when

    async def write(self, lines: Sequence[AuditLine], keep_for: Millis | None) -> None:
        """Keep lines, each until it is so old."""
        if keep_for is not None and lines:
            await self._let_drop()
        days = {line.id: Day.of(line.tenant, line.id) for line in lines}
        await self._list(set(days.values()), keep_for)
        found = {line.id: _item(line, days[line.id], keep_for) for line in lines}
        await batches.put(self._calls, found.values())

    async def _list(self, days: set[Day], keep_for: Millis | None) -> None:
        until = {
            day: _FOR_EVER if keep_for is None else day.ends_at + keep_for + LATER for day in days
        }
        new = [day for day in days if self._known.get(day, 0) < until[day]]
        await each([(day, until[day]) for day in new], self._list_one, _WIDTH)
        if len(self._known) + len(new) > _MOST_KNOWN:
            self._known.clear()
        self._known |= {day: until[day] for day in new}

    async def _list_one(self, dated: tuple[Day, Millis]) -> None:
        day, until = dated
        item: Item = dict(day.in_list.key)
        if until == _FOR_EVER:
            await self._calls.ask("PutItem", Item=item)
            return
        date = second_after(until)
        await self._calls.write(
            "PutItem",
            Item={**item, "x": date},
            # One without a date is there for ever.
            ConditionExpression="attribute_not_exists(pk) OR x < :x",
            ExpressionAttributeValues={":x": date},
        )

    async def read(
        self, tenant: str, after: str | None, limit: int, *, descending: bool
    ) -> list[AuditLine]:
        """A tenant's lines in the order of their ids, behind a place."""
        behind = None if after is None else ids.bound(after)
        found: list[AuditLine] = []
        async for days in self._days(tenant, behind, descending=descending):
            if len(found) >= limit:
                break
            partitions = [partition for day in days for partition in day.partitions]
            read = partial(self._of_partition, behind, limit - len(found), descending=descending)
            lines = [line for some in await each(partitions, read, _WIDTH) for line in some]
            lines.sort(key=lambda line: line.id, reverse=descending)
            found += lines[: limit - len(found)]
        return found

    async def _days(
        self, tenant: str, behind: str | None, *, descending: bool
    ) -> AsyncIterator[list[Day]]:
        """The days that may have lines there, in order: first one, then more and more at once.

        A page is mostly of one day; and where it is not, days have few lines each.
        """
        at_once = 1
        async for page in self._behind(
            Day(tenant, 0).in_list.partition,
            None if behind is None else Day.of(tenant, behind).in_list.place,
            _LISTED,
            is_included=True,
            descending=descending,
        ):
            days = [Day(tenant, int(item["sk"]["S"])) for item in page]
            while days:
                yield days[:at_once]
                days = days[at_once:]
                at_once = min(2 * at_once, _MOST_DAYS)

    async def _of_partition(
        self, behind: str | None, limit: int, partition: str, *, descending: bool
    ) -> list[AuditLine]:
        found: list[AuditLine] = []
        async for page in self._behind(partition, behind, limit, descending=descending):
            found += [decode_line(item["b"]["S"]) for item in page]
            if len(found) >= limit:
                break
        return found

    def _behind(
        self,
        partition: str,
        behind: str | None,
        limit: int,
        *,
        descending: bool,
        is_included: bool = False,
    ) -> AsyncIterator[list[Item]]:
        """What lies in a partition behind a place, in order."""
        condition, values = "pk = :pk", {":pk": text(partition)}
        if behind is not None:
            sign = ("<" if descending else ">") + ("=" if is_included else "")
            condition += f" AND sk {sign} :behind"
            values[":behind"] = text(behind)
        return pages(
            self._calls,
            limit,
            KeyConditionExpression=condition,
            ExpressionAttributeValues=values,
            ScanIndexForward=not descending,
        )


def _item(line: AuditLine, day: Day, keep_for: Millis | None) -> Item:
    item: Item = {**day.of_line(line.id).key, "b": text(to_json(line))}
    if keep_for is not None:
        item["x"] = second_after(ids.time_of(line.id) + keep_for)
    return item
