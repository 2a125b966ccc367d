"""The tenants resource: who shares this installation, each for themselves."""

from typing import Annotated

import msgspec
from msgspec import Meta

from duetime.api.envelope import Reply
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.api.views import Instant, instant
from duetime.service import Service
from duetime.tenancy.limits import Limits
from duetime.tenancy.quotas import Quotas
from duetime.tenancy.requests import CreateTenant, UpdateTenant
from duetime.tenancy.role import Role
from duetime.tenancy.tenant import Tenant

PATH = "/tenants/{tenant}"


class QuotasView(msgspec.Struct, kw_only=True):
    """The most of each; null: no limit."""

    creates_per_second: float | None
    pending: int | None
    payload_bytes: int | None
    batch_size: int | None


class LimitsView(msgspec.Struct, kw_only=True):
    """The most callbacks, in the whole cluster; null: no limit."""

    concurrency: int | None
    per_second: float | None
    burst: Annotated[int | None, Meta(description="null: as many as in a second.")]


class TenantView(msgspec.Struct, kw_only=True):
    """A tenant."""

    name: str
    title: str | None
    quotas: QuotasView
    limits: LimitsView
    created_at: Annotated[
        Instant | None, Meta(description="null: it was there from the beginning.")
    ]
    updated_at: Instant | None
    leaving_since: Annotated[
        Instant | None, Meta(description="It is being deleted since then; null: it is not.")
    ]


class TenantListView(msgspec.Struct):
    """All tenants, by name."""

    tenants: list[TenantView]


class DeletedView(msgspec.Struct):
    """What is gone."""

    name: str


class Tenants:
    """The operations on tenants."""

    def __init__(self, service: Service) -> None:
        self._tenants = service.tenants

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="POST",
                path="/tenants",
                handler=self.create,
                role=Role.OPERATOR,
                summary="Create a tenant",
                tag="Tenants",
                body=CreateTenant,
                answer=TenantView,
                success=(201,),
                failures=(400, 409, 500, 503),
            ),
            Operation(
                method="GET",
                path="/tenants",
                handler=self.list,
                role=Role.OPERATOR,
                summary="List the tenants",
                tag="Tenants",
                answer=TenantListView,
                failures=(500, 503),
            ),
            Operation(
                method="GET",
                path=PATH,
                handler=self.get,
                role=Role.READ_WITHOUT_PAYLOADS,
                summary="Get a tenant",
                tag="Tenants",
                answer=TenantView,
                failures=(404, 500, 503),
            ),
            Operation(
                method="PUT",
                path=PATH,
                handler=self.update,
                role=Role.OPERATOR,
                summary="Update a tenant",
                tag="Tenants",
                body=UpdateTenant,
                answer=TenantView,
                failures=(400, 404, 409, 500, 503),
            ),
            Operation(
                method="DELETE",
                path=PATH,
                handler=self.delete,
                role=Role.OPERATOR,
                summary="Delete a tenant",
                tag="Tenants",
                answer=DeletedView,
                failures=(404, 409, 500, 503),
            ),
        ]

    async def create(self, request: Request) -> Reply:
        tenant = await self._tenants.create(request.caller, request.decode(CreateTenant))
        return Reply(201, "tenant created successfully", tenant_view(tenant))

    async def list(self, _request: Request) -> Reply:
        tenants = await self._tenants.list()
        return Reply(200, "success", TenantListView([tenant_view(each) for each in tenants]))

    async def get(self, request: Request) -> Reply:
        tenant = await self._tenants.get(request.caller, request.path_params["tenant"])
        return Reply(200, "success", tenant_view(tenant))

    async def update(self, request: Request) -> Reply:
        tenant = await self._tenants.update(
            request.caller, request.path_params["tenant"], request.decode(UpdateTenant)
        )
        return Reply(200, "tenant updated successfully", tenant_view(tenant))

    async def delete(self, request: Request) -> Reply:
        name = request.path_params["tenant"]
        await self._tenants.delete(request.caller, name)
        return Reply(200, "tenant deleted successfully", DeletedView(name))


def tenant_view(tenant: Tenant) -> TenantView:
    """A tenant as it is shown."""
    return TenantView(
        name=tenant.name,
        title=tenant.title,
        quotas=quotas_view(tenant.quotas),
        limits=limits_view(tenant.limits),
        created_at=instant(tenant.created_at or None),
        updated_at=instant(tenant.updated_at or None),
        leaving_since=instant(tenant.leaving_since),
    )


def limits_view(limits: Limits) -> LimitsView:
    """Limits as they are shown."""
    return LimitsView(**msgspec.structs.asdict(limits))


def quotas_view(quotas: Quotas) -> QuotasView:
    """Quotas as they are shown."""
    return QuotasView(**msgspec.structs.asdict(quotas))
