"""The events resource: what happens to timers, as it happens, as Server-Sent Events."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from duetime import ids
from duetime.api.cursors import Cursors
from duetime.api.envelope import Reply
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.api.seal import Seal
from duetime.errors import Conflict, InvalidRequest
from duetime.events.feed import FIRST, Told
from duetime.events.reader import Reader
from duetime.events.types import TYPES
from duetime.events.view import EventView
from duetime.events.wish import Wish
from duetime.requests import MOST_TAGS, GroupName, Tag
from duetime.service import Service
from duetime.tenancy.role import Role

HEARTBEAT = 15.0  # seconds: proxies hang up on what says nothing for a minute or so
RETRY = 2_000  # milliseconds after which a browser comes back
MOST_KEPT = 2_000  # events, as they are sent
LONGEST_PAUSE = 60.0  # seconds that a reader may take for what it was sent last

STREAM = b"text/event-stream"
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would keep it back
    (b"x-content-type-options", b"nosniff"),
)

if TYPE_CHECKING:
    EventType = str
else:
    EventType = Literal[tuple(TYPES)]

_UUID = Meta(max_length=36, description="The timer's id.", extra_json_schema={"format": "uuid"})
_Position = Annotated[
    str,
    Meta(
        max_length=1024,
        description=f"The `id` to go on from, or `{FIRST}` for all that is kept. The header "
        "`Last-Event-ID` goes before it.",
    ),
]


class EventParameters(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which events to hear of."""

    group: GroupName | None = None
    type: Annotated[list[EventType], Meta(max_length=len(TYPES), description="One of these.")] = []
    timer: Annotated[str, _UUID] | None = None
    tag: Annotated[list[Tag], Meta(max_length=MOST_TAGS, description="All of these.")] = []
    last_event_id: _Position | None = None
    follow: Annotated[
        bool,
        Meta(description="`false`: end when all that is kept has been told, from the first on."),
    ] = True


class _LastWord(msgspec.Struct):
    """What is said when a stream cannot go on."""

    code: int
    message: str
    last_event_id: str


class Events:
    """The operations on events."""

    def __init__(self, service: Service, seal: Seal) -> None:
        self._live = service.live
        self._seal = seal
        # Many may hear the same: sealing its position is most of the work.
        self._written = lru_cache(MOST_KEPT)(partial(_written, seal))

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="GET",
                path="/events",
                handler=self.stream,
                role=Role.READ_WITHOUT_PAYLOADS,
                summary="Hear of what happens to timers",
                tag="Events",
                parameters=EventParameters,
                headers=("Last-Event-ID",),
                answer=EventView,
                content_type="text/event-stream",
                failures=(400, 403, 409, 429, 500, 503),
            )
        ]

    async def stream(self, request: Request) -> Reply:
        given = request.parameters(EventParameters)
        wish = _wish(request, given)
        cursors = _cursors(self._seal, request.caller.tenant)
        after = _position(request.header("Last-Event-ID") or given.last_event_id, cursors)
        if self._live is None:
            raise Conflict("events are not kept; the operator switches that on with OUTBOX=on")
        reading = partial(self._live.listen, wish, after, follow=given.follow)
        stream = _Stream(reading, cursors, self._written)
        return Reply(
            200,
            "success",
            stream=stream.parts(),
            content_type=STREAM,
            headers=_HEADERS,
            last_word=stream.last_word,
            longest_pause=LONGEST_PAUSE,
            hurry=self._live.closing,
        )


class _Stream:
    """One answer: what a reader hears, written as Server-Sent Events."""

    def __init__(
        self,
        listen: Callable[[], Awaitable[Reader]],
        cursors: Cursors,
        written: Callable[[Told], bytes],
    ) -> None:
        self._listen = listen
        self._cursors = cursors
        self._written = written
        self._id = ""

    async def parts(self) -> AsyncGenerator[bytes]:
        """The first bytes at once, and then events, or a sign of life."""
        reader = await self._listen()
        try:
            self._id = self._cursors.write(reader.position)
            yield f": events of timers\nretry: {RETRY}\nid: {self._id}\n\n".encode()
            while (events := await reader.next(HEARTBEAT)) is not None:
                part = b"".join(map(self._written, events))
                self._id = self._cursors.write(reader.position)
                yield part or f": heartbeat\nid: {self._id}\n\n".encode()
            yield f"event: end\nid: {self._id}\ndata: {{}}\n\n".encode()
        finally:
            await reader.close()

    def last_word(self, failure: Reply) -> bytes:
        """Why it does not go on, and from where it can."""
        word = _LastWord(failure.code, failure.message, self._id)
        return b"event: error\ndata: %s\n\n" % msgspec.json.encode(word)


def _cursors(seal: Seal, tenant: str) -> Cursors:
    return Cursors(seal, tenant, "events")


def _written(seal: Seal, told: Told) -> bytes:
    position = _cursors(seal, told.tenant).write(told.position).encode()
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (position, told.type.encode(), told.body)


def _wish(request: Request, given: EventParameters) -> Wish:
    caller = request.caller
    if given.group is not None:
        caller.check_group(given.group)  # or it would be silent for ever
    if given.timer is not None and not ids.is_uuid(given.timer):
        raise InvalidRequest("timer: must be a UUID")
    return Wish(
        tenant=caller.tenant,
        groups=caller.groups,
        group=given.group,
        types=frozenset(given.type),
        timer=given.timer and given.timer.lower(),
        tags=frozenset(given.tag),
    )


def _position(given: str | None, cursors: Cursors) -> str | None:
    if given is None or given == FIRST:
        return given
    try:
        return cursors.read(given, str)
    except InvalidRequest:
        raise InvalidRequest(
            "Last-Event-ID: is not one that this stream gave out, to this tenant"
        ) from None
