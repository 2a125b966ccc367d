"""What can be done with actions: asked for, looked at, canceled; and the work on them."""

import math
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

from msgspec import UNSET
from msgspec.structs import replace

from duetime import ids
from duetime.auditing import Audit
from duetime.bulk import action as documents
from duetime.bulk import mandate
from duetime.bulk.action import Action, Actor, State, record_of
from duetime.bulk.archive import MOST_KEPT, Archive, kind_of
from duetime.bulk.batch import Batches, Notice, Updated
from duetime.bulk.beginning import Beginning
from duetime.bulk.catalogue import Entry
from duetime.bulk.clerk import TIDY_EVERY, Clerk
from duetime.bulk.conclusion import Conclusion
from duetime.bulk.reading import Reading
from duetime.bulk.requests import CreateAction, to_shift, to_update, to_wanted
from duetime.clock import Clock
from duetime.drafts import Drafts
from duetime.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    PayloadTooLarge,
    StoreError,
    Unavailable,
)
from duetime.searching import EVERYTHING, Filter
from duetime.stores import Record, Store
from duetime.tenancy.caller import Caller
from duetime.tenancy.groups import Groups
from duetime.tenancy.newcomers import Newcomers
from duetime.tenancy.rules import Rules
from duetime.tenancy.tenants import check_stays
from duetime.timer import DEFAULT_TENANT

