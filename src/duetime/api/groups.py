"""The groups resource: timers by the users' own keys, /groups/{group}/timers/{timer_id}."""

import re

from starlette.convertors import PathConvertor, register_url_convertor

from duetime.api.envelope import Reply
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.api.timers import canceled, correlation_id_of, etag, if_match
from duetime.api.views import CanceledView, TimerDetailView, TimerView, detail_view, view
from duetime.errors import InvalidRequest
from duetime.model import DEFAULT_GROUP
from duetime.requests import CreateTimer, check_key
from duetime.service import Service

PATH = "/groups/{group}/timers/{timer_id:key}"

_GROUP = re.compile(r"[A-Za-z0-9_-]{1,128}")


class _KeyConvertor(PathConvertor):
    """Everything to the path's end. Starlette's own stops at a line feed, and takes another key."""

    regex = r"[\s\S]*"


register_url_convertor("key", _KeyConvertor())


class Groups:
    """The operations on timers by key."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="GET",
                path=PATH,
                handler=self.get,
                summary="Get a timer by its key",
                tag="Timers by key",
                answer=TimerDetailView,
                failures=(400, 404, 503),
            ),
            Operation(
                method="PUT",
                path=PATH,
                handler=self.put,
                summary="Create or replace the timer with this key",
                tag="Timers by key",
                body=CreateTimer,
                headers=("If-Match", "X-Correlation-ID"),
                answer=TimerView,
                success=(200, 201),
                failures=(400, 412, 500, 503),
            ),
            Operation(
                method="DELETE",
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
        timer = await self._service.get_by_key(request.tenant, *_key_of(request))
        return Reply(200, "success", detail_view(timer), headers=etag(timer))

    async def put(self, request: Request) -> Reply:
        group, timer_id = _key_of(request)
        body = request.decode(CreateTimer)
        if body.timer_id not in {None, timer_id}:
            raise InvalidRequest("timer_id: differs from the one in the path")
        if body.group not in {DEFAULT_GROUP, group}:
            raise InvalidRequest("group: differs from the one in the path")
        body.group, body.timer_id = group, timer_id
        body.correlation_id = correlation_id_of(request, body)
        timer, is_new = await self._service.put(request.tenant, body, if_match(request))
        if is_new:
            return Reply(201, "timer created successfully", view(timer), headers=etag(timer))
        return Reply(200, "timer replaced successfully", view(timer), headers=etag(timer))

    async def cancel(self, request: Request) -> Reply:
        timer = await self._service.cancel_by_key(
            request.tenant, *_key_of(request), if_match=if_match(request)
        )
        return canceled(timer)


def _key_of(request: Request) -> tuple[str, str]:
    group, timer_id = request.path_params["group"], request.path_params["timer_id"]
    if not _GROUP.fullmatch(group):
        raise InvalidRequest("group: must be up to 128 letters, digits, '_' and '-'")
    check_key(timer_id, "timer_id")
    return group, timer_id
