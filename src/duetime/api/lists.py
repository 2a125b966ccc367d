"""Lists: what to ask for page by page, and the cursor that leads from one page to the next."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from duetime import metadata
from duetime.api.cursors import Cursors
from duetime.api.views import AttemptListView, TimerListView, attempt_view, view
from duetime.decoding import check_depth
from duetime.errors import InvalidRequest
from duetime.requests import MOST_TAGS, GroupName, Tag, Text, Time, to_time
from duetime.searching import MOST_PATHS, Filter, Part
from duetime.stores import Page
from duetime.tenancy.caller import Caller
from duetime.timer import Attempt, Kind, Status

_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]  # what a store can compare with
Limit = Annotated[int, Meta(ge=1, le=200)]
Cursor = Annotated[str, Meta(max_length=1024, description="`next_cursor` of the page before.")]


class ListParameters(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to list, and how."""

    status: Annotated[list[Status], Meta(max_length=len(Status), description="One of these.")] = []
    group: GroupName | None = None
    tag: Annotated[list[Tag], Meta(max_length=MOST_TAGS, description="All of these.")] = []
    any_tag: Annotated[
        list[Tag], Meta(max_length=MOST_TAGS, description="At least one of these.")
    ] = []
    name_prefix: Text | None = None
    name_contains: Annotated[Text, Meta(description="Text in the name, in either case.")] | None = (
        None
    )
    correlation_id: Text | None = None
    created_after: Time | None = None
    created_before: Time | None = None
    execute_after: Time | None = None
    execute_before: Time | None = None
    metadata: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=2048)]],
        Meta(
            max_length=MOST_PATHS,
            description="`path=value`, all of these: a path is keys joined by dots, a value is "
            "JSON, or else a string.",
            examples=[["customer.id=42", "plan=gold"]],
        ),
    ] = []
    last_error: (
        Annotated[Text, Meta(description="Text in the last error, in either case.")] | None
    ) = None
    outcome: Annotated[Kind, Meta(description="How the last attempt ended.")] | None = None
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


def to_filter(given: ListParameters) -> Filter:
    """What to look for."""
    return Filter(
        statuses=tuple(dict.fromkeys(given.status)),
        groups=None if given.group is None else (given.group,),
        tags=tuple(dict.fromkeys(given.tag)),
        any_tags=tuple(dict.fromkeys(given.any_tag)),
        name_prefix=given.name_prefix,
        name_contains=given.name_contains,
        correlation_id=given.correlation_id,
        created_after=_time(given.created_after, "created_after"),
        created_before=_time(given.created_before, "created_before"),
        execute_after=_time(given.execute_after, "execute_after"),
        execute_before=_time(given.execute_before, "execute_before"),
        metadata=_metadata(given.metadata),
        last_error=given.last_error,
        outcome=given.outcome,
    )


def to_part(given: ListParameters, cursors: Cursors) -> Part:
    """Which part of it."""
    if given.cursor is not None and given.offset:
        raise InvalidRequest("offset: cannot be given together with cursor")
    return Part(
        sort=given.sort,
        descending=given.order == "desc",
        limit=given.limit,
        offset=given.offset,
        after=_place(given, cursors),
        with_total=given.total,
    )


def timer_list(given: ListParameters, page: Page, cursors: Cursors) -> TimerListView:
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
        next_cursor=None if place is None else cursors.write((_order(given), *place)),
    )


def attempts_after(given: AttemptParameters, cursors: Cursors) -> tuple[int, int] | None:
    """The attempt that the page before ended with."""
    return cursors.read(given.cursor, tuple[_Int64, _Int64])


def attempt_list(
    given: AttemptParameters, attempts: list[Attempt], caller: Caller, cursors: Cursors
) -> AttemptListView:
    """A page of attempts, with the cursor to the next one."""
    next_cursor = None
    if len(attempts) == given.limit:
        next_cursor = cursors.write((attempts[-1].occurrence, attempts[-1].attempt))
    return AttemptListView([attempt_view(attempt, caller) for attempt in attempts], next_cursor)


def _time(given: str | None, field: str) -> int | None:
    return None if given is None else to_time(given, field)


def _metadata(given: list[str]) -> dict[str, Any]:
    """What must lie at which paths."""
    asked: dict[str, Any] = {}
    for text in given:
        path, equals, value = text.partition("=")
        if not equals:
            raise InvalidRequest('metadata: must be a path and a value, such as "customer.id=42"')
        metadata.steps_of(path)
        if path in asked:
            raise InvalidRequest("metadata: a path is given twice")
        asked[path] = _value(value)
    return asked


def _value(text: str) -> Any:
    """A value of JSON, or else the text itself."""
    try:
        check_depth(text.encode())
        value = msgspec.json.decode(text)
    except msgspec.ValidationError:
        raise InvalidRequest("metadata: a number is out of range") from None
    except (InvalidRequest, RecursionError):
        raise InvalidRequest("metadata: nested too deeply") from None
    except msgspec.DecodeError:
        if text.startswith('"'):  # whoever begins a string means to write one
            raise InvalidRequest("metadata: a value is not valid JSON") from None
        return text
    metadata.check_value(value)
    return value


def _order(given: ListParameters) -> str:
    return f"{given.sort} {given.order}"


def _place(given: ListParameters, cursors: Cursors) -> tuple[int, str] | None:
    """Where the page before ended; a cursor is good for the order that it was given out in."""
    place = cursors.read(given.cursor, tuple[str, _Int64, str])
    if place is None:
        return None
    if place[0] != _order(given):
        raise InvalidRequest("cursor: belongs to a list with another sort or order")
    return place[1:]
