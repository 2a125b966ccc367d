"""Events, as typed dictionaries: the service's own JSON."""

from typing import Any, Required, TypedDict


class EventFilters(TypedDict, total=False):
    """Which events to hear of; what may be several is a list."""

    group: str
    type: str | list[str]
    timer: str
    tag: str | list[str]


class Event(TypedDict, total=False):
    """Something that happened to a timer."""

    id: Required[str]
    type: Required[str]
    tenant: str
    group: str
    timer: str
    timer_id: str
    version: int
    occurrence: int
    attempt: int
    time: str
    correlation_id: str
    tags: list[str]
    data: dict[str, Any]
    position: str  # from which `events(after=...)` goes on behind it