MOST_UNDER_WAY = 20  # of one tenant; nodes that find the last place free at once both take it
MOST_TRIES = 50  # to change a record that its clerk writes again and again
ENDING = ("cancel", "delete")  # what is done also for a tenant that is being deleted
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
        self._reads = Reading(store, clock, "read")
        # Those that a change begins with: whoever lists actions must not keep a cancel out.
        self._looks = Reading(store, clock, "changed")
        # And those that all who begin one wait for: none of them is behind an archive.
        self._counts = Reading(store, clock, "changed")
        self._beginning = Beginning(store, clock, rules, self._archive)
        conclusion = Conclusion(
            store, clock, archive=self._archive, groups=groups, rules=rules, audit=audit
        )
        self._clerk = Clerk(
            store,
            clock,
            Batches(store, clock, updated, notice),
            rules=rules,
            conclusion=conclusion,
            beginning=self._beginning,
        )
        self._newcomers = Newcomers()
        self._to_tidy: list[str] = []
        self._tidied_at = -math.inf

    async def create(
        self, caller: Caller, body: CreateAction, key: str | None = None
    ) -> tuple[Action, bool]:
        """Do something to all timers that match, in the background; tells whether it is new.

        The same once more with the same key is answered with what the first one has made.
        """
        fingerprint = None if key is None else documents.fingerprint(body, caller.groups)
        if key is not None and (made := await self._made_before(caller, key)) is not None:
            return await self._repeated(made, fingerprint), False
        if body.action not in ENDING:
            check_stays(self._rules.tenants.find(caller.tenant))
        update = to_update(body)
        if update is not None:
            try:
                self._drafts.check_update(update, self._clock.now())
            except (InvalidRequest, PayloadTooLarge) as error:
                raise InvalidRequest(f"update.{error}") from None
        action = self.new(caller, body.action, to_wanted(body))
        action = replace(
            action,
            dry_run=body.dry_run,
            by=to_shift(body),
            update=_copied(body),
            key=key,
            fingerprint=fingerprint,
        )
        made = await self._start_once(action)
        if made is not None:
            return await self._repeated(made, fingerprint), False
        await self.note_create(caller, action, _words(body))
        return await self.awaited(action, KINDNESS), True

    def new(
        self, caller: Caller, verb: documents.Verb, wanted: Filter, state: State = "running"
    ) -> Action:
        """An action that nobody has written yet."""
        now = self._clock.now()
        action = Action(
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
        return mandate.noted(action, self._rules)

    async def start(self, action: Action) -> Record | None:
        """Write an action down; from here on it is worked on. None: there is one of its name."""
        if action.is_of_group:  # a group that is paused must not have to wait for others
            return await self._write_down(action)
        with self._newcomers.coming(action.tenant, action.name) as others:
            await self._check_room(action.tenant, others)
            return await self._write_down(action)

    async def note_create(
        self, caller: Caller, action: Action, words: dict[str, object], **details: object
    ) -> None:
        """Write into the audit that an action was asked for, with its filter in words."""
        about = {"action": action.verb, "filter": words, "dry_run": action.dry_run, **details}
        await self._audit.note(
            caller, "action.create", "action", action.id, group=action.group, details=about
        )

    async def let_begin(self, action: Action, record: Record | None) -> None:
        """Let an action begin that was only prepared; ``record`` is what ``start`` has answered."""
        if record is None or not await self._store.put_record(record, record_of(action, record)):
            # It is written down: who asked must not hear of a look that fails now. A clerk has let
            # it begin, or will.
            with suppress(StoreError):
                await self._let_begin_anew(action)
        self._call_clerk()

    async def drop(self, action: Action, record: Record | None) -> None:
        """Take away an action that was only prepared; ``record`` is what ``start`` has answered."""
        if record is not None and await self._store.put_record(record, None):
            return
        if (found := await self._prepared(action)) is not None:
            await self._store.put_record(found[0], None)

    async def get(self, caller: Caller, id_: str) -> Action:
        """An action."""
        return await self._seen(caller, id_, self._reads)

    async def of(
        self, caller: Caller, *, before: str | None = None, most: int = MOST_KEPT
    ) -> list[Action]:
        """The newest actions that there are for somebody, of those with ids before this one."""
        # In this order: one that ends meanwhile is found in both places, and not in neither.
        under_way = await self._under_way(caller.tenant, self._reads, most)
        ended = await self._ended(caller.tenant, self._reads, most)
        found = {entry.label.id: entry for entry in (*under_way, *ended)}
        mine = [
            found[id_]
            for id_ in sorted(found, reverse=True)
            if (before is None or id_ < before) and found[id_].label.is_seen_by(caller)
        ]
        readable = (action for entry in mine if (action := entry.action) is not None)
        return list(islice(readable, most))

    async def cancel(self, caller: Caller, id_: str) -> Action:
        """Do no more than is done already; what is done stays done."""
        for _ in range(MOST_TRIES):
            action = await self._seen(caller, id_, self._looks)
            if action.is_of_group:
                raise Conflict("action: it belongs to a group, and must be done to its end")
            if action.state == "canceled" or action.is_canceling:
                return action
            if action.has_ended:
                raise Conflict(f"action: it has ended: {action.state}")
            found = await self._find(action)
            if found is None or found[1].has_ended:  # just now
                continue
            # Without its troubles: whoever rests from it must not rest on until it may end.
            new = replace(found[1], is_canceling=True, troubles=0, updated_at=self._clock.now())
            if await self._store.put_record(found[0], record_of(new, found[0])):
                self._call_clerk()
                await self._audit.note(caller, "action.cancel", "action", id_, group=new.group)
                return await self.awaited(new, KINDNESS)
        raise Unavailable("the action keeps changing; nothing was written, try again")

    async def awaited(self, action: Action, seconds: float) -> Action:
        """The action as it is when it has ended, or after so long."""
        if self.is_attended:
            await self._clerk.wait_for(action.id, seconds)
        try:
            return await self._stored(action.tenant, action.id, self._looks) or action
        except StoreError:  # it is written down, and that is what whoever asked must hear
            return action

    async def step(self) -> float:
        """Work on the next of the actions."""
        pause = await self._clerk.step()
        if pause:
            await self._tidy()
        return pause

    @property
    def is_attended(self) -> bool:
        """Tell whether somebody works on actions here."""
        return self.wake is not nobody_to_wake

    async def _write_down(self, action: Action) -> Record | None:
        record = record_of(action, None)
        if not await self._store.put_record(None, record):
            return None
        self._call_clerk()
        return record

    def _call_clerk(self) -> None:
        self._clerk.look_soon()
        self.wake()

    # Looking for them ------------------------------------------------------------------------

    async def _under_way(self, tenant: str, reading: Reading, count: int = 1) -> list[Entry]:
        return (await reading.catalogue(documents.KIND, count)).of(tenant)

    async def _ended(self, tenant: str, reading: Reading, count: int = 1) -> list[Entry]:
        return self._archive.of(tenant, await reading.catalogue(kind_of(tenant), count))

    async def _seen(self, caller: Caller, id_: str, reading: Reading) -> Action:
        action = await self._stored(caller.tenant, id_, reading)
        if action is None or not action.is_seen_by(caller):
            raise NotFound("action not found")
        return action

    async def _stored(self, tenant: str, id_: str, reading: Reading) -> Action | None:
        return await self._first(tenant, reading, lambda entry: entry.label.id == id_)

    async def _named(self, action: Action) -> Action | None:
        name = action.name
        return await self._first(
            action.tenant, self._looks, lambda entry: entry.record.name == name
        )

    async def _first(
        self, tenant: str, reading: Reading, is_it: Callable[[Entry], bool]
    ) -> Action | None:
        """An action, looked for among those under way first: these are few, and asked for often."""
        for find in (self._under_way, self._ended):
            for entry in await find(tenant, reading):
                if is_it(entry) and entry.action is not None:
                    return entry.action
        return None

    async def _find(self, action: Action) -> tuple[Record, Action] | None:
        for entry in await self._under_way(action.tenant, self._looks):
            if entry.label.id == action.id and entry.action is not None:
                return entry.record, entry.action
        return None

    async def _prepared(self, action: Action) -> tuple[Record, Action] | None:
        found = await self._find(action)
        return found if found is not None and found[1].state == "prepared" else None

    async def _check_room(self, tenant: str, coming: frozenset[str]) -> None:
        mine = {entry.record.name for entry in await self._under_way(tenant, self._counts)}
        if len(coming | mine) >= MOST_UNDER_WAY:
            raise Conflict(
                f"action: a tenant has at most {MOST_UNDER_WAY} under way; wait for some to end"
            )

    # Those that may be asked for again -------------------------------------------------------

    async def _start_once(self, action: Action) -> Action | None:
        """Start an action; if one was started by the same key already, the answer is that."""
        if action.key is None:
            await self.start(action)
            return None
        # Only prepared: one by the same key may have ended, and been filed, just before this.
        record = await self.start(replace(action, state="prepared"))
        if record is not None:
            begun = await self._beginning.begun(action)
            if begun is not None:
                await self.let_begin(begun, record)
                return None
            await self.drop(action, record)
        made = await self._named(action)
        if made is None:
            raise Unavailable(
                "the action by this key has just gone; nothing was written, try again"
            )
        return made

    async def _made_before(self, caller: Caller, key: str) -> Action | None:
        """The action that was asked for by this key."""
        return await self._named(replace(self.new(caller, "cancel", EVERYTHING), key=key))

    async def _repeated(self, made: Action, fingerprint: str | None) -> Action:
        if made.fingerprint != fingerprint:
            raise Conflict("Idempotency-Key: was given with other content already")
        if made.has_ended:
            return made
        if made.state == "prepared":  # whoever asked first may have died over it
            begun = await self._beginning.begun(made)
            if begun is not None:
                await self._let_begin_anew(begun)
        return await self.awaited(made, KINDNESS)

    async def _let_begin_anew(self, action: Action) -> None:
        """Let an action begin, if it is still only prepared, in whichever record it is by now."""
        if (found := await self._prepared(action)) is not None:
            record, prepared = found
            action = replace(action, is_canceling=prepared.is_canceling)
            await self._store.put_record(record, record_of(action, record))
            self._call_clerk()

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
