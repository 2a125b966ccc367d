"""Stories: see to it that who wants to know hears of each failure, by a timer made for that.

A timer that has failed, and has an ``on_failure``, stays awake until its story is written. So
whoever dies on the way leaves a row that is found again; and the story has a key that follows from
the failure, so it is made once, however often that is tried. Only then the failed timer sleeps, by
its version: who redrives or replaces it meanwhile wins, or comes after.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import repeat

from duetime import model, story
from duetime.clock import Clock
from duetime.failures import Failures
from duetime.stores import Change, Insert, Store
from duetime.stores.portions import parts
from duetime.tenancy.caller import SERVICE, Caller
from duetime.tenancy.groups import Groups
from duetime.tenancy.meter import Meter
from duetime.tenancy.role import Role
from duetime.tenancy.rules import Rules
from duetime.timer import DEFAULT_GROUP, Attempt, Status, Timer

IDLE = 60.0
LARGEST = 100  # failures that are told by one write
LOGS_AT_ONCE = 10


class Stories:
    """Makes the timers that tell of failures. Quotas count them, but refuse none."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        rules: Rules,
        groups: Groups,
        meter: Meter,
        notice: Callable[[Timer], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self.failures = Failures()  # those that the engine of this node comes across
        self._rules = rules
        self._groups = groups
        self._meter = meter
        self._notice = notice

    async def step(self) -> float:
        """Tell some of the failures that were found."""
        found = self.failures.first(LARGEST)
        if not found:
            return IDLE
        stored = await self._store.get([failure.id for failure in found])
        untold = [
            now
            for was, now in zip(found, stored, strict=True)
            if now is not None and now.version == was.version and _is_untold(now)
        ]
        # Nobody deletes a tenant, or a group, under whom something is made.
        with self._rules.making():
            waiting = [timer for timer in untold if not self._is_leaving(timer)]
            told = [timer for timer in waiting if await self._can_be_told(timer)]
            stories = await self._made(told)
        await self._put_to_sleep(waiting, stories)
        for failure in found:
            self.failures.forget(failure)
        return 0 if self.failures else IDLE

    def _is_leaving(self, timer: Timer) -> bool:
        """Tell whether nothing can be made for its tenant now; it is found again after that."""
        tenant = self._rules.tenants.find(timer.tenant)
        return tenant is not None and tenant.is_leaving

    async def _can_be_told(self, timer: Timer) -> bool:
        """Tell whether its tenant and its group are there: of one that is gone, nobody is told."""
        tenant = self._rules.tenants.find(timer.tenant)
        is_gone = tenant is not None and tenant.deleted_at is not None
        if is_gone or timer.spec.on_failure is None:
            return False
        caller = Caller(timer.tenant, Role.WRITE, SERVICE)
        if timer.group == DEFAULT_GROUP or await self._groups.is_kept(caller, timer.group):
            return True
        await self._rules.look()  # another node may have just made it
        return await self._groups.is_kept(caller, timer.group)

    async def _made(self, failed: Sequence[Timer]) -> dict[str, str]:
        """Write the stories of these, unless they are there; their ids, by those of the failed."""
        made: list[Timer] = []
        for part in parts(failed, LOGS_AT_ONCE):
            logs = await asyncio.gather(*map(self._last_attempts, part))
            now = self._clock.now()
            made += map(story.story_of, part, logs, repeat(now))
        existing = await self._store.insert([Insert(each) for each in made]) if made else []
        ids: dict[str, str] = {}
        for timer, new, old in zip(failed, made, existing, strict=True):
            ids[timer.id] = (old or new).id
            if old is None:
                self._meter.made(new)
                self._notice(new)
        return ids

    async def _last_attempts(self, timer: Timer) -> list[Attempt]:
        """The end of its log, of the occurrence that has failed."""
        progress = timer.progress
        first = max(progress.attempt - story.MOST_ATTEMPTS, 0)
        after = (progress.occurrence, first)
        return await self._store.attempts(timer.id, after, story.MOST_ATTEMPTS)

    async def _put_to_sleep(self, failed: Sequence[Timer], stories: dict[str, str]) -> None:
        now = self._clock.now()
        if failed:
            await self._store.apply(
                [Change(timer, model.tell(timer, now, stories.get(timer.id))) for timer in failed]
            )


def _is_untold(timer: Timer) -> bool:
    return timer.status is Status.FAILED and timer.wake_at is not None
