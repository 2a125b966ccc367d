"""The timers resource: /timers and what lies below it."""

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from duetime import ids
from duetime.api.envelope import Code, Reply, failure
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.api.views import (
    AttemptListView,
    BatchItemView,
    BatchView,
    CanceledView,
    TimerDetailView,
    TimerListView,
    TimerView,
    attempt_view,
    detail_view,
    view,
)
from duetime.decoding import check_depth, decode
from duetime.errors import DuetimeError, InvalidRequest, NotFound, PayloadTooLarge
from duetime.model import Status, Timer
from duetime.requests import (
    Batch,
    CreateTimer,
    GroupName,
    Tag,
    Text,
    Time,
    UpdateTimer,
    check_key,
    check_text,
    to_time,
)
from duetime.service import Answer, Service
from duetime.stores import Query

PlaceT = TypeVar("PlaceT")
_ETAG = re.compile(r'(?:W/)?"?(\d{1,18})"?', re.ASCII)
_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]  # what a store can compare with
Cursor = Annotated[str, Meta(max_length=1024, description="`next_cursor` of the page before.")]


class ListParameters(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to list, and how."""

    status: Status | None = None
    group: GroupName | None = None
    tag: Tag | None = None
    name_prefix: Text | None = None
    correlation_id: Text | None = None
    created_after: Time | None = None
    created_before: Time | None = None
    execute_after: Time | None = None
    execute_before: Time | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    offset: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0
    sort: Literal["created_at", "execute_at"] = "created_at"
    order: Literal["asc", "desc"] = "desc"
    cursor: Cursor | None = None
    total: bool | None = None


class AttemptParameters(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which attempts to list."""

    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: Cursor | None = None


class Timers:
    """The operations on timers."""

    def __init__(self, service: Service, *, max_timer: int) -> None:
        self._service = service
        self._max_timer = max_timer  # bytes of one timer, also within a batch

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="POST",
                path="/timers",
                handler=self.create,
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
                path="/timers/batch",
                handler=self.create_batch,
                summary="Create many timers",
                tag="Timers",
                body=Batch,
                headers=("X-Correlation-ID",),
                answer=BatchView,
                failures=(400, 500, 503),
                is_bulk=True,
            ),
            Operation(
                method="GET",
                path="/timers/{id}",
                handler=self.get,
                summary="Get a timer",
                tag="Timers",
                answer=TimerDetailView,
                failures=(400, 404, 503),
            ),
            Operation(
                method="PUT",
                path="/timers/{id}",
                handler=self.update,
                summary="Update a timer",
                tag="Timers",
                body=UpdateTimer,
                headers=("If-Match",),
                answer=TimerView,
                failures=(400, 404, 412, 500, 503),
            ),
            Operation(
                method="DELETE",
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
                    path=f"/timers/{{id}}/{action}",
                    handler=handler,
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
                )
            ),
            Operation(
                method="GET",
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
        body.correlation_id = correlation_id_of(request, body)
        timer, is_new = await self._service.create(request.tenant, body)
        if is_new:
            return Reply(201, "timer created successfully", view(timer), headers=etag(timer))
        return Reply(200, "timer exists already", view(timer), headers=etag(timer))

    async def create_batch(self, request: Request) -> Reply:
        if request.header("Idempotency-Key") is not None:
            raise InvalidRequest("Idempotency-Key: give each timer of a batch a timer_id instead")
        items = request.decode_outline(Batch).timers
        answers = await self._service.create_many(
            request.tenant,
            (self._item(request, bytes(item)) for item in items),
            count=len(items),
            size=len(request.body),
        )
        data = BatchView(
            [_batch_item(answer) for answer in answers],
            created=sum(isinstance(answer, tuple) and answer[1] for answer in answers),
            failed=sum(isinstance(answer, DuetimeError) for answer in answers),
        )
        return Reply(200, "batch processed", data)

    def _item(self, request: Request, item: bytes) -> CreateTimer | DuetimeError:
        """A timer of a batch, or what is wrong with it."""
        if len(item) > self._max_timer:
            return PayloadTooLarge(f"timer: must be at most {self._max_timer} bytes")
        try:
            check_depth(item)
            body = decode(item, CreateTimer)
        except InvalidRequest as error:
            return error
        body.correlation_id = correlation_id_of(request, body)
        return body

    async def list(self, request: Request) -> Reply:
        given = request.parameters(ListParameters)
        if given.cursor is not None and given.offset:
            raise InvalidRequest("offset: cannot be given together with cursor")
        page = await self._service.search(
            Query(
                tenant=request.tenant,
                status=given.status,
                group=given.group,
                tag=given.tag,
                name_prefix=given.name_prefix,
                correlation_id=given.correlation_id,
                created_after=_time(given.created_after, "created_after"),
                created_before=_time(given.created_before, "created_before"),
                execute_after=_time(given.execute_after, "execute_after"),
                execute_before=_time(given.execute_before, "execute_before"),
                sort=given.sort,
                descending=given.order == "desc",
                limit=given.limit,
                offset=given.offset,
                after=_place(given),
                with_total=self._counts(given),
            )
        )
        place = page.stopped_at
        if len(page.timers) == given.limit:
            last = page.timers[-1]
            place = getattr(last, given.sort), last.id
        next_cursor = None if place is None else _write_cursor((_order(given), *place))
        data = TimerListView(
            [view(timer) for timer in page.timers],
            total=page.total,
            limit=given.limit,
            offset=given.offset,
            next_cursor=next_cursor,
        )
        return Reply(200, "success", data)

    def _counts(self, given: ListParameters) -> bool:
        """Tell whether to count: as asked, or on first pages where the engine can."""
        if given.total is not None:
            return given.total
        return given.cursor is None and self._service.counts

    async def get(self, request: Request) -> Reply:
        timer = await self._service.get(request.tenant, _id_of(request))
        return Reply(200, "success", detail_view(timer), headers=etag(timer))

    async def update(self, request: Request) -> Reply:
        timer = await self._service.update(
            request.tenant, _id_of(request), request.decode(UpdateTimer), if_match(request)
        )
        return Reply(200, "timer updated successfully", view(timer), headers=etag(timer))

    async def cancel(self, request: Request) -> Reply:
        timer = await self._service.cancel(request.tenant, _id_of(request), if_match(request))
        return canceled(timer)

    async def fire(self, request: Request) -> Reply:
        return await self._act(request, self._service.fire, "timer fires now")

    async def pause(self, request: Request) -> Reply:
        return await self._act(request, self._service.pause, "timer paused successfully")

    async def resume(self, request: Request) -> Reply:
        return await self._act(request, self._service.resume, "timer resumed successfully")

    async def attempts(self, request: Request) -> Reply:
        given = request.parameters(AttemptParameters)
        attempts = await self._service.attempts(
            request.tenant,
            _id_of(request),
            after=_read_cursor(given.cursor, tuple[_Int64, _Int64]),
            limit=given.limit,
        )
        next_cursor = None
        if len(attempts) == given.limit:
            next_cursor = _write_cursor((attempts[-1].occurrence, attempts[-1].attempt))
        data = AttemptListView([attempt_view(attempt) for attempt in attempts], next_cursor)
        return Reply(200, "success", data)

    @staticmethod
    async def _act(
        request: Request,
        act: Callable[[str, str, int | None], Awaitable[Timer]],
        message: str,
    ) -> Reply:
        if request.body.strip() not in {b"", b"{}"}:
            raise InvalidRequest("body: none is expected")
        timer = await act(request.tenant, _id_of(request), if_match(request))
        return Reply(200, message, view(timer), headers=etag(timer))


def etag(timer: Timer) -> tuple[tuple[bytes, bytes], ...]:
    """The header that names a timer's version."""
    return ((b"etag", b'"%d"' % timer.version),)


def if_match(request: Request) -> int | None:
    """The version that the caller insists on, if any."""
    given = request.header("If-Match")
    if given is None or given == "*":
        return None
    if (match := _ETAG.fullmatch(given)) is None:
        raise InvalidRequest('If-Match: must be an ETag of this timer such as "3"')
    return int(match[1])


def canceled(timer: Timer) -> Reply:
    """The answer to a cancel."""
    data = CanceledView(timer.id, timer.status)
    return Reply(200, "timer canceled successfully", data, headers=etag(timer))


def correlation_id_of(request: Request, body: CreateTimer) -> str | None:
    """The correlation id from the body, or else from the header."""
    if body.correlation_id is not None:
        return body.correlation_id
    given = request.header("X-Correlation-ID")
    if given is not None:
        check_text(given, "X-Correlation-ID")
    return given


def _key_of(request: Request, body: CreateTimer) -> str | None:
    """The caller's key: timer_id, or the Idempotency-Key header, which does the same."""
    given = request.header("Idempotency-Key")
    if given is None:
        return body.timer_id
    check_key(given, "Idempotency-Key")
    if body.timer_id is not None and body.timer_id != given:
        raise InvalidRequest("Idempotency-Key: differs from timer_id; one of them is enough")
    return given


def _id_of(request: Request) -> str:
    given = request.path_params["id"].lower()
    if not ids.is_uuid(given):
        raise InvalidRequest("id: must be a UUID")
    if not ids.is_id(given):
        raise NotFound("timer not found")  # a UUID, but none of ours
    return given


def _batch_item(answer: Answer) -> BatchItemView:
    if isinstance(answer, DuetimeError):
        reply = failure(answer)
        return BatchItemView(reply.code, reply.message, None)
    timer, is_new = answer
    message = "timer created successfully" if is_new else "timer exists already"
    return BatchItemView(Code.OK, message, view(timer))


def _time(given: str | None, field: str) -> int | None:
    return None if given is None else to_time(given, field)


def _order(given: ListParameters) -> str:
    return f"{given.sort} {given.order}"


def _place(given: ListParameters) -> tuple[int, str] | None:
    """Where the page before ended; a cursor is good for the order that it was given out in."""
    place = _read_cursor(given.cursor, tuple[str, _Int64, str])
    if place is None:
        return None
    if place[0] != _order(given):
        raise InvalidRequest("cursor: belongs to a list with another sort or order")
    return place[1:]


def _write_cursor(place: tuple[int | str, ...]) -> str:
    return urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _read_cursor(cursor: str | None, type_: type[PlaceT]) -> PlaceT | None:
    if cursor is None:
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(cursor + "=="), type=type_)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        raise InvalidRequest("cursor: is not one that this list gave out") from None
