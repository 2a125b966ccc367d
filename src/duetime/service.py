"""The use cases: all that a user can do with timers, whichever way the request came in.

A call is answered only after its write is durable. Calls that arrive together share a write. When
the store or the engine cannot keep up, calls wait, and then are refused before anything is written.
Losing a race against another change is no error here: the timer is read again and the change
is tried on what it has become.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

import msgspec
from msgspec import UNSET

from duetime import ids, model
from duetime.brake import Brake
from duetime.clock import Clock, Millis
from duetime.delivery import Sender
from duetime.durations import format_duration
from duetime.errors import (
    Conflict,
    DuetimeError,
    InvalidRequest,
    NotFound,
    PayloadTooLarge,
    PreconditionFailed,
    Unavailable,
)
from duetime.ledger import DEFAULT_NUM_SHARDS, UNLESS_TOLD, Ledger, Limits
from duetime.model import LIGHTEST, Attempt, Spec, Status, Timer
from duetime.nodes import EngineStatus, NodeStatus
from duetime.requests import (
    LARGEST_BODY,
    CreateTimer,
    UpdateTimer,
    fingerprint,
    to_callback,
    to_millis,
    to_retry_policy,
    to_time,
)
from duetime.stores import Change, Key, Page, Query, Store
from duetime.stores.traits import Traits

# How often a change is tried anew on a timer that keeps changing under it.
MOST_TRIES = 20


class EngineView(Protocol):
    """What the use cases need of the engine."""

    def notice(self, timer: Timer) -> None:
        """Take note of a timer that was just written, so that it need not be found by a poll."""

    def status(self) -> EngineStatus:
        """How it is doing."""

    def nodes(self) -> list[NodeStatus]:
        """Every node that is known."""

    def shares(self) -> dict[str, list[int]]:
        """Which shards fall to whom, as this node sees it."""

    def lag(self) -> Millis:
        """How late it is by its own fault; see the brake."""


class Service:
    """The use cases on timers."""

    def __init__(
        self,
        store: Store,
        sender: Sender,
        clock: Clock,
        *,
        engine: EngineView | None = None,
        min_delay: Millis = 0,
        num_shards: int = DEFAULT_NUM_SHARDS,
        max_timer: int = LARGEST_BODY,
        limits: Limits = UNLESS_TOLD,
    ) -> None:
        self._sender = sender
        self.clock = clock
        self._engine = engine
        self._min_delay = min_delay
        self._max_timer = max_timer
        self._ledger = Ledger(store, clock, limits, num_shards)
        self._brake = None if engine is None else Brake(clock, engine.lag)

    # Creating ---------------------------------------------------------------------------------

    async def create(self, tenant: str, body: CreateTimer) -> tuple[Timer, bool]:
        """Create a timer; also tells whether it is new or was there already."""
        self._ledger.creates.check()
        try:
            timer = self._new_timer(tenant, body)
        except InvalidRequest:
            if body.timer_id is not None:
                [made] = await self._made_before(tenant, [body])
                if made is not None:
                    return made, False
            raise
        if self._brake is not None:
            await self._brake.slow(timer.execute_at)
        return self._created(timer, await self._ledger.insert(timer))

    async def create_many(
        self,
        tenant: str,
        bodies: Iterable[CreateTimer | DuetimeError],
        *,
        count: int,
        size: int,
    ) -> list[tuple[Timer, bool] | DuetimeError]:
        """Create many timers; one timer's failure never stops the others.

        So many of them, and of so many bytes: they are only looked at once there is room for all.
        """
        weight = size + count * LIGHTEST
        await self._ledger.creates.enter(count, weight)
        try:
            drafts = await self._drafts(tenant, bodies)
            timers = [draft for draft in drafts if isinstance(draft, Timer)]
            if timers:
                await self._slow(min(timer.execute_at for timer in timers))
        except BaseException:
            self._ledger.creates.leave(count, weight)
            raise
        stored = iter(await self._ledger.insert_many(timers, count=count, weight=weight))
        return [
            self._settled(draft, next(stored)) if isinstance(draft, Timer) else draft
            for draft in drafts
        ]

    async def put(
        self, tenant: str, body: CreateTimer, if_match: int | None = None
    ) -> tuple[Timer, bool]:
        """Create the timer with this key, or give it new content; tells whether it is new."""
        fresh = self._new_timer(tenant, body)
        key = self._ledger.key_of(tenant, fresh.group, fresh.timer_id)
        for _ in range(MOST_TRIES):
            old = await self._ledger.to_change(key)
            if old is None:
                if if_match is not None:
                    raise PreconditionFailed("there is no such timer yet")
                with suppress(Conflict):  # somebody was faster: this one replaces theirs
                    timer, is_new = await self.create(tenant, body)
                    if is_new:
                        return timer, True
                continue
            _check_version(old, if_match)
            new = model.replace(
                old,
                self.clock.now(),
                spec=fresh.spec,
                execute_at=fresh.execute_at,
                fingerprint=fresh.fingerprint,
            )
            await self._slow(new.execute_at)
            if await self._apply(Change(old, new)):
                return new, False
        raise _keeps_changing()

    # Reading ----------------------------------------------------------------------------------

    async def get(self, tenant: str, id_: str) -> Timer:
        """The timer with this id."""
        return _found(tenant, await self._ledger.get(id_))

    async def get_by_key(self, tenant: str, group: str, timer_id: str) -> Timer:
        """The timer with this key."""
        [timer] = await self._ledger.get_by_key([self._ledger.key_of(tenant, group, timer_id)])
        return _found(tenant, timer)

    @property
    def traits(self) -> Traits:
        """What the store can do."""
        return self._ledger.traits

    async def search(self, query: Query) -> Page:
        """A page of a tenant's timers."""
        return await self._ledger.search(query)

    async def attempts(
        self, tenant: str, id_: str, after: tuple[int, int] | None, limit: int
    ) -> list[Attempt]:
        """A timer's execution log."""
        timer = await self.get(tenant, id_)
        return await self._ledger.attempts(timer.id, after, limit)

    # Changing ---------------------------------------------------------------------------------

    async def update(
        self, tenant: str, id_: str, body: UpdateTimer, if_match: int | None = None
    ) -> Timer:
        """Change what a waiting timer will do, or when."""

        def updated(timer: Timer, now: Millis) -> Timer:
            model.check("update", timer)
            execute_at = self._execute_at(body, now)
            return model.update(
                timer,
                now,
                spec=self._updated_spec(timer.spec, body),
                execute_at=timer.execute_at if execute_at is None else execute_at,
            )

        return await self._change(tenant, id_, updated, if_match)

    async def cancel(self, tenant: str, id_: str, if_match: int | None = None) -> Timer:
        """Make sure that a timer never starts."""
        return await self._change(tenant, id_, _canceled, if_match)

    async def cancel_by_key(
        self, tenant: str, group: str, timer_id: str, if_match: int | None = None
    ) -> Timer:
        """Make sure that the timer with this key never starts."""
        return await self._change(
            tenant, self._ledger.key_of(tenant, group, timer_id), _canceled, if_match
        )

    async def pause(self, tenant: str, id_: str, if_match: int | None = None) -> Timer:
        """Hold a timer back until it is resumed."""
        return await self._change(tenant, id_, model.pause, if_match)

    async def resume(self, tenant: str, id_: str, if_match: int | None = None) -> Timer:
        """Let a paused timer go on."""
        return await self._change(tenant, id_, model.resume, if_match)

    async def fire(self, tenant: str, id_: str, if_match: int | None = None) -> Timer:
        """Make a waiting timer due now."""
        return await self._change(tenant, id_, model.fire, if_match)

    # Health and nodes -------------------------------------------------------------------------

    async def ping(self) -> None:
        """Ask the store for a sign of life."""
        await self._ledger.ping()

    def engine_status(self) -> EngineStatus | None:
        """How the engine of this node is doing, if it has one."""
        return None if self._engine is None else self._engine.status()

    def nodes(self) -> list[NodeStatus]:
        """Every node that the engine of this one knows, if it has one."""
        return [] if self._engine is None else self._engine.nodes()

    def shares(self) -> dict[str, list[int]]:
        """Which shards fall to whom, as this node sees it."""
        return {} if self._engine is None else self._engine.shares()

    def now(self) -> Millis:
        """The time by this node's clock."""
        return self.clock.now()

    # Building timers --------------------------------------------------------------------------

    def _new_timer(self, tenant: str, body: CreateTimer) -> Timer:
        now = self.clock.now()
        execute_at = self._execute_at(body, now)
        if execute_at is None:
            raise InvalidRequest("execute_at: required, or delay")
        if body.timer_id is None:
            shard = ids.spread_shard(self._ledger.num_shards)
        else:
            shard = self._ledger.key_of(tenant, body.group, body.timer_id).shard
        id_ = ids.new_id(now, shard)
        callback = to_callback(body.callback)
        if (problem := self._sender.problem(callback)) is not None:
            raise InvalidRequest(problem)
        return Timer(
            id=id_,
            tenant=tenant,
            group=body.group,
            timer_id=body.timer_id or id_,
            execute_at=execute_at,
            wake_at=execute_at,
            created_at=now,
            updated_at=now,
            spec=Spec(
                callback=callback,
                name=body.name,
                tags=_distinct(body.tags),
                metadata=UNSET if body.metadata is UNSET else body.metadata.copy(),
                correlation_id=body.correlation_id or id_,
                retry_policy=to_retry_policy(body.retry_policy),
                deadline=None if body.deadline is None else to_millis(body.deadline, "deadline"),
            ),
            fingerprint=None if body.timer_id is None else fingerprint(body),
        )

    async def _drafts(
        self, tenant: str, bodies: Iterable[CreateTimer | DuetimeError]
    ) -> list[Timer | tuple[Timer, bool] | DuetimeError]:
        drafts: list[Timer | tuple[Timer, bool] | DuetimeError] = []
        refused: list[tuple[int, CreateTimer]] = []
        for place, body in enumerate(bodies):
            drafts.append(draft := self._draft(tenant, body))
            if (
                isinstance(draft, InvalidRequest)
                and isinstance(body, CreateTimer)
                and body.timer_id
            ):
                refused.append((place, body))
        made = await self._made_before(tenant, [body for _, body in refused])
        for (place, _), timer in zip(refused, made, strict=True):
            if timer is not None:
                drafts[place] = timer, False
        return drafts

    async def _made_before(self, tenant: str, bodies: list[CreateTimer]) -> list[Timer | None]:
        """For bodies with a timer_id, the timer that the very same one made, if one did.

        A request that is repeated because its answer was lost may by then ask for the past.
        """
        if not bodies:
            return []
        keys = [self._ledger.key_of(tenant, body.group, body.timer_id or "") for body in bodies]
        found = await self._ledger.get_by_key(keys)
        return [
            timer if timer is not None and timer.fingerprint == fingerprint(body) else None
            for body, timer in zip(bodies, found, strict=True)
        ]

    def _draft(self, tenant: str, body: CreateTimer | DuetimeError) -> Timer | DuetimeError:
        if isinstance(body, DuetimeError):
            return body
        try:
            return self._new_timer(tenant, body)
        except DuetimeError as error:
            return error

    def _updated_spec(self, spec: Spec, body: UpdateTimer) -> Spec:
        changes: dict[str, object] = {}
        if body.callback is not UNSET:
            callback = to_callback(body.callback)
            if (problem := self._sender.problem(callback)) is not None:
                raise InvalidRequest(problem)
            changes["callback"] = callback
        if body.name is not UNSET:
            changes["name"] = body.name
        if body.tags is not UNSET:
            changes["tags"] = _distinct(body.tags)
        if body.metadata is not UNSET:
            changes["metadata"] = body.metadata.copy()
        if body.retry_policy is not UNSET:
            changes["retry_policy"] = to_retry_policy(body.retry_policy)
        if body.deadline is not UNSET:
            changes["deadline"] = body.deadline and to_millis(body.deadline, "deadline")
        new = msgspec.structs.replace(spec, **changes) if changes else spec
        self._check_size(spec, new)
        return new

    def _check_size(self, old: Spec, new: Spec) -> None:
        """Refuse to make more of a timer, part by part, than one request could have made."""
        if new.weight <= old.weight:
            return
        if len(msgspec.json.encode(new)) > self._max_timer + LIGHTEST:
            raise PayloadTooLarge(
                f"timer: must be at most {self._max_timer} bytes, with what is not changed"
            )

    def _execute_at(self, body: CreateTimer | UpdateTimer, now: Millis) -> Millis | None:
        execute_at = None if body.execute_at is UNSET else body.execute_at
        delay = None if body.delay is UNSET else body.delay
        timezone = None if body.timezone is UNSET else body.timezone
        if execute_at is not None:
            if delay is not None:
                raise InvalidRequest("delay: cannot be given together with execute_at")
            at = to_time(execute_at, "execute_at", timezone, in_zones=True)
            if at < now + self._min_delay:
                raise InvalidRequest("execute_at must be in the future")
            return at
        if timezone is not None:
            raise InvalidRequest("timezone: goes with an execute_at that has no offset")
        if delay is None:
            return None
        wait = to_millis(delay, "delay")
        if wait < self._min_delay:
            shortest = format_duration(self._min_delay)
            raise InvalidRequest(f"delay: must be at least {shortest} on this server")
        return now + wait

    # Writing ----------------------------------------------------------------------------------

    def _created(self, timer: Timer, existing: Timer | None) -> tuple[Timer, bool]:
        if existing is None:
            self._notice(timer)
            return timer, True
        if existing.fingerprint is not None and existing.fingerprint == timer.fingerprint:
            return existing, False
        raise Conflict(
            f"timer_id: '{timer.timer_id}' in group '{timer.group}' has other content already"
        )

    def _settled(
        self, timer: Timer, existing: Timer | Unavailable | None
    ) -> tuple[Timer, bool] | DuetimeError:
        if isinstance(existing, Unavailable):
            return existing
        try:
            return self._created(timer, existing)
        except Conflict as error:
            return error

    async def _change(
        self,
        tenant: str,
        which: str | Key,
        transition: Callable[[Timer, Millis], Timer],
        if_match: int | None,
    ) -> Timer:
        for _ in range(MOST_TRIES):
            old = _found(tenant, await self._ledger.to_change(which))
            _check_version(old, if_match)
            new = transition(old, self.clock.now())
            if new is old or await self._apply(Change(old, new)):
                return new
        raise _keeps_changing()

    async def _apply(self, change: Change) -> bool:
        won = await self._ledger.apply(change)
        if won:
            self._notice(change.new)
        return won

    async def _slow(self, execute_at: Millis) -> None:
        if self._brake is not None:
            await self._brake.slow(execute_at)

    def _notice(self, timer: Timer) -> None:
        if self._engine is not None:
            self._engine.notice(timer)


def _found(tenant: str, timer: Timer | None) -> Timer:
    if timer is None or timer.tenant != tenant:
        raise NotFound("timer not found")
    return timer


def _keeps_changing() -> Unavailable:
    return Unavailable("the timer keeps changing; nothing was written, try again")


def _canceled(timer: Timer, now: Millis) -> Timer:
    # A repeated cancel is the answer to a lost response, not a mistake.
    return timer if timer.status is Status.CANCELED else model.cancel(timer, now)


def _check_version(timer: Timer, if_match: int | None) -> None:
    if if_match is not None and timer.version != if_match:
        raise PreconditionFailed(f"version is {timer.version}, not {if_match}")


def _distinct(tags: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tags))
