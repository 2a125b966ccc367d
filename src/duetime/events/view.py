"""An event as everybody outside sees it: the same bytes in NATS and in the live stream."""

from typing import Any

import msgspec

from duetime.clock import to_rfc3339
from duetime.timer import Event


class EventView(msgspec.Struct, frozen=True):
    """What happened to a timer."""

    id: str
    type: str
    tenant: str
    group: str
    timer: str  # its id
    timer_id: str  # its key
    version: int
    occurrence: int
    attempt: int
    time: str
    correlation_id: str
    tags: tuple[str, ...]
    data: dict[str, Any]


_encode = msgspec.json.Encoder().encode


def encode(event: Event) -> bytes:
    """Write an event as JSON."""
    return _encode(
        EventView(
            event.id,
            event.type,
            event.tenant,
            event.group,
            event.timer,
            event.timer_id,
            event.version,
            event.occurrence,
            event.attempt,
            to_rfc3339(event.at),
            event.correlation_id,
            event.tags,
            event.data,
        )
    )
