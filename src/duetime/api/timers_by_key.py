"""Timers by the users' own keys: /groups/{group}/timers/{timer_id}."""

from starlette.convertors import PathConvertor, register_url_convertor

from duetime.api.answers import canceled, detailed, shown
from duetime.api.envelope import Reply
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.api.views import CanceledView, TimerDetailView, TimerView
from duetime.errors import InvalidRequest
from duetime.requests import CreateTimer, check_group, check_key
from duetime.service import Service
from duetime.tenancy.role import Role
from duetime.timer import DEFAULT_GROUP

PATH = "/groups/{group}/timers/{timer_id:key}"


class _KeyConvertor(PathConvertor):
    """Everything to the path's end. Starlette's own stops at a line feed, and takes another key."""

    regex = r"[\s\S]*"


register_url_convertor("key", _KeyConvertor())


class TimersByKey:
    """The operations on timers by key."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="GET",
                role=Role.READ_WITHOUT_PAYLOADS,
                path=PATH,
                handler=self.get,
                summary="Get a timer by its key",
                tag="Timers by key",
                answer=TimerDetailView,
                failures=(400, 404, 503),
            ),
            Operation(
                method="PUT",
                role=Role.WRITE,
                path=PATH,
                handler=self.put,
                makes=True,
                summary="Create or replace the timer with this key",
                tag="Timers by key",
                body=CreateTimer,
                headers=("If-Match", "X-Correlation-ID"),
                answer=TimerView,
                success=(200, 201),
                failures=(400, 409, 412, 500, 503),
            ),
            Operation(
                method="DELETE",
                role=Role.WRITE,
                path=PATH,
                handler=self.cancel,
                summary="Cancel the timer with this key",
                tag="Timers by key",
                headers=("If-Match",),
                answer=CanceledView,
                failures=(400, 404, 412, 500, 503),
            ),
        ]

    async def get(self, request: Request) -> Reply:
        timer = await self._service.get_by_key(request.caller, *_key_of(request))
        return detailed(timer, request.caller, self._service.waiting_for(timer))

    async def put(self, request: Request) -> Reply:
        group, timer_id = _key_of(request)
        body = request.decode(CreateTimer)
        if body.timer_id not in {None, timer_id}:
            raise InvalidRequest("timer_id: differs from the one in the path")
        if body.group not in {DEFAULT_GROUP, group}:
            raise InvalidRequest("group: differs from the one in the path")
        body.group, body.timer_id = group, timer_id
        body.correlation_id = body.correlation_id or request.correlation_id()
        timer, is_new = await self._service.put(request.caller, body, request.if_match())
        if is_new:
            return shown(timer, "timer created successfully", 201)
        return shown(timer, "timer replaced successfully")

    async def cancel(self, request: Request) -> Reply:
        timer = await self._service.cancel_by_key(
            request.caller, *_key_of(request), if_match=request.if_match()
        )
        return canceled(timer)


def _key_of(request: Request) -> tuple[str, str]:
    group, timer_id = request.path_params["group"], request.path_params["timer_id"]
    check_group(group, "group")
    check_key(timer_id, "timer_id")
    return group, timer_id
