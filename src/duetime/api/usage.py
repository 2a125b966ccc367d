"""The usage resource: how many timers a tenant has, beside its quotas and limits."""

from typing import Annotated

import msgspec
from msgspec import Meta

from duetime.api.envelope import Reply
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.api.tenants import LimitsView, QuotasView, limits_view, quotas_view
from duetime.api.views import Instant
from duetime.clock import to_rfc3339
from duetime.service import Service
from duetime.tenancy.role import Role
from duetime.tenancy.usage import GroupUsage

_Timers = Annotated[dict[str, int], Meta(description="How many there are, by status.")]
_Pending = Annotated[int, Meta(description="Those that count against the quota `pending`.")]
_Asked = Annotated[
    float | None,
    Meta(
        description="How many were asked for per second lately, refused ones included, on all "
        "nodes; null: there is no quota for it, so nobody measures."
    ),
]


class GroupUsageView(msgspec.Struct, kw_only=True):
    """What one group has, and may have."""

    group: str
    timers: _Timers
    pending: _Pending
    creates_per_second: _Asked
    quotas: QuotasView
    limits: LimitsView


class UsageView(msgspec.Struct, kw_only=True):
    """What a tenant has, and may have."""

    tenant: str
    counted_at: Instant
    timers: _Timers
    pending: _Pending
    creates_per_second: _Asked
    quotas: QuotasView
    limits: LimitsView
    groups: list[GroupUsageView]


class Usage:
    """The operation on usage."""

    def __init__(self, service: Service) -> None:
        self._usages = service.usages

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="GET",
                path="/usage",
                handler=self.get,
                role=Role.READ_WITHOUT_PAYLOADS,
                summary="Get the usage of quotas",
                tag="Usage",
                answer=UsageView,
                failures=(500, 503),
            )
        ]

    async def get(self, request: Request) -> Reply:
        usage = await self._usages.of(request.caller)
        data = UsageView(
            tenant=usage.tenant,
            counted_at=to_rfc3339(usage.counted_at),
            timers=usage.timers,
            pending=usage.pending,
            creates_per_second=usage.asked_for,
            quotas=quotas_view(usage.quotas),
            limits=limits_view(usage.limits),
            groups=[_view(name, group) for name, group in usage.groups.items()],
        )
        return Reply(200, "success", data)


def _view(name: str, group: GroupUsage) -> GroupUsageView:
    return GroupUsageView(
        group=name,
        timers=group.timers,
        pending=group.pending,
        creates_per_second=group.asked_for,
        quotas=quotas_view(group.quotas),
        limits=limits_view(group.limits),
    )
