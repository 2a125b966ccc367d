"""The use cases: all that a user can do with timers, whichever way the request came in.

A call is answered only after its write is durable. Calls that arrive together share a write. When
the store or the engine cannot keep up, calls wait, and then are refused before anything is written.
Losing a race against another change is no error here: the timer is read again and the change
is tried on what it has become.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from msgspec import UNSET

from duetime import model
from duetime.audit_pages import AuditReader
from duetime.auditing import Audit
from duetime.brake import Brake
from duetime.bulk.action import Action
from duetime.bulk.actions import Actions
from duetime.bulk.group_actions import GroupActions
from duetime.clock import Clock, Millis
from duetime.creates import Answer, Creates
from duetime.delivery import Sender
from duetime.drafts import Drafts
from duetime.engine_view import Chores, EngineView, told_of_targets
from duetime.errors import (
    DuetimeError,
    NotFound,
    PreconditionFailed,
    StoreError,
    Unanswered,
    Unavailable,
)
from duetime.events.hub import Hub
from duetime.latecomers import Latecomers
from duetime.layout import Layout
from duetime.ledger import DEFAULT_LIMITS, Ledger, Limits
from duetime.listing import Lists
from duetime.nodes import EngineStatus, NodeStatus
from duetime.requests import LARGEST_BODY, CreateTimer, UpdateTimer
from duetime.searching import Filter, Part
from duetime.stores import Change, Key, Page, Store
from duetime.stories import Stories
from duetime.tenancy.api_keys import ApiKeys
from duetime.tenancy.caller import Caller
from duetime.tenancy.credentials import Credentials
from duetime.tenancy.group import Group
from duetime.tenancy.groups import Groups
from duetime.tenancy.meter import Meter
from duetime.tenancy.resealing import Resealing
from duetime.tenancy.rules import Rules
from duetime.tenancy.signing_secrets import SigningSecrets
from duetime.tenancy.targets import Targets
from duetime.tenancy.tenants import Tenants
from duetime.tenancy.usage import Usages
from duetime.tenancy.uses import Uses
from duetime.timer import Attempt, Status, Timer
from duetime.vault import Vault

# How often a change is tried anew on a timer that keeps changing under it.
MOST_TRIES = 20


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
        rules: Rules | None = None,
        meter: Meter | None = None,
        audit: Audit | None = None,
        are_groups_made_by_timers: bool = True,
        vault: Vault | None = None,
        live: Hub | None = None,
    ) -> None:
        self.clock = clock
        self.live = live  # None: no events are kept
        self.rules = rules or Rules(store, clock)
        self.meter = meter or Meter(self.rules, store, clock)
        self.audit = audit or Audit(store, clock)
        self.uses = Uses(store, self.rules)
        self.tenants = Tenants(self.rules, store, clock, self.audit, self.uses)
        self.keys = ApiKeys(self.rules, self.tenants, self.uses, clock, self.audit)
        self.groups = Groups(
            self.rules,
            store,
            sender,
            clock,
            self.audit,
            layout=layout or Layout(store.traits.num_shards),
            are_made_by_timers=are_groups_made_by_timers,
        )
        vault = vault or Vault()
        self.signing_secrets = SigningSecrets(self.rules, self.groups, vault, clock, self.audit)
        self.resealing = Resealing(self.rules, vault, self.audit)
        self.credentials = Credentials(self.rules, sender, clock, self.audit, vault)
        self._engine = engine
        self.targets = Targets(
            self.rules, store, sender, clock, self.audit, told=partial(told_of_targets, engine)
        )
        self._drafts = Drafts(
            sender, self.groups, self.credentials, min_delay=min_delay, max_timer=max_timer
        )
        self._ledger = Ledger(store, clock, limits)
        self._lists = Lists(self._ledger.search, counts=store.traits.counts)
        self.actions = Actions(
            store,
            clock,
            rules=self.rules,
            groups=self.groups,
            drafts=self._drafts,
            audit=self.audit,
            updated=self._updated,
            notice=self._changed_in_bulk,
        )
        self._group_actions = GroupActions(store, clock, self.groups, self.actions)
        self._brake = Brake(clock, _no_lag if engine is None else engine.lag)
        self._latecomers = Latecomers(self._ledger, self.groups)
        self._creates = Creates(
            self._ledger,
            clock,
            drafts=self._drafts,
            groups=self.groups,
            credentials=self.credentials,
            meter=self.meter,
            brake=self._brake,
            audit=self.audit,
            latecomers=self._latecomers,
            notice=self._notice,
        )
        self.stories = Stories(
            store,
            clock,
            rules=self.rules,
            groups=self.groups,
            meter=self.meter,
            notice=self._notice,
        )
        self.usages = Usages(self.rules, self.meter)
        self.audit_reader = AuditReader(self._ledger.lines)

    # Creating ---------------------------------------------------------------------------------

    async def create(
        self, caller: Caller, body: CreateTimer, sent_at: Millis | None = None
    ) -> tuple[Timer, bool]:
        """Create a timer; also tells whether it is new or was there already.

        ``sent_at``: when it was asked for, if that was earlier; its time is told by that.
        """
        return await self._creates.create(caller, body, sent_at)

    async def create_many(
        self,
        caller: Caller,
        bodies: Iterable[CreateTimer | DuetimeError],
        *,
        count: int,
        size: int,
    ) -> list[Answer]:
        """Create many timers, so many and of so many bytes; one's failure stops no other."""
        return await self._creates.create_many(caller, bodies, count=count, size=size)

    async def put(
        self, caller: Caller, body: CreateTimer, if_match: int | None = None
    ) -> tuple[Timer, bool]:
        """Create the timer with this key, or give it new content; tells whether it is new."""
        for _ in range(MOST_TRIES):
            missing = await self.groups.missing(caller, body.group)
            await self.credentials.meet(caller.tenant, body)
            # Anew for each try: stores rely on it that an id which was in doubt is not used again.
            fresh = self._drafts.new(caller.tenant, body, self.clock.now())
            old = await self._ledger.get_for_change(Key.of(fresh), caller.tenant)
            if old is None:
                if if_match is not None:
                    raise PreconditionFailed("there is no such timer yet")
                answer = await self._creates.insert(caller, fresh, missing)
                if isinstance(answer, tuple) and answer[1]:
                    return answer
                continue  # somebody was faster: this one replaces theirs
            _check_version(old, if_match)
            new = model.replace(
                old,
                self.clock.now(),
                spec=fresh.spec,
                execute_at=fresh.execute_at,
                fingerprint=fresh.fingerprint,
            )
            await self.meter.admit(new, old)
            try:
                await self._brake.slow(new.execute_at)
                if missing is not None and not await self.groups.make(caller, missing):
                    continue
                is_replaced = await self._apply(Change(old, new))
            except Unanswered as doubt:
                self._latecomers.heed(doubt, caller, new)
                raise
            finally:
                # If it had a place: it counts as changed by now, or was not.
                self.meter.withdraw(new)
            if is_replaced:
                await self.groups.make_anew(caller, body.group)
                await self._note(caller, "timer.replace", new)
                return new, False
        raise _keeps_changing()

    # Reading ----------------------------------------------------------------------------------

    async def get(self, caller: Caller, id_: str) -> Timer:
        """The timer with this id."""
        return _found(caller, await self._ledger.get(id_, caller.tenant))

    async def get_by_key(self, caller: Caller, group: str, timer_id: str) -> Timer:
        """The timer with this key."""
        key = await self.groups.locate(caller, group, timer_id)
        [timer] = await self._ledger.get_by_key([key])
        return _found(caller, timer)

    async def search(self, caller: Caller, wanted: Filter, part: Part) -> Page:
        """A page of what somebody looks for, of the timers that there are for them, in short."""
        return await self._lists.page(caller, wanted, part)

    async def attempts(
        self, caller: Caller, id_: str, after: tuple[int, int] | None, limit: int
    ) -> list[Attempt]:
        """A timer's execution log."""
        timer = await self.get(caller, id_)
        return await self._ledger.attempts(timer.id, after, limit)

    # Changing ---------------------------------------------------------------------------------

    async def update(
        self, caller: Caller, which: str | Key, body: UpdateTimer, if_match: int | None = None
    ) -> Timer:
        """Change what a waiting timer will do, or when: the one with this id, or this key."""

        def updated(timer: Timer, now: Millis) -> Timer:
            return self._updated(timer, body, now)

        await self.credentials.meet(caller.tenant, body)
        return await self._change(caller, "timer.update", which, updated, if_match)

    async def update_by_key(
        self,
        caller: Caller,
        group: str,
        timer_id: str,
        body: UpdateTimer,
        if_match: int | None = None,
    ) -> Timer:
        """Change what the waiting timer with this key will do, or when."""
        key = await self.groups.locate(caller, group, timer_id)
        return await self.update(caller, key, body, if_match)

    async def cancel(self, caller: Caller, id_: str, if_match: int | None = None) -> Timer:
        """Make sure that a timer never starts."""
        return await self._change(caller, "timer.cancel", id_, _canceled, if_match)

    async def cancel_by_key(
        self, caller: Caller, group: str, timer_id: str, if_match: int | None = None
    ) -> Timer:
        """Make sure that the timer with this key never starts."""
        key = await self.groups.locate(caller, group, timer_id)
        return await self._change(caller, "timer.cancel", key, _canceled, if_match)

    async def pause(self, caller: Caller, id_: str, if_match: int | None = None) -> Timer:
        """Hold a timer back until it is resumed."""
        return await self._change(caller, "timer.pause", id_, model.pause, if_match)

    async def resume(self, caller: Caller, id_: str, if_match: int | None = None) -> Timer:
        """Let a paused timer go on."""
        return await self._change(caller, "timer.resume", id_, model.resume, if_match)

    async def fire(self, caller: Caller, id_: str, if_match: int | None = None) -> Timer:
        """Make a waiting timer due now."""
        return await self._change(caller, "timer.fire", id_, model.fire, if_match)

    async def redrive(self, caller: Caller, id_: str, if_match: int | None = None) -> Timer:
        """Try a timer again that has failed."""
        return await self._change(caller, "timer.redrive", id_, model.redrive, if_match)

    # Groups with their timers --------------------------------------------------------------------

    async def delete_group(self, caller: Caller, name: str, *, cancel: bool) -> Action | None:
        """Take a group away; Conflict while something of it is still to come.

        The answer is the action that cancels its timers first, if that takes longer.
        """
        return await self._group_actions.delete(caller, name, cancel=cancel)

    async def resume_group(self, caller: Caller, name: str) -> Group:
        """Start timers of a group again, and see to what fell due meanwhile by its rule."""
        return await self._group_actions.resume(caller, name)

    def add_chores(self, engine: Chores) -> None:
        """Have all done that is to be done now and then, beside the timers."""
        engine.add_chore("audit", self.audit.step)
        engine.add_chore("uses of keys", self.uses.step)
        engine.add_chore("meter", self.meter.step)
        self.actions.wake = engine.add_chore("actions", self.actions.step)
        self.stories.failures = engine.failures
        engine.failures.wake = engine.add_chore("stories", self.stories.step)

    async def close(self) -> None:
        """Write what is still to be written."""
        await self.audit.close()
        with suppress(StoreError):
            await self.uses.step()

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

    def waiting_for(self, timer: Timer) -> str | None:
        """Why a timer that is due has not been started, if its target is the reason."""
        if timer.status is not Status.PENDING or timer.progress.held_since is not None:
            return None
        if timer.wake_at is None or timer.wake_at > self.clock.now():
            return None
        return self.targets.waiting_for(timer.tenant, timer.spec.callback)

    # Writing ----------------------------------------------------------------------------------

    async def _change(
        self,
        caller: Caller,
        action: str,
        which: str | Key,
        transition: Callable[[Timer, Millis], Timer],
        if_match: int | None,
    ) -> Timer:
        for _ in range(MOST_TRIES):
            old = _found(caller, await self._ledger.get_for_change(which, caller.tenant))
            _check_version(old, if_match)
            new = transition(old, self.clock.now())
            # One that is repeated is told again: the line of the first may be what failed.
            if new is old or await self._apply(Change(old, new)):
                await self._note(caller, action, new)
                return new
        raise _keeps_changing()

    async def _apply(self, change: Change) -> bool:
        since = self.clock.monotonic()
        won = await self._ledger.apply(change)
        if won:
            self.meter.changed(change.old, change.new, since)
            self._notice(change.new)
        return won

    async def _note(self, caller: Caller, action: str, timer: Timer) -> None:
        await self.audit.note(caller, action, "timer", timer.id, group=timer.group)

    def _updated(self, timer: Timer, body: UpdateTimer, now: Millis) -> Timer:
        new = self._drafts.updated(timer, body, now)
        if body.callback is not UNSET:
            self.meter.check_payload(new)
        return new

    def _changed_in_bulk(self, old: Timer, new: Timer | None, since: float) -> None:
        if new is not None:
            self.meter.changed(old, new, since)
            self._notice(new)
        else:
            self.meter.removed(old, since)

    def _notice(self, timer: Timer) -> None:
        if self._engine is not None:
            self._engine.notice(timer)


def _found(caller: Caller, timer: Timer | None) -> Timer:
    if timer is None or not caller.sees(timer):
        raise NotFound("timer not found")
    return timer


def _no_lag() -> Millis:
    return 0


def _keeps_changing() -> Unavailable:
    return Unavailable("the timer keeps changing; nothing was written, try again")


def _canceled(timer: Timer, now: Millis) -> Timer:
    # A repeated cancel is the answer to a lost response, not a mistake.
    return timer if timer.status is Status.CANCELED else model.cancel(timer, now)


def _check_version(timer: Timer, if_match: int | None) -> None:
    if if_match is not None and timer.version != if_match:
        raise PreconditionFailed(f"version is {timer.version}, not {if_match}")
