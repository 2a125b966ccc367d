"""What can be done with targets: seen, limited, paused and resumed."""

import re
from collections.abc import Callable, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from duetime.auditing import Audit
from duetime.clock import Clock, Millis, to_rfc3339
from duetime.delivery import Sender
from duetime.errors import Conflict, Forbidden, InvalidRequest, NotFound
from duetime.requests import to_millis, to_time
from duetime.stores import Store
from duetime.tenancy.caller import Caller
from duetime.tenancy.limit_settings import changed_limits
from duetime.tenancy.newcomers import Newcomers
from duetime.tenancy.obedience import Watch
from duetime.tenancy.requests import (
    LONGEST_TARGET,
    TARGET_NAME,
    PauseTarget,
    PutTarget,
)
from duetime.tenancy.rules import Kept, Rules
from duetime.tenancy.target import Target, name_of
from duetime.tenancy.target_status import TargetStatus, Told, status_of
from duetime.timer import Callback, HttpCallback

MOST_TARGETS = 1_000  # of one tenant that have a document
NATS = "nats"  # what the target of all NATS callbacks is called

_NAME = re.compile(TARGET_NAME)


class Targets:
    """The use cases on targets. ``told`` is what nodes tell of all of them, or of one."""

    def __init__(
        self,
        rules: Rules,
        store: Store,
        sender: Sender,
        clock: Clock,
        audit: Audit,
        *,
        told: Callable[[str | None], Sequence[Told]],
    ) -> None:
        self._rules = rules
        self._store = store
        self._sender = sender
        self._clock = clock
        self._audit = audit
        self._told = told
        self._newcomers = Newcomers()

    async def list(self, caller: Caller) -> list[TargetStatus]:
        """Every target that there is something to tell of, by name."""
        _check(caller)
        await self._rules.look()
        told, mine = self._told(None), name_of(caller.tenant, "")
        names = {target.name for target in self._rules.targets if target.tenant == caller.tenant}
        for reports, _ in told:
            names |= {name.removeprefix(mine) for name in reports if name.startswith(mine)}
        return [self._status(caller.tenant, name, told) for name in sorted(names)]

    async def get(self, caller: Caller, text: str) -> TargetStatus:
        """How a target is; one that there is nothing to tell of is well."""
        _check(caller)
        name = self.name(text)
        await self._rules.look()
        return self._status(caller.tenant, name)

    async def put(self, caller: Caller, text: str, body: PutTarget) -> TargetStatus:
        """Set the limits of a target."""
        old, kept = await self._document(caller, text)
        limits = old.limits if body.limits is UNSET else changed_limits(old.limits, body.limits)
        new = replace(old, limits=limits, updated_at=self._clock.now())
        await self._put(caller, kept, new)
        await self._note(caller, "target.update", new)
        return self._status(caller.tenant, new.name)

    async def pause(
        self, caller: Caller, text: str, body: PauseTarget
    ) -> tuple[TargetStatus, bool]:
        """Send nothing to a target until some time, or until it is resumed.

        Also tells whether all nodes are known to obey. Until then one may still send something.
        """
        until = self._until(body)
        old, kept = await self._document(caller, text)
        now = self._clock.now()
        new = replace(
            old,
            paused_at=old.paused_at if old.is_paused(now) else now,
            paused_until=until,
            paused_by=caller.name,
            reason=body.reason,
            updated_at=now,
        )
        await self._put(caller, kept, new)
        details: dict[str, object] = {} if until is None else {"until": to_rfc3339(until)}
        await self._note(
            caller, "target.pause", new, details | ({"reason": new.reason} if new.reason else {})
        )
        return await self._obeyed(new)

    async def resume(self, caller: Caller, text: str) -> tuple[TargetStatus, bool]:
        """Send to a target again, and forget, on all nodes, that it kept failing.

        Also tells whether all nodes are known to obey.
        """
        old, kept = await self._document(caller, text)
        now = self._clock.now()
        # Never the same twice: that is how nodes know it from the last time.
        resumed_at = now if old.resumed_at is None else max(now, old.resumed_at + 1)
        new = replace(_unpaused(old), resumed_at=resumed_at, updated_at=now)
        await self._put(caller, kept, new)
        await self._note(caller, "target.resume", new)
        return await self._obeyed(new)

    async def delete(self, caller: Caller, text: str) -> str:
        """Forget what was said of a target: its limits, and that it is paused."""
        old, kept = await self._document(caller, text)
        if kept is None:
            raise NotFound("target not found: nobody has limited or paused it")
        if not await self._rules.put(self._rules.targets, kept.record.name, kept, None):
            raise _has_changed()
        await self._note(caller, "target.delete", old)
        return old.name

    def waiting_for(self, tenant: str, callback: Callback) -> str | None:
        """Why a callback that is due is not sent, if its target is the reason."""
        name = self._sender.target(callback)
        status = self._status(tenant, name)
        until = "" if status.until is None else f" until {to_rfc3339(status.until)}"
        if status.state == "paused":
            return f"target {name} is paused{until or ' until it is resumed'}"
        if status.state == "failing":
            return f"target {name} keeps failing ({status.last_error}): nothing is sent{until}"
        if status.state == "probing":
            return f"target {name} kept failing ({status.last_error}): one callback is tried first"
        return None

    def name(self, text: str) -> str:
        """The name of a target that somebody calls so: a host, and a port if it is not 443."""
        if text == NATS:
            return NATS
        url = f"https://{text}/"
        is_name = len(text) <= LONGEST_TARGET and _NAME.fullmatch(text)
        name = self._sender.target(HttpCallback(url=url)) if is_name else url
        if name == url:
            raise InvalidRequest(
                "target: must be a host, with a port unless that is 443, such as "
                "api.example.com:8443"
            )
        return name

    # Inside -----------------------------------------------------------------------------------

    def _status(self, tenant: str, name: str, told: Sequence[Told] | None = None) -> TargetStatus:
        full_name = name_of(tenant, name)
        told = self._told(full_name) if told is None else told
        reports = [
            (each.reports[full_name], each.age) for each in told if full_name in each.reports
        ]
        return status_of(name, self._rules.target(tenant, name), reports, self._clock.now())

    async def _obeyed(self, target: Target) -> tuple[TargetStatus, bool]:
        revision = self._rules.targets.revision
        is_obeyed = await Watch(self._store, self._clock).until_all_send_by(revision)
        return self._status(target.tenant, target.name), is_obeyed

    async def _document(self, caller: Caller, text: str) -> tuple[Target, Kept[Target] | None]:
        """The document of a target, or one that has nothing to say."""
        _check(caller)
        name = self.name(text)
        await self._rules.look()
        kept = self._rules.targets.kept(name_of(caller.tenant, name))
        if kept is not None:
            return kept.document, kept
        now = self._clock.now()
        return Target(tenant=caller.tenant, name=name, created_at=now, updated_at=now), None

    async def _put(self, caller: Caller, kept: Kept[Target] | None, target: Target) -> None:
        key = name_of(caller.tenant, target.name)
        with self._newcomers.coming(caller.tenant, target.name) as others:
            if kept is None:
                self._check_room(caller.tenant, others)
            is_put = await self._rules.put(self._rules.targets, key, kept, target)
        if not is_put:
            raise _has_changed()

    def _check_room(self, tenant: str, coming: frozenset[str]) -> None:
        mine = {target.name for target in self._rules.targets if target.tenant == tenant}
        if len(coming | mine) >= MOST_TARGETS:
            raise Conflict(
                f"target: a tenant says something of at most {MOST_TARGETS} targets; forget some"
            )

    def _until(self, body: PauseTarget) -> Millis | None:
        if body.until is not None and body.for_ is not None:
            raise InvalidRequest("until: give either until or for, not both")
        now = self._clock.now()
        if body.for_ is not None:
            return now + to_millis(body.for_, "for")
        if body.until is None:
            return None
        until = to_time(body.until, "until")
        if until <= now:
            raise InvalidRequest("until: must be in the future")
        return until

    async def _note(
        self, caller: Caller, action: str, target: Target, details: dict[str, object] | None = None
    ) -> None:
        await self._audit.note(caller, action, "target", target.name, details=details)


def _check(caller: Caller) -> None:
    """Refuse those whose key is for some groups: targets are of all groups, and would tell."""
    if caller.groups is not None:
        raise Forbidden("targets: this key is for some groups only, and targets are for all")


def _unpaused(target: Target) -> Target:
    return replace(target, paused_at=None, paused_until=None, paused_by=None, reason=None)


def _has_changed() -> Conflict:
    return Conflict("target: somebody else has changed it meanwhile; look at it again")
