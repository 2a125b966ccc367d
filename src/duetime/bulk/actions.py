"""What can be done with actions: asked for, looked at, canceled; and the work on them."""

import math
from collections.abc import Callable

from msgspec import UNSET
from msgspec.structs import replace

from duetime import ids
from duetime.auditing import Audit
from duetime.bulk import action as documents
from duetime.bulk.action import Action, Actor, State, record_of
from duetime.bulk.archive import Archive
from duetime.bulk.batch import Batches, Notice, Updated
from duetime.bulk.clerk import TIDY_EVERY, Clerk
from duetime.bulk.conclusion import Conclusion
from duetime.bulk.requests import CreateAction, to_filter, to_shift, to_update
from duetime.clock import Clock
from duetime.drafts import Drafts
from duetime.errors import Conflict, InvalidRequest, NotFound, PayloadTooLarge, Unavailable
from duetime.model import DEFAULT_TENANT
from duetime.searching import Filter
from duetime.stores import Record, Store
from duetime.tenancy.caller import Caller
from duetime.tenancy.groups import Groups
from duetime.tenancy.rules import Rules

MOST_UNDER_WAY = 20  # of one tenant
MOST_TRIES = 50  # to change a record that its clerk writes again and again
KINDNESS = 1.0  # seconds that a request waits for an action that may soon have ended


def nobody_to_wake() -> None:
    """There is nobody who works on actions here."""


