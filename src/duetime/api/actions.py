"""The actions resource: one thing done to all timers that match, and how far it has come."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from duetime import ids
from duetime.api.cursors import Cursors
from duetime.api.envelope import Reply
from duetime.api.lists import Cursor, Limit
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.api.seal import Seal
from duetime.api.views import Instant, instant
from duetime.bulk.action import Action
from duetime.bulk.requests import CreateAction, RedriveTimers
from duetime.clock import Millis, to_rfc3339
from duetime.durations import format_duration
from duetime.errors import InvalidRequest, NotFound
from duetime.requests import check_text
from duetime.searching import Filter
from duetime.service import Service
from duetime.tenancy.role import Role

PATH = "/actions/{action}"


class ExampleView(msgspec.Struct):
    """A timer that could not be changed, and why."""

    id: str
    error: str


class ActionView(msgspec.Struct, kw_only=True):
    """An action, and how far it has come."""

    id: str
    action: str
    filter: Annotated[dict[str, Any], Meta(description="As it was asked for.")]
    dry_run: bool
    by: str | None
    state: Literal["running", "done", "canceled", "failed"]
    is_canceling: bool
    matched: Annotated[int, Meta(description="Timers that were found so far.")]
    changed: Annotated[int, Meta(description="Of these; in a dry run, that would be.")]
    skipped: Annotated[int, Meta(description="Of these; their status does not allow it.")]
    failed: int
    failures: Annotated[list[ExampleView], Meta(description="A few of those that failed.")]
    error: Annotated[
        str | None,
        Meta(description="Why all of it has failed; while it runs, why it has to be tried again."),
    ]
    created_by: Annotated[str, Meta(description="The name of the key.")]
    created_at: Instant
    updated_at: Instant
    finished_at: Instant | None


class ActionListView(msgspec.Struct):
    """One page of actions, newest first."""

    actions: list[ActionView]
    next_cursor: str | None


class ActionParameters(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which actions to list."""

    limit: Limit = 50
    cursor: Cursor | None = None


class Actions:
    """The operations on actions."""

    def __init__(self, service: Service, seal: Seal) -> None:
        self._actions = service.actions
        self._seal = seal

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="POST",
                path="/timers/actions",
                handler=self.create,
                role=Role.WRITE,
                summary="Change all timers that match",
                tag="Actions",
                body=CreateAction,
                headers=("Idempotency-Key",),
                answer=ActionView,
                success=(202, 200),
                failures=(400, 409, 500, 503),
            ),
            Operation(
                method="POST",
                path="/timers/redrive",
                handler=self.redrive,
                role=Role.WRITE,
                summary="Try all failed timers that match again",
                tag="Actions",
                body=RedriveTimers,
                headers=("Idempotency-Key",),
                answer=ActionView,
                success=(202, 200),
                failures=(400, 409, 500, 503),
            ),
            Operation(
                method="GET",
                path="/actions",
                handler=self.list,
                role=Role.READ_WITHOUT_PAYLOADS,
                summary="List actions",
                tag="Actions",
                parameters=ActionParameters,
                answer=ActionListView,
                failures=(400, 500, 503),
            ),
            Operation(
                method="GET",
                path=PATH,
                handler=self.get,
                role=Role.READ_WITHOUT_PAYLOADS,
                summary="Get an action",
                tag="Actions",
                answer=ActionView,
                failures=(400, 404, 500, 503),
            ),
            Operation(
                method="DELETE",
                path=PATH,
                handler=self.cancel,
                role=Role.WRITE,
                summary="Cancel an action",
                tag="Actions",
                answer=ActionView,
                success=(202,),
                failures=(400, 404, 409, 500, 503),
            ),
        ]

    async def create(self, request: Request) -> Reply:
        return await self._start(request, request.decode(CreateAction))

    async def redrive(self, request: Request) -> Reply:
        body = request.decode(RedriveTimers)
        asked = CreateAction(action="redrive", filter=body.filter, dry_run=body.dry_run)
        return await self._start(request, asked)

    async def _start(self, request: Request, body: CreateAction) -> Reply:
        key = request.header("Idempotency-Key")
        if key is not None:
            check_text(key, "Idempotency-Key")
        action, is_new = await self._actions.create(request.caller, body, key)
        if is_new:
            return Reply(202, "action accepted", _view(action))
        return Reply(200, "action exists already", _view(action))

    async def list(self, request: Request) -> Reply:
        given = request.parameters(ActionParameters)
        cursors = Cursors(self._seal, request.caller.tenant, "actions")
        place = cursors.read(given.cursor, str)
        found = await self._actions.of(request.caller, before=place, most=given.limit + 1)
        page = found[: given.limit]
        next_cursor = cursors.write(page[-1].id) if len(page) < len(found) else None
        return Reply(200, "success", ActionListView([_view(each) for each in page], next_cursor))

    async def get(self, request: Request) -> Reply:
        action = await self._actions.get(request.caller, _id_of(request))
        return Reply(200, "success", _view(action))

    async def cancel(self, request: Request) -> Reply:
        action = await self._actions.cancel(request.caller, _id_of(request))
        return Reply(202, "action canceled: what is done stays done", _view(action))


def _id_of(request: Request) -> str:
    given = request.path_params["action"].lower()
    if not ids.is_uuid(given):
        raise InvalidRequest("action: must be a UUID")
    if not ids.is_id(given):
        raise NotFound("action not found")
    return given


def _view(action: Action) -> ActionView:
    tally = action.tally
    return ActionView(
        id=action.id,
        action=action.verb,
        filter=_filter_view(action.filter),
        dry_run=action.dry_run,
        by=_shift(action.by),
        state="running" if action.state == "prepared" else action.state,
        is_canceling=action.is_canceling and not action.has_ended,
        matched=tally.matched,
        changed=tally.changed,
        skipped=tally.skipped,
        failed=tally.failed,
        failures=[ExampleView(each.timer, each.error) for each in tally.examples],
        error=action.error,
        created_by=action.actor.name,
        created_at=to_rfc3339(action.created_at),
        updated_at=to_rfc3339(action.updated_at),
        finished_at=instant(action.finished_at),
    )


def _filter_view(wanted: Filter) -> dict[str, Any]:
    """A filter in the words of a request."""
    given = {name: getattr(wanted, name) for name in wanted.__struct_fields__}
    shown = {
        _NAMES.get(name, name): to_rfc3339(value) if isinstance(value, int) else value
        for name, value in given.items()
        if value not in (None, (), {})
    }
    return shown or {"all": True}


_NAMES = {"statuses": "status", "groups": "group"}


def _shift(by: Millis | None) -> str | None:
    if by is None:
        return None
    return f"-{format_duration(-by)}" if by < 0 else format_duration(by)
