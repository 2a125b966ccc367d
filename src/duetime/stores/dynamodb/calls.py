"""Calls: requests repeated with patience, where repeating is harmless, within a bounded time.

A write here has a condition that it makes false itself: "there is none yet", "the version is still
the old one". So one whose answer was lost is simply sent again, and whatever the second one is told
settles the first: if it passes, the first never can any more, and if it fails, the item that comes
with the refusal says by its mark who was there before. A transaction goes again under the same
token, which DynamoDB knows for ten minutes.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from duetime.errors import Unanswered
from duetime.stores.dynamodb.errors import CANCELED, FAILED_CONDITION, Lost, Refused, unavailable
from duetime.stores.dynamodb.wire import Answer, Wire

Item = dict[str, dict[str, Any]]

_SHORTEST_PAUSE = 0.02  # seconds
_LONGEST_PAUSE = 1.0


class Verdict(NamedTuple):
    """What came of a conditional write."""

    is_written: bool
    found: Item | None = None  # what is there instead
    was_in_doubt: bool = False  # an earlier try may have been written


class Calls:
    """Requests about one table."""

    def __init__(self, wire: Wire, table: str, *, within: float, answer_within: float) -> None:
        self.table = table
        self._wire = wire
        self._within = within  # seconds for everything
        self._answer_within = answer_within  # seconds for one answer

    async def close(self) -> None:
        await self._wire.close()

    async def ask(self, operation: str, **arguments: Any) -> Answer:
        """Ask for something that may as well be done twice; StoreUnavailable if it was in vain."""
        answer, _ = await self._repeated(operation, {"TableName": self.table, **arguments})
        return answer

    async def write(self, operation: str, **arguments: Any) -> Verdict:
        """Write an item under a condition; StoreUnavailable means over, Unanswered not over."""
        arguments["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        return await self._judged(operation, {"TableName": self.table, **arguments})

    async def transact(self, items: list[dict[str, Any]], token: str) -> Verdict:
        """Write all of the items, or none; the condition is the first one's."""
        arguments = {"TransactItems": items, "ClientRequestToken": token}
        return await self._judged("TransactWriteItems", arguments)

    async def batch(self, operation: str, requests: Any) -> Answer:
        """Ask for a batch that is not about one table by name."""
        answer, _ = await self._repeated(operation, {"RequestItems": {self.table: requests}})
        return answer

    async def _judged(self, operation: str, arguments: Mapping[str, Any]) -> Verdict:
        answer, was_in_doubt = await self._repeated(operation, arguments, is_write=True)
        if "__type" not in answer:
            return Verdict(is_written=True, was_in_doubt=was_in_doubt)
        reasons = answer.get("CancellationReasons") or [answer]
        return Verdict(False, reasons[0].get("Item"), was_in_doubt)

    async def _repeated(
        self, operation: str, arguments: Mapping[str, Any], *, is_write: bool = False
    ) -> tuple[Answer, bool]:
        """The answer, perhaps that the condition failed, and whether an earlier one was lost."""
        doubt: Lost | None = None
        pause = _SHORTEST_PAUSE
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._within
        while True:
            try:
                answer = await self._wire.call(operation, arguments, self._answer_within)
            except Refused as error:
                if is_write and _is_lost_race(error):
                    return {"__type": error.code, **error.answer}, doubt is not None
                if not error.is_for_now or loop.time() + pause > give_up_at:
                    raise _given_up(error, doubt) from error
            except Lost as error:
                doubt = error if error.was_sent else doubt
                # Who only reads need not wait for a server that is not there.
                has_ended = doubt is None or not (is_write or error.was_sent)
                if has_ended or loop.time() + pause > give_up_at:
                    raise _given_up(error, doubt if is_write else None) from error
            else:
                return answer, doubt is not None
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - no secret
            pause = min(pause * 2, _LONGEST_PAUSE)


def _is_lost_race(error: Refused) -> bool:
    if error.code == CANCELED:
        return error.reasons[:1] == ["ConditionalCheckFailed"]
    return error.code == FAILED_CONDITION


def _given_up(error: Refused | Lost, doubt: Lost | None) -> Exception:
    known = unavailable(error)
    return known if doubt is None else Unanswered(str(known))