class Actions:
    """The use cases on actions. ``step`` is the work; ``wake`` calls those who do it."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        rules: Rules,
        groups: Groups,
        drafts: Drafts,
        audit: Audit,
        updated: Updated,
        notice: Notice,
    ) -> None:
        self.wake: Callable[[], None] = nobody_to_wake
        self._store = store
        self._clock = clock
        self._rules = rules
        self._drafts = drafts
        self._audit = audit
        self._archive = Archive(store, clock)
        conclusion = Conclusion(self._archive, groups, rules, audit)
        self._clerk = Clerk(
            store,
            clock,
            Batches(store, clock, updated, notice),
            conclude=conclusion.conclude,
            begun=conclusion.begun,
        )
        self._to_tidy: list[str] = []
        self._tidied_at = -math.inf

    async def create(self, caller: Caller, body: CreateAction) -> Action:
        """Do something to all timers that match, in the background."""
        update = to_update(body)
        if update is not None:
            try:
                self._drafts.check_update(update, self._clock.now())
            except (InvalidRequest, PayloadTooLarge) as error:
                raise InvalidRequest(f"update.{error}") from None
        action = self.new(caller, body.action, to_filter(body.filter))
        action = replace(action, dry_run=body.dry_run, by=to_shift(body), update=_copied(body))
        await self.start(action)
        await self._audit.note(
            caller,
            "action.create",
            "action",
            action.id,
            details={"action": body.action, "filter": _words(body), "dry_run": body.dry_run},
        )
        return await self.awaited(action, KINDNESS)

    def new(
        self, caller: Caller, verb: documents.Verb, wanted: Filter, state: State = "running"
    ) -> Action:
        """An action that nobody has written yet."""
        now = self._clock.now()
        return Action(
            id=ids.new_id(now, ids.spread_shard(ids.SHARDS)),
            tenant=caller.tenant,
            verb=verb,
            filter=wanted,
            groups=None if caller.groups is None else tuple(sorted(caller.groups)),
            # Also those of this very millisecond: whoever asks has made them before.
            created_before=now + 1,
            state=state,
            actor=Actor(caller.name, caller.key, caller.address, caller.correlation_id),
            created_at=now,
            updated_at=now,
            node=self._clerk.name if self.is_attended else None,
        )

    async def start(self, action: Action) -> None:
        """Write an action down; from here on it is worked on."""
        records = await self._store.records(documents.KIND)
        mine = sum(record.name.startswith(f"{action.tenant}/") for record in records)
        if mine >= MOST_UNDER_WAY:
            raise Conflict(
                f"action: a tenant has at most {MOST_UNDER_WAY} under way; wait for some to end"
            )
        await self._store.put_record(None, record_of(action, None))
        self._call_clerk()

    async def let_begin(self, action: Action) -> None:
        """Let an action begin that was only prepared."""
        found = await self._find(action)
        if found is not None and found[1].state == "prepared":
            await self._store.put_record(found[0], record_of(action, found[0]))
            self._call_clerk()

    async def drop(self, action: Action) -> None:
        """Take away an action that was only prepared."""
        found = await self._find(action)
        if found is not None and found[1].state == "prepared":
            await self._store.put_record(found[0], None)

    async def get(self, caller: Caller, id_: str) -> Action:
        """An action."""
        for action in await self.of(caller):
            if action.id == id_:
                return action
        raise NotFound("action not found")

    async def of(self, caller: Caller) -> list[Action]:
        """The actions that there are for somebody, newest first."""
        # In this order: one that ends meanwhile is found in both places, and not in neither.
        under_way = [action for _, action in await self._under_way(caller.tenant)]
        ended = await self._archive.of(caller.tenant)
        found = {action.id: action for action in (*under_way, *ended)}
        mine = [action for action in found.values() if action.is_seen_by(caller)]
        return sorted(mine, key=lambda action: action.id, reverse=True)

    async def cancel(self, caller: Caller, id_: str) -> Action:
        """Do no more than is done already; what is done stays done."""
        for _ in range(MOST_TRIES):
            action = await self.get(caller, id_)
            if action.verb == "let go" or action.then_delete is not None:
                raise Conflict("action: it belongs to a group, and must be done to its end")
            if action.state == "canceled" or action.is_canceling:
                return action
            if action.has_ended:
                raise Conflict(f"action: it has ended: {action.state}")
            found = await self._find(action)
            if found is None or found[1].has_ended:  # just now
                continue
            new = replace(found[1], is_canceling=True, updated_at=self._clock.now())
            if await self._store.put_record(found[0], record_of(new, found[0])):
                self._call_clerk()
                await self._audit.note(caller, "action.cancel", "action", id_)
                return await self.awaited(new, KINDNESS)
        raise Unavailable("the action keeps changing; nothing was written, try again")

    async def awaited(self, action: Action, seconds: float) -> Action:
        """The action as it is when it has ended, or after so long."""
        if self.is_attended:
            await self._clerk.wait_for(action.id, seconds)
        for _, each in await self._under_way(action.tenant):
            if each.id == action.id:
                return each
        ended = await self._archive.of(action.tenant)
        return next((each for each in ended if each.id == action.id), action)

    async def step(self) -> float:
        """Work on actions."""
        pause = await self._clerk.step()
        await self._tidy()
        return pause

    @property
    def is_attended(self) -> bool:
        """Tell whether somebody works on actions here."""
        return self.wake is not nobody_to_wake

    def _call_clerk(self) -> None:
        self._clerk.look_soon()
        self.wake()

    async def _under_way(self, tenant: str) -> list[tuple[Record, Action]]:
        records = await self._store.records(documents.KIND)
        mine = (record for record in records if record.name.startswith(f"{tenant}/"))
        return [(record, documents.read(record)) for record in mine]

    async def _find(self, action: Action) -> tuple[Record, Action] | None:
        found = await self._under_way(action.tenant)
        return next((each for each in found if each[1].id == action.id), None)

    async def _tidy(self) -> None:
        """Tidy the archive of one tenant, if it is time."""
        if self._to_tidy:
            await self._archive.tidy(self._to_tidy.pop())
        elif self._clock.monotonic() >= self._tidied_at + TIDY_EVERY:
            self._tidied_at = self._clock.monotonic()
            self._to_tidy = [DEFAULT_TENANT, *(tenant.name for tenant in self._rules.tenants)]


def _copied(body: CreateAction) -> documents.Update:
    return UNSET if body.update is UNSET else body.update.copy()


def _words(body: CreateAction) -> dict[str, object]:
    """The filter as it was asked for, for the audit."""
    given = {name: getattr(body.filter, name) for name in body.filter.__struct_fields__}
    return {name: value for name, value in given.items() if value not in (None, [], {}, False)}
