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

from duetime import model
from duetime.brake import Brake
from duetime.clock import Clock, Millis
from duetime.delivery import Sender
from duetime.drafts import Drafts, fingerprint
from duetime.errors import (
    Conflict,
    DuetimeError,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
    Unavailable,
)
from duetime.layout import Layout
from duetime.ledger import DEFAULT_LIMITS, Ledger, Limits
from duetime.model import Attempt, Status, Timer
from duetime.nodes import NodeStatus
from duetime.requests import LARGEST_BODY, CreateTimer, UpdateTimer
from duetime.stores import Change, Key, Page, Query, Store

# How often a change is tried anew on a timer that keeps changing under it.
MOST_TRIES = 20


class EngineStatus(msgspec.Struct, frozen=True):
    """How the engine of this node is doing."""

    alive: bool  # every part of it has made a pass lately
    writable: bool  # its last heartbeat was written
    behind_ms: Millis  # how late the most overdue timer is that it has in sight


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
        layout: Layout | None = None,
        max_timer: int = LARGEST_BODY,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.clock = clock
        self.counts = store.traits.counts  # whether a list can tell how many there are
        self._engine = engine
        self._layout = layout or Layout(store.traits.num_shards)
        self._drafts = Drafts(sender, self._layout, min_delay=min_delay, max_timer=max_timer)
        self._ledger = Ledger(store, clock, limits)
        self._brake = None if engine is None else Brake(clock, engine.lag)

    # Creating ---------------------------------------------------------------------------------

    async def create(self, tenant: str, body: CreateTimer) -> tuple[Timer, bool]:
        """Create a timer; also tells whether it is new or was there already."""
        self._ledger.check_creates()
        try:
            timer = self._drafts.new(tenant, body, self.clock.now())
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
        room = await self._ledger.room_for(count, size)
        try:
            drafts = await self._drafted(tenant, bodies)
            timers = [draft for draft in drafts if isinstance(draft, Timer)]
            if timers:
                await self._slow(min(timer.execute_at for timer in timers))
        except BaseException:
            room.leave()
            raise
        stored = iter(await self._ledger.insert_many(timers, room))
        return [
            self._settled(draft, next(stored)) if isinstance(draft, Timer) else draft
            for draft in drafts
        ]

    async def put(
        self, tenant: str, body: CreateTimer, if_match: int | None = None
    ) -> tuple[Timer, bool]:
        """Create the timer with this key, or give it new content; tells whether it is new."""
        fresh = self._drafts.new(tenant, body, self.clock.now())
        key = self._layout.key_of(tenant, fresh.group, fresh.timer_id)
        for _ in range(MOST_TRIES):
            old = await self._ledger.get_for_change(key)
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
        [timer] = await self._ledger.get_by_key([self._layout.key_of(tenant, group, timer_id)])
        return _found(tenant, timer)

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
            return self._drafts.updated(timer, body, now)

        return await self._change(tenant, id_, updated, if_match)

    async def cancel(self, tenant: str, id_: str, if_match: int | None = None) -> Timer:
        """Make sure that a timer never starts."""
        return await self._change(tenant, id_, _canceled, if_match)

    async def cancel_by_key(
        self, tenant: str, group: str, timer_id: str, if_match: int | None = None
    ) -> Timer:
        """Make sure that the timer with this key never starts."""
        return await self._change(
            tenant, self._layout.key_of(tenant, group, timer_id), _canceled, if_match
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

    # Batches ----------------------------------------------------------------------------------

    async def _drafted(
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
        keys = [self._layout.key_of(tenant, body.group, body.timer_id or "") for body in bodies]
        found = await self._ledger.get_by_key(keys)
        return [
            timer if timer is not None and timer.fingerprint == fingerprint(body) else None
            for body, timer in zip(bodies, found, strict=True)
        ]

    def _draft(self, tenant: str, body: CreateTimer | DuetimeError) -> Timer | DuetimeError:
        if isinstance(body, DuetimeError):
            return body
        try:
            return self._drafts.new(tenant, body, self.clock.now())
        except DuetimeError as error:
            return error

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
            old = _found(tenant, await self._ledger.get_for_change(which))
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
