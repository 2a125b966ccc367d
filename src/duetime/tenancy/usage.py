"""Usage: how many timers a tenant has, beside how many it may have."""

from collections import Counter

import msgspec

from duetime.clock import Millis
from duetime.tenancy.caller import Caller
from duetime.tenancy.group import name_of
from duetime.tenancy.limits import BOUNDLESS, Limits
from duetime.tenancy.meter import Meter
from duetime.tenancy.quotas import UNLIMITED, Quotas, tenant_in
from duetime.tenancy.rules import Rules
from duetime.timer import FINISHED


class GroupUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What one group has."""

    timers: dict[str, int]  # by status
    asked_for: float | None  # per second, by all nodes; None: nobody measures that
    quotas: Quotas
    limits: Limits

    @property
    def pending(self) -> int:
        """Those that count against the quota: they wait, are paused, or are being delivered."""
        return sum(count for status, count in self.timers.items() if status not in FINISHED)


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant has, in all its groups."""

    tenant: str
    counted_at: Millis
    groups: dict[str, GroupUsage]
    asked_for: float | None
    quotas: Quotas
    limits: Limits

    @property
    def timers(self) -> dict[str, int]:
        """How many there are by status."""
        counts = Counter[str]()
        for group in self.groups.values():
            counts.update(group.timers)
        return dict(counts)

    @property
    def pending(self) -> int:
        """Those that count against the quota."""
        return sum(group.pending for group in self.groups.values())


class Usages:
    """Tells callers of their usage."""

    def __init__(self, rules: Rules, meter: Meter) -> None:
        self._rules = rules
        self._meter = meter

    async def of(self, caller: Caller) -> Usage:
        """How much a tenant has, and may have."""
        tally = await self._meter.tally(caller.tenant)
        counts = tally.groups
        tenant = self._rules.tenants.find(caller.tenant)
        limited = {
            name.partition("/")[2]
            for name in self._rules.limited.keys() | self._rules.bounded.keys()
            if "/" in name and tenant_in(name) == caller.tenant
        }
        groups = {
            name: GroupUsage(
                timers=counts.get(name, {}),
                asked_for=self._meter.asked_for(name_of(caller.tenant, name)),
                quotas=self._rules.limited.get(name_of(caller.tenant, name), UNLIMITED),
                limits=self._rules.bounded.get(name_of(caller.tenant, name), BOUNDLESS),
            )
            for name in sorted(counts.keys() | limited)
            if caller.sees_group(name)
        }
        return Usage(
            tenant=caller.tenant,
            counted_at=tally.counted_at,
            groups=groups,
            # Who is for some groups only need not know how busy the others are.
            asked_for=None if caller.groups else self._meter.asked_for(caller.tenant),
            quotas=UNLIMITED if tenant is None else tenant.quotas,
            limits=BOUNDLESS if tenant is None else tenant.limits,
        )
