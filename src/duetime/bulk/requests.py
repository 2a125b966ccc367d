"""What users send about actions: types like those of ``duetime.requests``."""

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType
from msgspec.structs import replace

from duetime import metadata
from duetime.bulk.action import UserVerb
from duetime.clock import Millis
from duetime.decoding import decode
from duetime.durations import parse_duration
from duetime.errors import InvalidRequest
from duetime.requests import MOST_TAGS, GroupName, Tag, Text, Time, UpdateTimer, to_time
from duetime.searching import EVERYTHING, MOST_PATHS, Filter
from duetime.timer import Kind, Status

MOST_GROUPS = 64
LARGEST_FILTER = 16 * 1024  # bytes; it is kept in a record
LARGEST_UPDATE = 64 * 1024

_Statuses: TypeAlias = Annotated[list[Status], Meta(min_length=1, max_length=len(Status))]
_Groups: TypeAlias = Annotated[list[GroupName], Meta(min_length=1, max_length=MOST_GROUPS)]
_Tags: TypeAlias = Annotated[list[Tag], Meta(max_length=MOST_TAGS)]
_Shift: TypeAlias = Annotated[
    str,
    Meta(
        max_length=64,
        description='A duration such as `"1h"`; `"-15m"` is earlier, but never before now.',
        examples=["1h", "-15m"],
    ),
]

_Update: TypeAlias = Annotated[
    Raw, Meta(description="For `update`: what to change, as in `PUT /timers/{id}`.")
]


class FilterBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which timers; all of the conditions must hold."""

    status: Status | _Statuses | None = None
    group: GroupName | _Groups | None = None
    tags: Annotated[_Tags, Meta(description="All of these.")] = []
    any_tags: Annotated[_Tags, Meta(description="At least one of these.")] = []
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
        dict[str, Any],
        Meta(
            max_length=MOST_PATHS,
            description="What must lie at which path: keys joined by dots.",
            examples=[{"customer.id": 42}],
        ),
    ] = {}
    last_error: (
        Annotated[Text, Meta(description="Text in the last error, in either case.")] | None
    ) = None
    outcome: Annotated[Kind, Meta(description="How the last attempt ended.")] | None = None
    all: Annotated[bool, Meta(description="Every timer: to be said instead of no condition.")] = (
        False
    )


class CreateAction(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to do with all timers that match."""

    action: UserVerb
    filter: FilterBody
    dry_run: Annotated[bool, Meta(description="Only count, and change nothing.")] = False
    by: Annotated[_Shift, Meta(description="For `shift`.")] | None = None
    update: _Update | UnsetType = UNSET


class RedriveTimers(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which of the failed timers to try again."""

    filter: Annotated[
        FilterBody, Meta(description="Of the failed timers; `status` need not be said.")
    ]
    dry_run: Annotated[bool, Meta(description="Only count, and change nothing.")] = False


def to_filter(body: FilterBody) -> Filter:
    """The filter that a body asks for; nobody means everything by leaving all out."""
    for path, value in body.metadata.items():
        try:
            metadata.steps_of(path)
            metadata.check_value(value)
        except InvalidRequest as error:
            raise InvalidRequest(f"filter.{error}") from None
    wanted = Filter(
        statuses=_several(body.status),
        groups=None if body.group is None else _several(body.group),
        tags=tuple(dict.fromkeys(body.tags)),
        any_tags=tuple(dict.fromkeys(body.any_tags)),
        name_prefix=body.name_prefix,
        name_contains=body.name_contains,
        correlation_id=body.correlation_id,
        created_after=_time(body, "created_after"),
        created_before=_time(body, "created_before"),
        execute_after=_time(body, "execute_after"),
        execute_before=_time(body, "execute_before"),
        metadata=body.metadata,
        last_error=body.last_error,
        outcome=body.outcome,
    )
    if wanted == EVERYTHING and not body.all:
        raise InvalidRequest('filter: has no condition; {"all": true} means every timer')
    if wanted != EVERYTHING and body.all:
        raise InvalidRequest("filter.all: cannot be given together with conditions")
    if len(msgspec.json.encode(wanted)) > LARGEST_FILTER:
        raise InvalidRequest(f"filter: must be at most {LARGEST_FILTER} bytes")
    return wanted


def to_wanted(body: CreateAction) -> Filter:
    """Which timers an action is about: a redrive, if nothing else is said, about failed ones."""
    wanted = to_filter(body.filter)
    if body.action == "redrive" and not wanted.statuses:
        return replace(wanted, statuses=(Status.FAILED,))
    return wanted


def to_shift(body: CreateAction) -> Millis | None:
    """By how much to shift; only where that is what is asked for."""
    if (body.by is not None) != (body.action == "shift"):
        problem = "required" if body.by is None else f"does not go with '{body.action}'"
        raise InvalidRequest(f"by: {problem}")
    if body.by is None:
        return None
    try:
        by = parse_duration(body.by.removeprefix("-"))
    except ValueError as error:
        raise InvalidRequest(f"by: {error}") from None
    if by == 0:
        raise InvalidRequest("by: must not be zero")
    return -by if body.by.startswith("-") else by


def to_update(body: CreateAction) -> UpdateTimer | None:
    """What to update; only where that is what is asked for."""
    if (body.update is not UNSET) != (body.action == "update"):
        problem = "required" if body.update is UNSET else f"does not go with '{body.action}'"
        raise InvalidRequest(f"update: {problem}")
    if body.update is UNSET:
        return None
    if len(body.update) > LARGEST_UPDATE:
        raise InvalidRequest(f"update: must be at most {LARGEST_UPDATE} bytes")
    try:
        update = decode(bytes(body.update), UpdateTimer)
    except InvalidRequest as error:
        raise InvalidRequest(f"update.{error}") from None
    if all(value is UNSET for value in msgspec.structs.astuple(update)):
        raise InvalidRequest("update: changes nothing")
    return update


def _several(given: Any) -> tuple[Any, ...]:
    if given is None:
        return ()
    return tuple(dict.fromkeys(given)) if isinstance(given, list) else (given,)


def _time(body: FilterBody, field: str) -> Millis | None:
    given = getattr(body, field)
    return None if given is None else to_time(given, f"filter.{field}")
