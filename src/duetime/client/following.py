"""Following: where somebody is who listens to events, and what to do when the stream breaks off.

Both clients ask it for the next call, give it what comes in, and ask it how long to wait before
they call again.
"""

from collections import OrderedDict
from typing import Any, cast

import msgspec

from duetime.client.calls import Call
from duetime.client.errors import ClientError, ServiceError
from duetime.client.event_types import Event, EventFilters
from duetime.client.sse import SSE_TYPE, Sse

# Seconds without a sign of life. The service gives one every fifteen.
QUIET = 45.0

_FIRST_PAUSE = 0.25  # seconds, and twice as long each time
_LONGEST_PAUSE = 10.0
_PASSING = {429, 500, 502, 503, 504}
_STATUS = {2: 400, 3: 404, 4: 401, 7: 429, 9: 503, 10: 403}  # of what a stream says last, by code
_MOST_REMEMBERED = 20_000


class Following:
    """One who listens, over as many calls as it takes."""

    def __init__(self, filters: EventFilters, after: str | None, *, follow: bool) -> None:
        self.is_over = False
        self._query: dict[str, Any] = {
            name: value for name, value in filters.items() if value is not None
        }
        if not follow:
            self._query["follow"] = "false"
        self._after = after
        self._has_begun = False  # this call ...
        self._has_ever_begun = False  # ... or one before
        self._failures = 0
        self._heard: OrderedDict[str, None] = OrderedDict()
        self._sse = Sse()

    def call(self) -> Call[bytes]:
        """What to ask for now."""
        self._sse = Sse()
        self._has_begun = False
        headers = {"Accept": SSE_TYPE}
        if self._after is not None:
            headers["Last-Event-ID"] = self._after
        return Call("GET", "/events", query=self._query, headers=headers)

    def take(self, piece: bytes) -> list[Event]:
        """The events that are whole with this piece, and were not heard before."""
        events = []
        for said in self._sse.feed(piece):
            if self._has_begun:
                self._failures = 0  # more than the first sign of life
            self._has_begun = self._has_ever_begun = True
            if said.type == "error":
                raise _refusal(said.data)
            if said.id is not None:
                self._after = said.id
            if said.type == "end":
                self.is_over = True
            elif said.data:
                events += self._new(said.data)
        return events

    def pause_after(self, error: ClientError | None) -> float:
        """How many seconds to wait until it is worth calling again.

        Raises the error if it will not pass, or if nothing was ever heard.
        """
        if error is not None and (not self._has_ever_begun or not _will_pass(error)):
            raise error
        pause: float = min(_FIRST_PAUSE * 2**self._failures, _LONGEST_PAUSE)
        self._failures += 1
        if isinstance(error, ServiceError) and error.retry_after is not None:
            pause = max(pause, error.retry_after)
        return pause

    def _new(self, data: str) -> list[Event]:
        try:
            event = msgspec.json.decode(data, type=dict[str, Any])
            id_, type_ = event["id"], event["type"]
        except (msgspec.MsgspecError, KeyError):
            return []
        if not isinstance(id_, str) or not isinstance(type_, str):
            return []  # nothing that a Duetime service would say
        if id_ in self._heard:
            return []  # after a break, some come again
        self._heard[id_] = None
        if len(self._heard) > _MOST_REMEMBERED:
            self._heard.popitem(last=False)
        return [cast("Event", {**event, "position": self._after})]


def _will_pass(error: ClientError) -> bool:
    return not isinstance(error, ServiceError) or error.status in _PASSING


class _LastWord(msgspec.Struct):
    code: int = 1
    message: str = "the stream has failed"


def _refusal(data: str) -> ServiceError:
    try:
        word = msgspec.json.decode(data, type=_LastWord)
    except msgspec.MsgspecError:
        word = _LastWord()
    return ServiceError(_STATUS.get(word.code, 500), word.code, word.message)
