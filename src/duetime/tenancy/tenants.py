"""What can be done with tenants: all of it by the operator."""

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from duetime.auditing import Audit
from duetime.clock import Clock
from duetime.errors import Conflict, NotFound
from duetime.model import DEFAULT_TENANT, FINISHED
from duetime.stores import Store
from duetime.tenancy.caller import Caller
from duetime.tenancy.quotas import UNLIMITED, Quotas
from duetime.tenancy.requests import CreateTenant, QuotasBody, UpdateTenant
from duetime.tenancy.rules import Rules
from duetime.tenancy.tenant import Tenant


class Tenants:
    """The use cases on tenants."""

    def __init__(self, rules: Rules, store: Store, clock: Clock, audit: Audit) -> None:
        self._rules = rules
        self._store = store
        self._clock = clock
        self._audit = audit

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

    async def update(self, caller: Caller, name: str, body: UpdateTenant) -> Tenant:
        """Change a tenant."""
        old = await self.get(caller, name)
        kept = self._rules.tenants.kept(name)
        changes: dict[str, object] = {"updated_at": self._clock.now()}
        if body.title is not UNSET:
            changes["title"] = body.title
        if body.quotas is not UNSET:
            changes["quotas"] = changed_quotas(old.quotas, body.quotas)
        new = replace(old, **changes)
        if not await self._rules.put(self._rules.tenants, name, kept, new):
            raise Conflict("tenant: somebody else has changed it meanwhile; look at it again")
        await self._note(caller, "tenant.update", new, details={"quotas": _shown(new.quotas)})
        return new

    async def delete(self, caller: Caller, name: str) -> None:
        """Take a tenant away, with its keys and groups; Conflict while timers of it wait."""
        old = await self.get(caller, name)
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
        now = self._clock.now()
        rules = self._rules
        kept_tenant = rules.tenants.kept(name)
        # The tenant last: who repeats this after a failure finds what is still to be done.
        for key in rules.keys.all():
            if key.document.tenant == name:
                await rules.put(rules.keys, key.document.id, key, None)
        for group in rules.groups.all():
            if group.document.tenant == name and group.document.deleted_at is None:
                gone = replace(group.document, deleted_at=now, updated_at=now)
                await rules.put(rules.groups, group.record.name, group, gone)
        deleted = replace(old, updated_at=now, deleted_at=now)
        if not await rules.put(rules.tenants, name, kept_tenant, deleted):
            raise Conflict("tenant: somebody else has changed it meanwhile; look at it again")
        await self._note(caller, "tenant.delete", old)

    async def _note(
        self, caller: Caller, action: str, tenant: Tenant, details: dict[str, object] | None = None
    ) -> None:
        # It is told to whom it concerns: in the audit of that tenant.
        mine = replace(caller, tenant=tenant.name)
        await self._audit.note(mine, action, "tenant", tenant.name, details=details)


def changed_quotas(old: Quotas, body: QuotasBody | None) -> Quotas:
    """Quotas with what a body changes of them; None: there are none any more."""
    if body is None:
        return UNLIMITED
    given = {name: getattr(body, name) for name in body.__struct_fields__}
    return replace(old, **{name: each for name, each in given.items() if each is not UNSET})


def _shown(quotas: Quotas) -> dict[str, object]:
    return {name: each for name, each in msgspec.structs.asdict(quotas).items() if each is not None}


def _default() -> Tenant:
    """The tenant that is there without having been made."""
    return Tenant(name=DEFAULT_TENANT, created_at=0, updated_at=0)
