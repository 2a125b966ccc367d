"""Latecomers: timers whose write was given up on, and may still land; their groups must be there.

Whoever deletes a group waits for the creates that are under way, but not for ever. One that lands
after that makes its group anew, as one does whose write was waited for.
"""

import asyncio
import logging
from collections.abc import Sequence

from duetime.errors import DuetimeError, Unanswered
from duetime.ledger import Ledger
from duetime.tenancy.caller import Caller
from duetime.tenancy.groups import Groups
from duetime.timer import Timer

log = logging.getLogger("duetime.service")


class Latecomers:
    """Sees to the groups of timers that nobody waits for any more."""

    def __init__(self, ledger: Ledger, groups: Groups) -> None:
        self._ledger = ledger
        self._groups = groups
        self._tasks: set[asyncio.Task[None]] = set()

    def heed(self, failure: BaseException, caller: Caller, *timers: Timer) -> None:
        """See to timers when their write has ended, if it failed only because it takes so long."""
        if isinstance(failure, Unanswered) and failure.ended is not None:
            failure.ended.add_done_callback(lambda _: self._begin(caller, timers))

    def _begin(self, caller: Caller, timers: Sequence[Timer]) -> None:
        task = asyncio.create_task(self._see_to(caller, timers))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _see_to(self, caller: Caller, timers: Sequence[Timer]) -> None:
        try:
            for timer in timers:
                # A group is asked for first, which costs nothing: nearly always it is there.
                if not self._groups.is_there(caller.tenant, timer.group) and (
                    await self._ledger.get(timer.id, caller.tenant) is not None
                ):
                    await self._groups.make_anew(caller, timer.group)
        except DuetimeError as error:
            log.warning("a late timer may be in a group that was deleted: %s", error)
