"""The timers resource: /timers and what lies below it."""

from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Raw

from duetime import ids
from duetime.api.answers import canceled, detailed, shown
from duetime.api.cursors import Cursors
from duetime.api.envelope import Code, Reply, failure
from duetime.api.lists import (
    AttemptParameters,
    ListParameters,
    attempt_list,
    attempts_after,
    timer_list,
    to_filter,
    to_part,
)
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.api.seal import Seal
from duetime.api.views import (
    AttemptListView,
    BatchItemView,
    BatchView,
    CanceledView,
    TimerDetailView,
    TimerListView,
    TimerView,
    view,
)
from duetime.creates import Answer
from duetime.decoding import check_depth, decode
from duetime.errors import DuetimeError, InvalidRequest, NotFound, PayloadTooLarge
from duetime.requests import Batch, CreateTimer, UpdateTimer, check_key
from duetime.service import Service
from duetime.tenancy.caller import Caller
from duetime.tenancy.role import Role
from duetime.timer import Timer


class Timers:
    """The operations on timers."""

    def __init__(self, service: Service, seal: Seal, *, max_timer: int) -> None:
        self._service = service
        self._seal = seal
        self._max_timer = max_timer  # bytes of one timer, also within a batch

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="POST",
                role=Role.WRITE,
                path="/timers",
                handler=self.create,
                makes=True,
                summary="Create a timer",
                tag="Timers",
                body=CreateTimer,
                headers=("Idempotency-Key", "X-Correlation-ID"),
                answer=TimerView,
                success=(201, 200),
                failures=(400, 409, 500, 503),
            ),
            Operation(
                method="GET",
                role=Role.READ_WITHOUT_PAYLOADS,
                path="/timers",
                handler=self.list,
                summary="List timers",
                tag="Timers",
                parameters=ListParameters,
                answer=TimerListView,
                failures=(400, 503),
            ),
            Operation(
                method="POST",
                role=Role.WRITE,
                path="/timers/batch",
                handler=self.create_batch,
                makes=True,
                summary="Create many timers",
                tag="Timers",
                body=Batch,
                headers=("X-Correlation-ID",),
                answer=BatchView,
                failures=(400, 409, 500, 503),
                is_bulk=True,
            ),
            Operation(
                method="GET",
                role=Role.READ_WITHOUT_PAYLOADS,
                path="/timers/{id}",
                handler=self.get,
                summary="Get a timer",
                tag="Timers",
                answer=TimerDetailView,
                failures=(400, 404, 503),
            ),
            Operation(
                method="PUT",
                role=Role.WRITE,
                path="/timers/{id}",
                handler=self.update,
                changes=True,
                summary="Update a timer",
                tag="Timers",
                body=UpdateTimer,
                headers=("If-Match",),
                answer=TimerView,
                failures=(400, 404, 412, 500, 503),
            ),
            Operation(
                method="DELETE",
                role=Role.WRITE,
                path="/timers/{id}",
                handler=self.cancel,
                summary="Cancel a timer",
                tag="Timers",
                headers=("If-Match",),
                answer=CanceledView,
                failures=(400, 404, 412, 500, 503),
            ),
            *(
                Operation(
                    method="POST",
                    role=Role.WRITE,
                    path=f"/timers/{{id}}/{action}",
                    handler=handler,
                    changes=True,
                    summary=summary,
                    tag="Timers",
                    headers=("If-Match",),
                    answer=TimerView,
                    failures=(400, 404, 412, 500, 503),
                )
                for action, handler, summary in (
                    ("fire", self.fire, "Fire a timer now"),
                    ("pause", self.pause, "Pause a timer"),
                    ("resume", self.resume, "Resume a paused timer"),
                    ("redrive", self.redrive, "Try a failed timer again"),
                )
            ),
            Operation(
                method="GET",
                role=Role.READ_WITHOUT_PAYLOADS,
                path="/timers/{id}/attempts",
                handler=self.attempts,
                summary="List a timer's attempts",
                tag="Timers",
                parameters=AttemptParameters,
                answer=AttemptListView,
                failures=(400, 404, 503),
            ),
        ]

    async def create(self, request: Request) -> Reply:
        body = request.decode(CreateTimer)
        body.timer_id = _key_of(request, body)
        body.correlation_id = body.correlation_id or request.correlation_id()
        timer, is_new = await self._service.create(request.caller, body, request.sent_at)
        if is_new:
            return shown(timer, "timer created successfully", 201)
        return shown(timer, "timer exists already")

    async def create_batch(self, request: Request) -> Reply:
        if request.header("Idempotency-Key") is not None:
            raise InvalidRequest("Idempotency-Key: give each timer of a batch a timer_id instead")
        items = request.decode_outline(Batch).timers
        answers = await self._service.create_many(
            request.caller,
            map(partial(self._item, request), items),
            count=len(items),
            size=len(request.body),
        )
        data = BatchView(
            [_batch_item(answer, request.caller) for answer in answers],
            created=sum(isinstance(answer, tuple) and answer[1] for answer in answers),
            failed=sum(isinstance(answer, DuetimeError) for answer in answers),
        )
        return Reply(200, "batch processed", data)

    def _item(self, request: Request, raw: Raw) -> CreateTimer | DuetimeError:
        """A timer of a batch, or what is wrong with it."""
        if len(raw) > self._max_timer:
            return PayloadTooLarge(f"timer: must be at most {self._max_timer} bytes")
        item = bytes(raw)
        try:
            check_depth(item)
            body = decode(item, CreateTimer)
        except InvalidRequest as error:
            return error
        body.correlation_id = body.correlation_id or request.correlation_id()
        return body

    async def list(self, request: Request) -> Reply:
        given = request.parameters(ListParameters)
        caller = request.caller
        cursors = Cursors(self._seal, caller.tenant, "timers")
        page = await self._service.search(caller, to_filter(given), to_part(given, cursors))
        return Reply(200, "success", timer_list(given, page, cursors))

    async def get(self, request: Request) -> Reply:
        timer = await self._service.get(request.caller, id_of(request))
        return detailed(timer, request.caller, self._service.waiting_for(timer))

    async def update(self, request: Request) -> Reply:
        timer = await self._service.update(
            request.caller, id_of(request), request.decode(UpdateTimer), request.if_match()
        )
        return shown(timer, "timer updated successfully")

    async def cancel(self, request: Request) -> Reply:
        timer = await self._service.cancel(request.caller, id_of(request), request.if_match())
        return canceled(timer)

    async def fire(self, request: Request) -> Reply:
        return await self._act(request, self._service.fire, "timer fires now")

    async def pause(self, request: Request) -> Reply:
        return await self._act(request, self._service.pause, "timer paused successfully")

    async def resume(self, request: Request) -> Reply:
        return await self._act(request, self._service.resume, "timer resumed successfully")

    async def redrive(self, request: Request) -> Reply:
        return await self._act(request, self._service.redrive, "timer is tried again now")

    async def attempts(self, request: Request) -> Reply:
        given = request.parameters(AttemptParameters)
        caller, id_ = request.caller, id_of(request)
        cursors = Cursors(self._seal, caller.tenant, f"attempts of {id_}")
        after = attempts_after(given, cursors)
        attempts = await self._service.attempts(caller, id_, after=after, limit=given.limit)
        return Reply(200, "success", attempt_list(given, attempts, caller, cursors))

    @staticmethod
    async def _act(
        request: Request,
        act: Callable[[Caller, str, int | None], Awaitable[Timer]],
        message: str,
    ) -> Reply:
        if request.body.strip() not in {b"", b"{}"}:
            raise InvalidRequest("body: none is expected")
        timer = await act(request.caller, id_of(request), request.if_match())
        return shown(timer, message)


def _key_of(request: Request, body: CreateTimer) -> str | None:
    """The caller's key: timer_id, or the Idempotency-Key header, which does the same."""
    given = request.header("Idempotency-Key")
    if given is None:
        return body.timer_id or request.key
    check_key(given, "Idempotency-Key")
    if body.timer_id is not None and body.timer_id != given:
        raise InvalidRequest("Idempotency-Key: differs from timer_id; one of them is enough")
    return given


def id_of(request: Request) -> str:
    """The id of a timer that a request names."""
    given = request.path_params["id"].lower()
    if not ids.is_uuid(given):
        raise InvalidRequest("id: must be a UUID")
    if not ids.is_id(given):
        raise NotFound("timer not found")  # a UUID, but none of ours
    return given


def _batch_item(answer: Answer, caller: Caller) -> BatchItemView:
    if isinstance(answer, DuetimeError):
        reply = failure(answer, caller)
        return BatchItemView(reply.code, reply.message, None)
    timer, is_new = answer
    message = "timer created successfully" if is_new else "timer exists already"
    return BatchItemView(Code.OK, message, view(timer))
