"""Creates: timers that are made of what users send, one or many, each at most once under its key.

What a create must pass, in this order: its group is there or may come to be, its content is right,
its quotas allow it, and the engine is not behind. Then its group is made, if it is missing, and the
timer is written: one that is refused leaves no group behind. Should its group have been deleted
meanwhile, that is made anew.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, islice
from typing import TypeAlias

from duetime.auditing import Audit
from duetime.brake import Brake
from duetime.clock import Clock, Millis
from duetime.drafts import Drafts, fingerprint
from duetime.errors import (
    Conflict,
    DuetimeError,
    Forbidden,
    InvalidRequest,
    TooManyRequests,
    Unavailable,
)
from duetime.latecomers import Latecomers
from duetime.ledger import Ledger
from duetime.requests import CreateTimer
from duetime.shifts import BREATH, Shift, Shifts
from duetime.tenancy.caller import Caller
from duetime.tenancy.credentials import Credentials
from duetime.tenancy.group import Group
from duetime.tenancy.groups import Groups
from duetime.tenancy.meter import Meter
from duetime.timer import Timer

PORTION = 500  # keys that are looked for at once
SAMPLE = 10  # timers by which it is told whether a batch was sent before

# After these, a timer is looked for that the same request may have made before.
REFUSALS = (InvalidRequest, Forbidden, TooManyRequests)

# What became of a create: the timer and whether it is new, or why there is none.
Answer: TypeAlias = tuple[Timer, bool] | DuetimeError


class _Batch:
    """How far a batch has come: by their places in it, its timers and what is answered already."""

    def __init__(self, shift: Shift) -> None:
        self.shift = shift
        self.answers: dict[int, Answer] = {}
        self.drafts: dict[int, Timer] = {}  # to be written
        self.in_groups = Counter[str]()  # how many it has for each
        # The groups to make for drafts, by their names, with what these were drafted from.
        self.missing: dict[str, tuple[Group, dict[int, CreateTimer]]] = {}
        self.has_looked = False  # for groups that others made: once is enough
        self.has_met = False  # credentials, likewise

    def wants(self, group: Group, place: int, body: CreateTimer) -> None:
        """Note that a draft needs a group to be made for it."""
        self.missing.setdefault(group.name, (group, {}))[1][place] = body

    def check_room(self) -> None:
        """Refuse it as a whole, if there is no room for a single timer of it just now."""
        if not self.drafts:
            refusals = [each for each in self.answers.values() if isinstance(each, TooManyRequests)]
            if refusals and len(refusals) == len(self.answers):
                raise min(refusals, key=lambda each: each.retry_after)


class Creates:
    """Makes timers."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        *,
        drafts: Drafts,
        groups: Groups,
        credentials: Credentials,
        meter: Meter,
        brake: Brake,
        audit: Audit,
        latecomers: Latecomers,
        notice: Callable[[Timer], None],
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._drafts = drafts
        self._groups = groups
        self._credentials = credentials
        self._meter = meter
        self._brake = brake
        self._audit = audit
        self._latecomers = latecomers
        self._notice = notice
        self._shifts = Shifts()

    async def create(
        self, caller: Caller, body: CreateTimer, sent_at: Millis | None = None
    ) -> tuple[Timer, bool]:
        """Create a timer; also tells whether it is new or was there already."""
        self._ledger.check_creates()
        answer: Answer | None = None
        try:
            while answer is None:
                missing = await self._groups.missing(caller, body.group)
                await self._credentials.meet(caller.tenant, body)
                timer = self._drafts.new(caller.tenant, body, self._clock.now(), sent_at)
                answer = await self.insert(caller, timer, missing)
        except REFUSALS:
            if made := await self._made_before(caller, {0: body}):
                return made[0]
            raise
        if isinstance(answer, DuetimeError):
            raise answer
        return answer

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
        try:
            self._meter.check_batch(caller.tenant, None, count)
            self._meter.check_pace(caller.tenant)
        except REFUSALS as refusal:
            return await self._repeated(caller, bodies, refusal, count=count, size=size)
        room = await self._ledger.room_for(count, size)
        batch = _Batch(self._shifts.begin(count))
        try:
            await self._draft(caller, enumerate(bodies), batch)
            if batch.drafts:
                await self._brake.slow(min(each.execute_at for each in batch.drafts.values()))
            while again := await self._make_groups(caller, batch):
                await self._draft(caller, again, batch)
            batch.check_room()
        except BaseException:
            room.leave()
            self._meter.withdraw(*batch.drafts.values())
            raise
        answers, timers = batch.answers, list(batch.drafts.values())
        try:
            stored = await self._ledger.insert_many(timers, room)
        except BaseException as error:
            self._meter.withdraw(*timers)
            self._latecomers.heed(error, caller, *timers)
            raise
        for place, timer, existing in zip(batch.drafts, timers, stored, strict=True):
            answers[place] = self._created(timer, existing)
        created = [each[0] for each in answers.values() if isinstance(each, tuple) and each[1]]
        for group in {timer.group for timer in created}:
            await self._groups.make_anew(caller, group)
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

    async def insert(self, caller: Caller, timer: Timer, missing: Group | None) -> Answer | None:
        """Write a timer, and before it the group that is missing, if one is.

        None: somebody else has made that group, and not as the draft has it.
        """
        await self._meter.admit(timer)
        try:
            await self._brake.slow(timer.execute_at)
            if missing is not None and not await self._groups.make(caller, missing):
                self._meter.withdraw(timer)
                return None
            answer = self._created(timer, await self._ledger.insert(timer))
        except BaseException as error:
            self._meter.withdraw(timer)  # it may be there all the same: the next count will tell
            self._latecomers.heed(error, caller, timer)
            raise
        if isinstance(answer, tuple) and answer[1]:
            await self._groups.make_anew(caller, timer.group)
            await self._audit.note_create(caller, "timer.create", timer.id, group=timer.group)
        return answer

    async def _draft(
        self,
        caller: Caller,
        bodies: Iterable[tuple[int, CreateTimer | DuetimeError]],
        batch: _Batch,
    ) -> None:
        """Draft what is to be written of these, which have their places, and answer the rest."""
        answers, tenant = batch.answers, caller.tenant
        refused: dict[int, CreateTimer] = {}
        there: set[str] = set()  # groups that were there a moment ago
        for count, (place, body) in enumerate(bodies, 1):
            if count % BREATH == 0:
                await batch.shift.breathe()
                there.clear()
            if isinstance(body, DuetimeError):
                answers[place] = body
                continue
            try:
                missing = None
                if body.group not in there:
                    missing = await self._missing(caller, body.group, batch, there)
                if not batch.has_met and not self._credentials.knows(tenant, body):
                    batch.has_met = await self._credentials.meet(tenant, body)
                batch.in_groups[body.group] += 1
                self._meter.check_batch(tenant, body.group, batch.in_groups[body.group])
                draft = self._drafts.new(tenant, body, self._clock.now())
                if self._meter.has_limits:
                    await self._meter.admit(draft)
                batch.drafts[place] = draft
                if missing is not None:
                    batch.wants(missing, place, body)
            except REFUSALS as error:
                answers[place] = error
                refused[place] = body
            except Unavailable as error:
                answers[place] = error
        answers.update(await self._made_before(caller, refused))

    async def _missing(
        self, caller: Caller, name: str, batch: _Batch, there: set[str]
    ) -> Group | None:
        """The group that is to be made first; one that need not be is noted as being there."""
        missing = await self._groups.missing(caller, name, look=not batch.has_looked)
        if missing is None:
            there.add(name)
        else:
            batch.has_looked = True
        return missing

    async def _make_groups(self, caller: Caller, batch: _Batch) -> list[tuple[int, CreateTimer]]:
        """Make the groups that are missing; the answer is what must be drafted anew.

        That is what was drafted for a group that somebody else has made otherwise meanwhile.
        """
        again: list[tuple[int, CreateTimer]] = []
        missing, batch.missing = batch.missing, {}
        for group, bodies in missing.values():
            try:
                if await self._groups.make(caller, group):
                    continue
                again.extend(bodies.items())
            except (Conflict, Unavailable) as error:
                batch.answers.update(dict.fromkeys(bodies, error))
            batch.in_groups[group.name] -= len(bodies)
            self._meter.withdraw(*(batch.drafts.pop(place) for place in bodies))
        return again

    async def _repeated(
        self,
        caller: Caller,
        bodies: Iterable[CreateTimer | DuetimeError],
        refusal: DuetimeError,
        *,
        count: int,
        size: int,
    ) -> list[Answer]:
        """Refuse a batch as a whole, unless it was sent before: then each is answered by itself.

        That is told by its first timers, so that a refusal stays cheap, however long the batch is.
        """
        rest = iter(bodies)
        first = list(islice(rest, SAMPLE))
        if not await self._made_before(caller, dict(enumerate(first))):
            raise refusal
        room = await self._ledger.room_for(count, size)
        try:
            shift = self._shifts.begin(count)
            sent: dict[int, CreateTimer | DuetimeError] = {}
            for place, body in enumerate(chain(first, rest)):
                if place % BREATH == BREATH - 1:
                    await shift.breathe()
                sent[place] = body
            made = await self._made_before(caller, sent)
        finally:
            room.leave()
        return [
            made.get(place) or (body if isinstance(body, DuetimeError) else refusal)
            for place, body in sent.items()
        ]

    async def _made_before(
        self, caller: Caller, bodies: Mapping[int, CreateTimer | DuetimeError]
    ) -> dict[int, tuple[Timer, bool]]:
        """By their places, the timers that the very same bodies have made already.

        A request that is repeated because its answer was lost may by then ask for the past, or for
        more than a quota has left: the timer that is there is the answer all the same.
        """
        keyed = {
            place: body
            for place, body in bodies.items()
            if isinstance(body, CreateTimer)
            and body.timer_id is not None
            and caller.sees_group(body.group)
        }
        found: list[Timer | None] = []
        wanted = [(body.group, body.timer_id or "") for body in keyed.values()]
        keys = await self._groups.locate_all(caller.tenant, wanted)
        for start in range(0, len(keys), PORTION):
            found += await self._ledger.get_by_key(keys[start : start + PORTION])
        return {
            place: (timer, False)
            for (place, body), timer in zip(keyed.items(), found, strict=True)
            if timer is not None and timer.fingerprint == fingerprint(body)
        }

    def _created(self, timer: Timer, existing: Timer | Unavailable | None) -> Answer:
        """What to say of a create, by what the ledger says of its key."""
        if existing is None:
            self._meter.made(timer)
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
