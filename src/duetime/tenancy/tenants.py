"""What can be done with tenants: all of it by the operator."""

from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from duetime.auditing import Audit
from duetime.clock import Clock, Millis
from duetime.errors import Conflict, DuetimeError, NotFound, StoreError, Unavailable
from duetime.stores import Store
from duetime.tenancy.api_key import ApiKey
from duetime.tenancy.caller import Caller
from duetime.tenancy.credential import Credential
from duetime.tenancy.limit_settings import changed_limits
from duetime.tenancy.limits import BOUNDLESS, Limits
from duetime.tenancy.obedience import Watch
from duetime.tenancy.quotas import UNLIMITED, Quotas
from duetime.tenancy.requests import CreateTenant, QuotasBody, UpdateTenant
from duetime.tenancy.rules import Kept, Rules, Shelf
from duetime.tenancy.signing_secret import SigningSecret
from duetime.tenancy.target import Target
from duetime.tenancy.tenant import Tenant
from duetime.tenancy.uses import Uses
from duetime.timer import DEFAULT_TENANT, FINISHED

OwnedT = TypeVar("OwnedT", ApiKey, Target, SigningSecret, Credential)


class Tenants:
    """The use cases on tenants."""

    def __init__(self, rules: Rules, store: Store, clock: Clock, audit: Audit, uses: Uses) -> None:
        self._rules = rules
        self._store = store
        self._clock = clock
        self._audit = audit
        self._uses = uses

    async def create(self, caller: Caller, body: CreateTenant) -> Tenant:
        """Make a tenant."""
        await self._rules.look()
        now = self._clock.now()
        before = self._rules.tenants.find(body.name)
        if body.name == DEFAULT_TENANT or (before is not None and before.deleted_at is None):
            raise Conflict(f"name: there is a tenant '{body.name}' already")
        if before is not None:  # whoever comes next would read what that one left
            raise Conflict(f"name: there was a tenant '{body.name}'; no other one gets its name")
        tenant = Tenant(
            name=body.name,
            title=body.title,
            quotas=changed_quotas(UNLIMITED, body.quotas),
            limits=changed_limits(BOUNDLESS, body.limits),
            created_at=now,
            updated_at=now,
        )
        if not await self._rules.put(self._rules.tenants, body.name, None, tenant):
            raise Conflict(f"name: somebody else is creating the tenant '{body.name}'")
        await self._note(caller, "tenant.create", tenant)
        return tenant

    async def list(self) -> list[Tenant]:
        """Every tenant, by name."""
        await self._rules.look()
        found = [each for each in self._rules.tenants if each.deleted_at is None]
        if all(each.name != DEFAULT_TENANT for each in found):
            found.append(_default())
        return sorted(found, key=lambda tenant: tenant.name)

    async def get(self, caller: Caller, name: str) -> Tenant:
        """A tenant: anybody's own, or whichever the operator asks for."""
        if not caller.is_operator and caller.tenant != name:
            raise NotFound("tenant not found")
        await self._rules.look()
        tenant = self._rules.tenants.find(name)
        if tenant is None and name == DEFAULT_TENANT:
            return _default()
        if tenant is None or tenant.deleted_at is not None:
            raise NotFound("tenant not found")
        return tenant

    async def staying(self, caller: Caller, name: str) -> Tenant:
        """A tenant for which something may be made or changed; Conflict while it is deleted."""
        tenant = await self.get(caller, name)
        check_stays(tenant)
        return tenant

    async def update(self, caller: Caller, name: str, body: UpdateTenant) -> Tenant:
        """Change a tenant."""
        old = await self.staying(caller, name)
        kept = self._rules.tenants.kept(name)
        changes: dict[str, object] = {"updated_at": self._clock.now()}
        if body.title is not UNSET:
            changes["title"] = body.title
        if body.quotas is not UNSET:
            changes["quotas"] = changed_quotas(old.quotas, body.quotas)
        if body.limits is not UNSET:
            changes["limits"] = changed_limits(old.limits, body.limits)
        new = replace(old, **changes)
        if not await self._rules.put(self._rules.tenants, name, kept, new):
            raise _has_changed()
        details: dict[str, object] = {"quotas": _shown(new.quotas)}
        if new.limits != BOUNDLESS or old.limits != BOUNDLESS:
            details["limits"] = _shown(new.limits)
        await self._note(caller, "tenant.update", new, details=details)
        return new

    async def delete(self, caller: Caller, name: str) -> None:
        """Take a tenant away, with its keys, groups and credentials.

        Conflict while timers of it wait. A refusal changes nothing. Who repeats this after a crash
        goes on where it stopped.
        """
        await self._rules.look(anew=True)
        kept = self._rules.tenants.kept(name)
        if kept is None or kept.document.deleted_at is None or kept.document.leaving_since is None:
            tenant = await self.get(caller, name)
            if not tenant.is_leaving:
                await self._check_empty(name)  # before its keys are refused
            kept = await self._end(name, await self._mark(name))
        await self._tidy(name, kept.document)
        await self._note(caller, "tenant.delete", kept.document)
        with suppress(Conflict):  # somebody else has come to the same end
            await self._change(name, kept, leaving_since=None)

    async def _mark(self, name: str) -> Kept[Tenant]:
        """Let nobody make anything for a tenant any more, here or on nodes that read the rules.

        It is marked anew if it was: so whoever is at it too loses, and changes nothing either.
        """
        kept = self._rules.tenants.kept(name)
        if kept is None:
            raise NotFound("tenant not found")
        return await self._change(name, kept, leaving_since=self._clock.now())

    async def _end(self, name: str, marked: Kept[Tenant]) -> Kept[Tenant]:
        """Decide that a marked tenant is gone; or take the mark back, and say why."""
        try:
            revision = self._rules.tenants.revision
            if not await Watch(self._store, self._clock).until_all_make_by(revision):
                raise Unavailable(
                    "tenant: not every node has confirmed in time that it makes nothing more for "
                    "it; nothing was deleted, try again"
                )
            await self._check_empty(name)
        except DuetimeError:
            with suppress(Conflict, StoreError):  # who has marked it anew sees to it
                await self._change(name, marked, leaving_since=None)
            raise
        now = self._clock.now()
        return await self._change(name, marked, deleted_at=now, updated_at=now)

    async def _tidy(self, name: str, tenant: Tenant) -> None:
        """Take away the keys, secrets, credentials, groups and targets of a tenant that is gone."""
        rules = self._rules
        await self._take_away(rules.keys, name)
        await self._uses.forget_tenant(name)
        await self._take_away(rules.signing_secrets, name)
        await self._take_away(rules.credentials, name)
        now = tenant.deleted_at
        await rules.put_all(
            rules.groups,
            [
                (kept.record.name, kept, replace(kept.document, deleted_at=now, updated_at=now))
                for kept in rules.groups.all()
                if kept.document.tenant == name and kept.document.deleted_at is None
            ],
        )
        await self._take_away(rules.targets, name)

    async def _take_away(self, shelf: Shelf[OwnedT], name: str) -> None:
        """Take away all documents of a kind that were a tenant's."""
        gone = [kept for kept in shelf.all() if kept.document.tenant == name]
        await self._rules.put_all(shelf, [(kept.record.name, kept, None) for kept in gone])

    async def _check_empty(self, name: str) -> None:
        if name == DEFAULT_TENANT:
            raise Conflict("tenant: the default tenant is always there")
        waiting = sum(
            each.timers for each in await self._store.count(name) if each.status not in FINISHED
        )
        if waiting:
            raise Conflict(
                f"tenant: {waiting} of its timers are still to come; cancel them first, for "
                "example with POST /timers/actions"
            )

    async def _change(
        self, name: str, kept: Kept[Tenant], **changes: Millis | None
    ) -> Kept[Tenant]:
        new = replace(kept.document, **changes)
        is_written = await self._rules.put(self._rules.tenants, name, kept, new)
        written = self._rules.tenants.kept(name)
        if not is_written or written is None or written.document != new:
            raise _has_changed()
        return written

    async def _note(
        self, caller: Caller, action: str, tenant: Tenant, details: dict[str, object] | None = None
    ) -> None:
        # It is told to whom it concerns: in the audit of that tenant.
        mine = replace(caller, tenant=tenant.name)
        await self._audit.note(mine, action, "tenant", tenant.name, details=details)


def check_stays(tenant: Tenant | None) -> None:
    """Refuse to make or change anything for a tenant that is being deleted."""
    if tenant is not None and tenant.is_leaving:
        raise Conflict(
            "tenant: it is being deleted, and nothing can be made or changed for it; to delete it "
            "again ends that, or takes it back if timers of it are still to come"
        )


def changed_quotas(old: Quotas, body: QuotasBody | None) -> Quotas:
    """Quotas with what a body changes of them; None: there are none any more."""
    if body is None:
        return UNLIMITED
    given = {name: getattr(body, name) for name in body.__struct_fields__}
    return replace(old, **{name: each for name, each in given.items() if each is not UNSET})


def _has_changed() -> Conflict:
    return Conflict("tenant: somebody else has changed it meanwhile; look at it again")


def _shown(most: Quotas | Limits) -> dict[str, object]:
    return {name: each for name, each in msgspec.structs.asdict(most).items() if each is not None}


def _default() -> Tenant:
    """The tenant that is there without having been made."""
    return Tenant(name=DEFAULT_TENANT, created_at=0, updated_at=0)
