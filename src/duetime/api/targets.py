"""The targets resource: receivers of callbacks, how they are, and a switch to pause each."""

from typing import Annotated

import msgspec
from msgspec import Meta

from duetime.api.envelope import Reply
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.api.tenants import DeletedView, LimitsView, limits_view
from duetime.api.views import Instant, instant
from duetime.service import Service
from duetime.tenancy.limits import BOUNDLESS
from duetime.tenancy.requests import PauseTarget, PutTarget
from duetime.tenancy.role import Role
from duetime.tenancy.target_status import TargetState, TargetStatus

PATH = "/targets/{target}"


class TargetView(msgspec.Struct, kw_only=True):
    """A receiver of callbacks, by its host and port."""

    name: str
    state: Annotated[
        TargetState,
        Meta(
            description="`paused`: by hand. `failing`: it keeps failing, and nothing is sent to "
            "it. `probing`: after that, one callback at a time is sent to see whether it is well."
        ),
    ]
    since: Annotated[
        Instant | None, Meta(description="When it was paused, or found failing; null: it is ok.")
    ]
    until: Annotated[
        Instant | None,
        Meta(
            description="When the pause ends, or one callback is tried; null: when it is resumed."
        ),
    ]
    paused_by: Annotated[str | None, Meta(description="The name of the key that paused it.")]
    reason: Annotated[str | None, Meta(description="What was said for it.")]
    failures: Annotated[int, Meta(description="Attempts in a row that failed, if it is failing.")]
    last_error: str | None
    waiting: Annotated[
        int, Meta(description="Timers that are due and that nodes tell of; there may be more.")
    ]
    under_way: Annotated[int, Meta(description="Callbacks that nodes tell of, likewise.")]
    limits: LimitsView
    created_at: Annotated[
        Instant | None, Meta(description="null: nobody has limited or paused it.")
    ]
    updated_at: Instant | None


class TargetListView(msgspec.Struct):
    """The targets that there is something to tell of, by name."""

    targets: list[TargetView]


class Targets:
    """The operations on targets."""

    def __init__(self, service: Service) -> None:
        self._targets = service.targets

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="GET",
                path="/targets",
                handler=self.list,
                role=Role.READ_WITHOUT_PAYLOADS,
                summary="List the targets",
                tag="Targets",
                answer=TargetListView,
                failures=(500, 503),
            ),
            Operation(
                method="GET",
                path=PATH,
                handler=self.get,
                role=Role.READ_WITHOUT_PAYLOADS,
                summary="Get a target",
                tag="Targets",
                answer=TargetView,
                failures=(400, 500, 503),
            ),
            Operation(
                method="PUT",
                path=PATH,
                handler=self.put,
                makes=True,
                role=Role.ADMIN,
                summary="Limit a target",
                tag="Targets",
                body=PutTarget,
                answer=TargetView,
                failures=(400, 409, 500, 503),
            ),
            Operation(
                method="POST",
                path=f"{PATH}/pause",
                handler=self.pause,
                makes=True,
                role=Role.ADMIN,
                summary="Pause a target",
                tag="Targets",
                body=PauseTarget,
                is_body_optional=True,
                answer=TargetView,
                success=(200, 202),
                failures=(400, 409, 500, 503),
            ),
            Operation(
                method="POST",
                path=f"{PATH}/resume",
                handler=self.resume,
                makes=True,
                role=Role.ADMIN,
                summary="Resume a target",
                tag="Targets",
                answer=TargetView,
                success=(200, 202),
                failures=(400, 409, 500, 503),
            ),
            Operation(
                method="DELETE",
                path=PATH,
                handler=self.delete,
                role=Role.ADMIN,
                summary="Forget a target",
                tag="Targets",
                answer=DeletedView,
                failures=(400, 404, 409, 500, 503),
            ),
        ]

    async def list(self, request: Request) -> Reply:
        targets = await self._targets.list(request.caller)
        return Reply(200, "success", TargetListView([_view(each) for each in targets]))

    async def get(self, request: Request) -> Reply:
        target = await self._targets.get(request.caller, request.path_params["target"])
        return Reply(200, "success", _view(target))

    async def put(self, request: Request) -> Reply:
        name, body = request.path_params["target"], request.decode(PutTarget)
        target = await self._targets.put(request.caller, name, body)
        return Reply(200, "target updated successfully", _view(target))

    async def pause(self, request: Request) -> Reply:
        name = request.path_params["target"]
        body = request.decode(PauseTarget) if request.body else PauseTarget()
        target, is_obeyed = await self._targets.pause(request.caller, name, body)
        if is_obeyed:
            return Reply(200, "target paused: nothing is sent to it", _view(target))
        return Reply(202, "target paused, but not every node has confirmed that yet", _view(target))

    async def resume(self, request: Request) -> Reply:
        target, is_obeyed = await self._targets.resume(
            request.caller, request.path_params["target"]
        )
        if is_obeyed:
            return Reply(200, "target resumed", _view(target))
        return Reply(
            202, "target resumed, but not every node has confirmed that yet", _view(target)
        )

    async def delete(self, request: Request) -> Reply:
        name = await self._targets.delete(request.caller, request.path_params["target"])
        return Reply(200, "target forgotten successfully", DeletedView(name))


def _view(status: TargetStatus) -> TargetView:
    document = status.document
    is_paused = status.state == "paused"
    limits = BOUNDLESS if document is None else document.limits
    return TargetView(
        name=status.name,
        state=status.state,
        since=instant(status.since),
        until=instant(status.until),
        paused_by=document.paused_by if is_paused and document else None,
        reason=document.reason if is_paused and document else None,
        failures=status.failures,
        last_error=status.last_error,
        waiting=status.waiting,
        under_way=status.under_way,
        limits=limits_view(limits),
        created_at=None if document is None else instant(document.created_at),
        updated_at=None if document is None else instant(document.updated_at),
    )
