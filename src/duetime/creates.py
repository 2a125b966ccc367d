"""Creates: timers that are made of what users send, one or many, each at most once under its key.

What a create must pass, in this order: its group is there or comes to be, its content is right, its
quotas allow it, the engine is not behind, and the store has room. Then it is written.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeAlias

from duetime.auditing import Audit
from duetime.brake import Brake
from duetime.clock import Clock
from duetime.drafts import Drafts, fingerprint
from duetime.errors import (
    Conflict,
    DuetimeError,
    Forbidden,
    InvalidRequest,
    TooManyRequests,
    Unavailable,
)
from duetime.ledger import Ledger
from duetime.model import Timer
from duetime.requests import CreateTimer
from duetime.tenancy.caller import Caller
from duetime.tenancy.groups import Groups
from duetime.tenancy.meter import Meter

BREATH = 100  # timers of a batch that are made before others are let in

# What became of a create: the timer and whether it is new, or why there is none.
Answer: TypeAlias = tuple[Timer, bool] | DuetimeError


class Creates:
    """Makes timers."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        *,
        drafts: Drafts,
        groups: Groups,
        meter: Meter,
        brake: Brake,
        audit: Audit,
        notice: Callable[[Timer], None],
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._drafts = drafts
        self._groups = groups
        self._meter = meter
        self._brake = brake
        self._audit = audit
        self._notice = notice

    async def create(self, caller: Caller, body: CreateTimer) -> tuple[Timer, bool]:
        """Create a timer; also tells whether it is new or was there already."""
        self._ledger.check_creates()
        await self._groups.make_sure_of(caller, body.group)
        try:
            timer = self._drafts.new(caller.tenant, body, self._clock.now())
        except InvalidRequest:
            if body.timer_id is not None:
                [made] = await self._made_before(caller.tenant, [body])
                if made is not None:
                    return made, False
            raise
        return await self.insert(caller, timer)

    async def create_many(
        self,
        caller: Caller,
        bodies: Iterable[CreateTimer | DuetimeError],
        *,
        count: int,
        size: int,
    ) -> list[Answer]:
        """Create many timers; one timer's failure never stops the others.

        So many of them, and of so many bytes: they are only looked at once there is room for all.
        """
        self._meter.check_batch(caller.tenant, None, count)
        self._meter.check_pace(caller.tenant)
        room = await self._ledger.room_for(count, size)
        drafts: dict[int, Timer] = {}
        try:
            answers = await self._draft(caller, bodies, drafts)
            timers = list(drafts.values())
            if timers:
                await self._brake.slow(min(timer.execute_at for timer in timers))
        except BaseException:
            room.leave()
            self._meter.withdraw(*drafts.values())
            raise
        try:
            stored = await self._ledger.insert_many(timers, room)
        except BaseException:
            self._meter.withdraw(*timers)
            raise
        for place, timer, existing in zip(drafts, timers, stored, strict=True):
            answers[place] = self._created(timer, existing)
        created = [each[0] for each in answers.values() if isinstance(each, tuple) and each[1]]
        if created:
            # One line for all of them: it says how many, and between which ids they lie.
            await self._audit.note_create(
                caller,
                "timer.create_batch",
                created[0].id,
                group=_common(timer.group for timer in created),
                details={"timers": len(created), "last": created[-1].id},
            )
        return [answers[place] for place in range(len(answers))]

    async def insert(self, caller: Caller, timer: Timer) -> tuple[Timer, bool]:
        """Write a timer; also tells whether it is new or was there already."""
        await self._meter.admit(timer)
        try:
            await self._brake.slow(timer.execute_at)
            answer = self._created(timer, await self._ledger.insert(timer))
        except BaseException:
            self._meter.withdraw(timer)  # it may be there all the same: the next count will tell
            raise
        if isinstance(answer, DuetimeError):
            raise answer
        if answer[1]:
            await self._audit.note_create(caller, "timer.create", timer.id, group=timer.group)
        return answer

    async def _draft(
        self,
        caller: Caller,
        bodies: Iterable[CreateTimer | DuetimeError],
        drafts: dict[int, Timer],
    ) -> dict[int, Answer]:
        """Put the timers to write into the drafts, by their places; what is answered already."""
        answers: dict[int, Answer] = {}
        refused: dict[int, CreateTimer] = {}
        in_groups = Counter[str]()
        for place, body in enumerate(bodies):
            if place % BREATH == BREATH - 1:
                await asyncio.sleep(0)  # so that others are not kept waiting by a large batch
            if isinstance(body, DuetimeError):
                answers[place] = body
                continue
            try:
                await self._groups.make_sure_of(caller, body.group)
                in_groups[body.group] += 1
                self._meter.check_batch(caller.tenant, body.group, in_groups[body.group])
                draft = self._drafts.new(caller.tenant, body, self._clock.now())
                await self._meter.admit(draft)
                drafts[place] = draft
            except InvalidRequest as error:
                answers[place] = error
                if body.timer_id is not None:
                    refused[place] = body
            except (Conflict, Forbidden, TooManyRequests, Unavailable) as error:
                answers[place] = error
        made = await self._made_before(caller.tenant, list(refused.values()))
        for place, timer in zip(refused, made, strict=True):
            if timer is not None:
                answers[place] = timer, False
        return answers

    async def _made_before(self, tenant: str, bodies: list[CreateTimer]) -> list[Timer | None]:
        """For bodies with a timer_id, the timer that the very same one made, if one did.

        A request that is repeated because its answer was lost may by then ask for the past.
        """
        if not bodies:
            return []
        locate = self._groups.locate
        keys = [await locate(tenant, body.group, body.timer_id or "") for body in bodies]
        found = await self._ledger.get_by_key(keys)
        return [
            timer if timer is not None and timer.fingerprint == fingerprint(body) else None
            for body, timer in zip(bodies, found, strict=True)
        ]

    def _created(self, timer: Timer, existing: Timer | Unavailable | None) -> Answer:
        """What to say of a create, by what the ledger says of its key."""
        if existing is None:
            self._notice(timer)
            return timer, True
        self._meter.withdraw(timer)
        if isinstance(existing, Unavailable):
            return existing
        if existing.fingerprint is not None and existing.fingerprint == timer.fingerprint:
            return existing, False
        return Conflict(
            f"timer_id: '{timer.timer_id}' in group '{timer.group}' has other content already"
        )


def _common(groups: Iterable[str]) -> str | None:
    """The group of all of them, if there is one."""
    distinct = set(groups)
    return distinct.pop() if len(distinct) == 1 else None
