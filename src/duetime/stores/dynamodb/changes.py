"""Changes of timers: each one write, under the condition that the version is still the old one.

An attempt is written into the timer's own item, so that both are one write: a transaction would
cost twice as much. When there are too many in it, they move out, into items of their own, before
the next one is written.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from duetime.errors import StoreUnavailable
from duetime.stores import Change
from duetime.stores.dynamodb import batches, beside, items, keys
from duetime.stores.dynamodb.at_once import each
from duetime.stores.dynamodb.calls import Calls, Item, Verdict
from duetime.stores.dynamodb.events import put_of
from duetime.stores.dynamodb.expiry import Expiry
from duetime.stores.dynamodb.items import Content, integer, new_mark, text
from duetime.stores.dynamodb.keys import Place
from duetime.stores.waves import waves

MOST_ATTEMPTS = 4  # in the item of a timer

_ROOM = "(attribute_not_exists(a) OR size(a) < :most)"


class Changes:
    """Writes changes, each by itself."""

    def __init__(self, calls: Calls, expiry: Expiry, width: int) -> None:
        self._calls = calls
        self._expiry = expiry
        self._width = width

    async def apply(self, changes: Sequence[Change]) -> list[bool]:
        """Tell which were written."""
        answers = [False] * len(changes)
        for wave in waves(changes):
            await self._prepare([change for _, change in wave])
            won: list[Change] = []
            try:
                await each(wave, partial(self._apply_placed, answers, won), self._width)
            except StoreUnavailable:
                await self._clean_up(won)
                raise
            await self._clean_up(won)
        return answers

    async def _apply_placed(
        self, answers: list[bool], won: list[Change], placed: tuple[int, Change]
    ) -> None:
        place, change = placed
        if await self._apply(change):
            answers[place] = True
            won.append(change)

    async def _prepare(self, changes: Sequence[Change]) -> None:
        """Write what must lie beside the timers once they are what they shall become."""
        await self._expiry.revive(changes)
        contents = (
            part
            for change in changes
            if change.new.spec is not change.old.spec
            for part in beside.parts(change.new)
        )
        await beside.keep(self._calls, contents, self._width)

    async def _clean_up(self, written: Sequence[Change]) -> None:
        """Remove the contents that were replaced, and let go of what lies beside finished ones.

        It fails in silence: what was won holds all the same. What is left lying is swept up some
        day, and a write that comes late does nothing to what has a newer version by then.
        """
        replaced = [
            (Place.of(part), change.new.version)
            for change in written
            if change.new.spec is not change.old.spec
            for part in beside.parts(change.old)
        ]
        with suppress(StoreUnavailable):
            await beside.let_go(self._calls, replaced, self._width)
            await self._expiry.end(change.new for change in written)

    async def _apply(self, change: Change) -> bool:
        mark = new_mark()
        verdict = await self._write(change, mark, is_full=False)
        if change.attempt is not None and (full := _full(verdict, change)):
            moving = items.attempts_in(full)
            lines = [self._expiry.log_line(change.new, line) for line in moving]
            await batches.put(self._calls, lines)
            verdict = await self._write(change, mark, is_full=True)
        if _is_ours(verdict, change, mark):
            return True
        with suppress(StoreUnavailable):  # what is left behind is swept up some day
            await self._take_back(change, verdict.found or {})
        return False

    async def _take_back(self, change: Change, found: Item) -> None:
        """Remove the content of a change that lost, unless who won has the same."""
        new = change.new
        if new.spec is change.old.spec:
            return
        content = Content(new).attribute
        if "h" in content and found.get("h") != content["h"]:
            lost = [(Place.of(part), new.version + 1) for part in beside.parts(new)]
            await beside.let_go(self._calls, lost, self._width)

    async def _write(self, change: Change, mark: str, *, is_full: bool) -> Verdict:
        update = self._update(change, mark, is_full=is_full)
        if not change.events:
            return await self._calls.write("UpdateItem", **update)
        first = {
            "TableName": self._calls.table,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            **update,
        }
        events = [put_of(event, self._calls.table) for event in change.events]
        token = mark + "+" if is_full else mark
        return await self._calls.transact([{"Update": first}, *events], token)

    def _update(self, change: Change, mark: str, *, is_full: bool) -> dict[str, Any]:
        new = change.new
        values: Item = {
            **items.attributes(new),
            **self._expiry.attribute(new),
            "m": text(mark),
        }
        values.pop("i", None)
        gone = [name for name in ("w", "x") if name not in values]
        if new.spec is not change.old.spec:
            content = Content(new).attribute
            values |= content
            gone += [name for name in ("b", "h", "t") if name not in content]
        settings = [f"{name} = :{name}" for name in values]
        condition = "v = :old"
        parameters: Item = {":old": integer(change.old.version)}
        parameters |= {f":{name}": value for name, value in values.items()}
        if keys.has_own_key(new):
            condition += " AND i = :i"
            parameters[":i"] = text(new.id)
        if change.attempt is not None:
            parameters[":a"] = {"L": [items.attempt_text(change.attempt)]}
            if is_full:
                settings.append("a = :a")
            else:
                settings.append("a = list_append(if_not_exists(a, :none), :a)")
                parameters[":none"] = {"L": []}
                parameters[":most"] = integer(MOST_ATTEMPTS)
                condition += f" AND {_ROOM}"
        return {
            "Key": keys.of_timer(new).key,
            "UpdateExpression": f"SET {', '.join(settings)} REMOVE {', '.join(gone)}"
            if gone
            else f"SET {', '.join(settings)}",
            "ConditionExpression": condition,
            "ExpressionAttributeValues": parameters,
        }


def _full(verdict: Verdict, change: Change) -> Item | None:
    """The timer, if all that is wrong with it is that there are too many attempts in its item."""
    found = verdict.found
    if found is None or items.id_of(found) != change.old.id:
        return None
    return found if items.version_of(found) == change.old.version else None


def _is_ours(verdict: Verdict, change: Change, mark: str) -> bool:
    """Whether the change was written, by this try or by one whose answer was lost."""
    if verdict.is_written or not verdict.was_in_doubt:
        return verdict.is_written
    found = verdict.found
    if found is None or items.id_of(found) != change.new.id:
        raise StoreUnavailable("DynamoDB: an answer was lost, and the timer is gone since")
    if items.version_of(found) > change.new.version:
        # Ours may be among those that were written since: only the timer itself tells.
        raise StoreUnavailable("DynamoDB: an answer was lost, and the timer has changed since")
    return bool(found["m"]["S"] == mark)
