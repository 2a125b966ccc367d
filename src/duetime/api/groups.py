"""The groups resource: workloads with their own shards, defaults and quotas, that can be paused."""

from typing import Annotated

import msgspec
from msgspec import Meta, Raw

from duetime.api.callback_views import (
    OnFailureView,
    RetryPolicyView,
    hidden_on_failure,
    on_failure_view,
    policy_view,
)
from duetime.api.envelope import Reply
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.api.tenants import LimitsView, QuotasView, limits_view, quotas_view
from duetime.api.views import Instant, instant
from duetime.clock import Millis, to_rfc3339
from duetime.durations import format_duration
from duetime.requests import check_group
from duetime.service import Service
from duetime.tenancy.group import Group, OnResume
from duetime.tenancy.requests import CreateGroup, PutGroup
from duetime.tenancy.role import Role

PATH = "/groups/{group}"


class GroupView(msgspec.Struct, kw_only=True):
    """A group, and what its timers get when they are created."""

    name: str
    title: str | None
    num_shards: int
    is_paused: bool
    paused_at: Annotated[Instant | None, Meta(description="null: it is not.")]
    resuming: Annotated[
        str | None,
        Meta(description="The action that sees to what fell due while it was paused, until then."),
    ]
    on_resume: OnResume
    retry_policy: RetryPolicyView | None
    timeout: str | None
    headers: dict[str, str]
    retention: str | None
    response_bytes: int
    response_headers: tuple[str, ...]
    response_schema: Annotated[
        Raw | None, Meta(description="What 2xx answers must match; null: nothing is asked of them.")
    ]
    signatures: tuple[str, ...]
    credential: str | None
    on_failure: OnFailureView | None
    quotas: QuotasView
    limits: LimitsView
    created_at: Instant
    updated_at: Instant


class GroupListView(msgspec.Struct):
    """The groups, by name."""

    groups: list[GroupView]


class DeletedGroupView(msgspec.Struct):
    """The group that is gone, or will be."""

    name: str
    action: Annotated[
        str | None,
        Meta(description="The action that cancels its timers first; null: that is done."),
    ]


class GroupDeletion(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How to delete a group."""

    cancel: Annotated[
        bool, Meta(description="Cancel what is still to come, instead of refusing.")
    ] = False


class Groups:
    """The operations on groups."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._groups = service.groups

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="POST",
                path="/groups",
                handler=self.create,
                makes=True,
                role=Role.ADMIN,
                summary="Create a group",
                tag="Groups",
                body=CreateGroup,
                answer=GroupView,
                success=(201,),
                failures=(400, 404, 409, 500, 503),
            ),
            Operation(
                method="GET",
                path="/groups",
                handler=self.list,
                role=Role.READ_WITHOUT_PAYLOADS,
                summary="List the groups",
                tag="Groups",
                answer=GroupListView,
                failures=(500, 503),
            ),
            Operation(
                method="GET",
                path=PATH,
                handler=self.get,
                role=Role.READ_WITHOUT_PAYLOADS,
                summary="Get a group",
                tag="Groups",
                answer=GroupView,
                failures=(400, 404, 500, 503),
            ),
            Operation(
                method="PUT",
                path=PATH,
                handler=self.put,
                makes=True,
                role=Role.ADMIN,
                summary="Create or change a group",
                tag="Groups",
                body=PutGroup,
                answer=GroupView,
                success=(201, 200),
                failures=(400, 404, 409, 500, 503),
            ),
            Operation(
                method="POST",
                path=f"{PATH}/pause",
                handler=self.pause,
                changes=True,
                role=Role.ADMIN,
                summary="Pause a group",
                tag="Groups",
                answer=GroupView,
                success=(200, 202),
                failures=(400, 404, 409, 500, 503),
            ),
            Operation(
                method="POST",
                path=f"{PATH}/resume",
                handler=self.resume,
                changes=True,
                role=Role.ADMIN,
                summary="Resume a paused group",
                tag="Groups",
                answer=GroupView,
                success=(202,),
                failures=(400, 404, 409, 500, 503),
            ),
            Operation(
                method="DELETE",
                path=PATH,
                handler=self.delete,
                role=Role.ADMIN,
                summary="Delete a group",
                tag="Groups",
                parameters=GroupDeletion,
                answer=DeletedGroupView,
                success=(200, 202),
                failures=(400, 404, 409, 500, 503),
            ),
        ]

    async def create(self, request: Request) -> Reply:
        body = request.decode(CreateGroup)
        group, _ = await self._groups.put(request.caller, body.name, body, must_be_new=True)
        return Reply(201, "group created successfully", _view(group, request))

    async def list(self, request: Request) -> Reply:
        groups = await self._groups.list(request.caller)
        return Reply(200, "success", GroupListView([_view(each, request) for each in groups]))

    async def get(self, request: Request) -> Reply:
        group = await self._groups.get(request.caller, _name_in(request))
        return Reply(200, "success", _view(group, request))

    async def put(self, request: Request) -> Reply:
        name, body = _name_in(request), request.decode(PutGroup)
        group, is_new = await self._groups.put(request.caller, name, body)
        if is_new:
            return Reply(201, "group created successfully", _view(group, request))
        return Reply(200, "group updated successfully", _view(group, request))

    async def pause(self, request: Request) -> Reply:
        group, is_obeyed = await self._groups.pause(request.caller, _name_in(request))
        if is_obeyed:
            return Reply(200, "group paused: nothing of it starts", _view(group, request))
        return Reply(
            202, "group paused, but not every node has confirmed that yet", _view(group, request)
        )

    async def resume(self, request: Request) -> Reply:
        group = await self._service.resume_group(request.caller, _name_in(request))
        return Reply(202, "group resumed", _view(group, request))

    async def delete(self, request: Request) -> Reply:
        name = _name_in(request)
        cancel = request.parameters(GroupDeletion).cancel
        action = await self._service.delete_group(request.caller, name, cancel=cancel)
        if action is None:
            return Reply(200, "group deleted successfully", DeletedGroupView(name, None))
        return Reply(
            202,
            "its timers are being canceled; the group is deleted after that",
            DeletedGroupView(name, action.id),
        )


def _name_in(request: Request) -> str:
    name = request.path_params["group"]
    check_group(name, "group")
    return name


def _view(group: Group, request: Request) -> GroupView:
    defaults = group.defaults
    hides = not request.caller.may(Role.READ)
    told = on_failure_view(defaults.on_failure)
    return GroupView(
        name=group.name,
        title=group.title,
        num_shards=group.num_shards,
        is_paused=group.is_paused,
        paused_at=instant(group.paused_at) if group.is_paused else None,
        resuming=group.resuming,
        on_resume=group.on_resume,
        retry_policy=None if defaults.retry_policy is None else policy_view(defaults.retry_policy),
        timeout=_duration(defaults.timeout),
        headers=dict.fromkeys(defaults.headers, "***") if hides else defaults.headers,
        retention=_duration(defaults.retention),
        response_bytes=defaults.response_bytes,
        response_headers=defaults.response_headers,
        response_schema=None
        if group.response_schema is None
        else Raw(group.response_schema.encode()),
        signatures=defaults.signatures,
        credential=defaults.credential,
        on_failure=hidden_on_failure(told) if hides else told,
        quotas=quotas_view(group.quotas),
        limits=limits_view(group.limits),
        created_at=to_rfc3339(group.created_at),
        updated_at=to_rfc3339(group.updated_at),
    )


def _duration(millis: Millis | None) -> str | None:
    return None if millis is None else format_duration(millis)
