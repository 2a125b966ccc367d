"""Every call of the API as a value: what to send, and what type the answer's data has.

Both clients send these and read the answers here, so that nothing is written twice.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from duetime.client.errors import ServiceError
from duetime.client.types import (
    Attempts,
    Batch,
    Filters,
    Health,
    NewTimer,
    Nodes,
    Page,
    Timer,
    TimerChange,
    TimerContent,
)

AnswerT = TypeVar("AnswerT")

_SUCCESS = range(200, 300)
_UNEXPECTED = 1  # the code of an answer that has none


class Call(NamedTuple, Generic[AnswerT]):
    """A request whose answer carries an ``AnswerT``."""

    method: str
    path: str
    body: Mapping[str, Any] | msgspec.Raw | None = None
    query: Mapping[str, Any] = {}  # a list stands for a parameter that is repeated
    headers: Mapping[str, str] = {}
    needs: str | None = None  # a field without which the answer is of no use ...
    needs_type: type = str  # ... and what it must be
    patience: float = 0.0  # seconds: it may take so long, though the client has less


class Answer(NamedTuple, Generic[AnswerT]):
    """A call's answer: its data, and how the service put it."""

    status: int
    message: str
    data: AnswerT


class _Envelope(msgspec.Struct):
    code: int
    message: str
    data: Any = None


_decoder = msgspec.json.Decoder(_Envelope)


def read_answer(
    call: Call[Any], status: int, body: bytes, retry_after: str | None = None
) -> Answer[Any]:
    """An answer with its data; ServiceError if it is a refusal, or no answer of Duetime's."""
    try:
        answer = _decoder.decode(body)
    except msgspec.MsgspecError:
        raise no_answer(status) from None
    if status not in _SUCCESS:
        raise ServiceError(status, answer.code, answer.message, _seconds(retry_after))
    if call.needs and not _has(answer.data, call.needs, call.needs_type):
        message = f"the service's answer has no '{call.needs}': is it a newer or an older version?"
        raise ServiceError(status, _UNEXPECTED, message)
    return Answer(status, answer.message, answer.data)


def no_answer(status: int) -> ServiceError:
    """What to raise about something that Duetime would not say."""
    message = f"HTTP {status}, and not the answer of a Duetime service"
    return ServiceError(status, _UNEXPECTED, message)


def create(timer: NewTimer, idempotency_key: str | None) -> Call[Timer]:
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
    return Call("POST", "/timers", timer, headers=headers)


def create_batch(timers: Sequence[NewTimer]) -> Call[Batch]:
    return Call("POST", "/timers/batch", {"timers": timers})


def get(id_: str) -> Call[Timer]:
    return Call("GET", _timer(id_))


def page(filters: Filters) -> Call[Page]:
    query: dict[str, Any] = {name: each for name, each in filters.items() if each is not None}
    if "metadata" in query:
        pairs = query["metadata"].items()
        query["metadata"] = [f"{path}={_value(value)}" for path, value in pairs]
    return Call("GET", "/timers", query=query)


def next_page(filters: Filters, before: Page) -> Filters | None:
    """What to ask for the page behind this one, or None if it is the last."""
    cursor = before.get("next_cursor")
    if not cursor:
        return None
    following = Filters(**filters)
    following.pop("offset", None)
    following["cursor"] = cursor
    return following


def update(id_: str, change: TimerChange, if_version: int | None) -> Call[Timer]:
    return Call("PUT", _timer(id_), change, headers=_if_match(if_version))


def cancel(id_: str, if_version: int | None) -> Call[Timer]:
    return Call("DELETE", _timer(id_), headers=_if_match(if_version))


def act(id_: str, action: str) -> Call[Timer]:
    return Call("POST", f"{_timer(id_)}/{action}")


def attempts(id_: str) -> Call[Attempts]:
    return Call("GET", f"{_timer(id_)}/attempts")


def get_by_key(group: str, timer_id: str) -> Call[Timer]:
    return Call("GET", _key(group, timer_id))


def put_by_key(
    group: str, timer_id: str, timer: TimerContent, if_version: int | None
) -> Call[Timer]:
    return Call("PUT", _key(group, timer_id), timer, headers=_if_match(if_version))


def cancel_by_key(group: str, timer_id: str, if_version: int | None) -> Call[Timer]:
    return Call("DELETE", _key(group, timer_id), headers=_if_match(if_version))


def nodes(*, with_shards: bool) -> Call[Nodes]:
    return Call("GET", "/nodes", query={"shards": "ranges"} if with_shards else {})


def health() -> Call[Health]:
    return Call("GET", "/healthz")


def ready() -> Call[Health]:
    return Call("GET", "/readyz")


def _timer(id_: str) -> str:
    return f"/timers/{quote(id_, safe='')}"


def _key(group: str, timer_id: str) -> str:
    return f"/groups/{quote(group, safe='')}/timers/{quote(timer_id, safe='')}"


def _if_match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}


def _has(data: Any, name: str, type_: type) -> bool:
    return isinstance(data, dict) and isinstance(data.get(name), type_)


def _value(value: Any) -> str:
    """A value as a parameter: JSON, but for texts that could not be taken for it."""
    if isinstance(value, str):
        try:
            msgspec.json.decode(value)
        except msgspec.DecodeError:
            return value
    return msgspec.json.encode(value).decode()


def _seconds(retry_after: str | None) -> float | None:
    """How long to wait, if the service said so in seconds."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
