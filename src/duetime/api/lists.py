"""Lists: what to ask for page by page, and the cursor that leads from one page to the next."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from duetime.api.views import AttemptListView, TimerListView, attempt_view, view
from duetime.errors import InvalidRequest
from duetime.model import Attempt, Status
from duetime.requests import GroupName, Tag, Text, Time, to_time
from duetime.stores import Page, Query

PlaceT = TypeVar("PlaceT")
_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]  # what a store can compare with
Limit = Annotated[int, Meta(ge=1, le=200)]
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
    limit: Limit = 50
    offset: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0
    sort: Literal["created_at", "execute_at"] = "created_at"
    order: Literal["asc", "desc"] = "desc"
    cursor: Cursor | None = None
    total: bool | None = None


class AttemptParameters(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which attempts to list."""

    limit: Limit = 50
    cursor: Cursor | None = None


def to_query(given: ListParameters, tenant: str, *, counts: bool) -> Query:
    """The question to the store; unless told, it counts on first pages where the engine can."""
    if given.cursor is not None and given.offset:
        raise InvalidRequest("offset: cannot be given together with cursor")
    is_first = given.cursor is None
    return Query(
        tenant=tenant,
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
        with_total=(is_first and counts) if given.total is None else given.total,
    )


def timer_list(given: ListParameters, page: Page) -> TimerListView:
    """A page of timers, with the cursor to the next one."""
    place = page.stopped_at
    if len(page.timers) == given.limit:
        last = page.timers[-1]
        place = getattr(last, given.sort), last.id
    return TimerListView(
        [view(timer) for timer in page.timers],
        total=page.total,
        limit=given.limit,
        offset=given.offset,
        next_cursor=None if place is None else write_cursor((_order(given), *place)),
    )


def attempts_after(given: AttemptParameters) -> tuple[int, int] | None:
    """The attempt that the page before ended with."""
    return read_cursor(given.cursor, tuple[_Int64, _Int64])


def attempt_list(given: AttemptParameters, attempts: list[Attempt]) -> AttemptListView:
    """A page of attempts, with the cursor to the next one."""
    next_cursor = None
    if len(attempts) == given.limit:
        next_cursor = write_cursor((attempts[-1].occurrence, attempts[-1].attempt))
    return AttemptListView([attempt_view(attempt) for attempt in attempts], next_cursor)


def _time(given: str | None, field: str) -> int | None:
    return None if given is None else to_time(given, field)


def _order(given: ListParameters) -> str:
    return f"{given.sort} {given.order}"


def _place(given: ListParameters) -> tuple[int, str] | None:
    """Where the page before ended; a cursor is good for the order that it was given out in."""
    place = read_cursor(given.cursor, tuple[str, _Int64, str])
    if place is None:
        return None
    if place[0] != _order(given):
        raise InvalidRequest("cursor: belongs to a list with another sort or order")
    return place[1:]


def write_cursor(place: str | tuple[int | str, ...]) -> str:
    """A place in a list, as it is handed out."""
    return urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def read_cursor(cursor: str | None, type_: type[PlaceT]) -> PlaceT | None:
    """The place that was handed out."""
    if cursor is None:
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(cursor + "=="), type=type_)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        raise InvalidRequest("cursor: is not one that this list gave out") from None
