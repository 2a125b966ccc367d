"""A gatherer lets timers that are created at the same time share requests.

    together = Gatherer(duetime)
    timers = await asyncio.gather(*(together.create(**each) for each in many))

Nobody waits while few requests are under way: who is created alone goes out at once, by itself.
Only while so many are under way that the service is the slower side, whatever is created gathers,
and goes out together as soon as one of them is answered. Each is answered, or refused, by itself.
"""

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack, cast

import msgspec

from duetime.client.asynchronous import AsyncClient
from duetime.client.calls import Call, no_answer
from duetime.client.errors import ServiceError, ServiceUnreachable
from duetime.client.types import NewTimer, Timer

AT_ONCE = 4  # requests; with more of them, each would only be smaller
SMALLEST = 64  # timers in a request that is not the only one: in two of 32 they take no less time
LARGEST = 500  # timers in any request ...
MOST_BYTES = 1_000_000  # ... and how long they may be together

# The HTTP status of a refusal, by its code: a timer of a batch has no status of its own.
STATUSES = {1: 500, 2: 400, 3: 404, 4: 401, 5: 409, 6: 412, 7: 429, 8: 413, 9: 503, 10: 403}

# A quota may forbid several timers in one request where each alone, or fewer, would pass: the
# request as a whole, or one of its timers.
_MAY_BE_TOO_MANY = {403, 413, 429}
_FORBIDDEN = 10


class _Waiting(NamedTuple):
    """A timer that is to be created, and who waits for it."""

    body: msgspec.Raw
    answer: asyncio.Future[Timer]


class _Item(msgspec.Struct):
    """What the service says of one timer of a request."""

    code: int
    message: str
    data: dict[str, Any] | None = None


class Gatherer:
    """Creates timers by an ``AsyncClient``, in no more requests than are needed."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._waiting: deque[_Waiting] = deque()
        self._refused: deque[_Waiting] = deque()  # in company; to be tried by themselves
        self._senders: set[asyncio.Task[None]] = set()
        self._is_starting = False  # one of the senders, in the next turn of the event loop
        self._largest = LARGEST  # less while the service refuses as many

    async def create(self, **timer: Unpack[NewTimer]) -> Timer:
        """Create a timer, within the client's timeout. A ``timer_id`` makes it safe to repeat."""
        body = msgspec.Raw(msgspec.json.encode(timer))  # here, where it fails for nobody else
        answer: asyncio.Future[Timer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(body, answer))
        self._start_sending()
        try:
            async with asyncio.timeout(self._client.timeout):
                return await answer
        except TimeoutError:
            raise ServiceUnreachable("no answer in time: the timer may be there or not") from None

    def _start_sending(self) -> None:
        if not self._is_starting and len(self._senders) < AT_ONCE:
            self._is_starting = True
            self._senders.add(asyncio.create_task(self._send_all()))

    async def _send_all(self) -> None:
        self._is_starting = False
        try:
            while gathered := self._next():
                if self._waiting or self._refused:
                    self._start_sending()
                await self._send(gathered)
        finally:
            # Before anyone else runs: a timer must not wait for a sender that has just ended.
            self._senders.remove(cast("asyncio.Task[None]", asyncio.current_task()))

    def _next(self) -> list[_Waiting]:
        """Those that go out together: a fair share, beside the requests that may go out as well.

        Who does not wait any more is left out.
        """
        while self._refused:
            if not (one := self._refused.popleft()).answer.done():
                return [one]
        gathered: list[_Waiting] = []
        requests = AT_ONCE + 1 - len(self._senders)
        share = max(math.ceil(len(self._waiting) / requests), SMALLEST)
        room = MOST_BYTES
        while self._waiting and len(gathered) < min(share, self._largest):
            each = self._waiting[0]
            if not each.answer.done():
                room -= len(each.body)
                if gathered and room < 0:
                    break
                gathered.append(each)
            self._waiting.popleft()
        return gathered

    async def _send(self, gathered: Sequence[_Waiting]) -> None:
        try:
            if len(gathered) == 1:
                await self._send_alone(gathered[0])
            else:
                await self._send_together(gathered)
        except asyncio.CancelledError:  # the event loop ends
            for each in gathered:
                each.answer.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is for those who wait
            for each in gathered:
                _fail(each, error)
        else:
            if len(gathered) == self._largest < LARGEST:
                self._largest += 1

    async def _send_alone(self, one: _Waiting) -> None:
        timer = await self._client.send(Call[Timer]("POST", "/timers", one.body))
        if not one.answer.done():
            one.answer.set_result(timer)

    async def _send_together(self, gathered: Sequence[_Waiting]) -> None:
        body = {"timers": [each.body for each in gathered]}
        call = Call[Any]("POST", "/timers/batch", body, needs="timers", needs_type=list)
        try:
            items = _items((await self._client.send(call))["timers"], len(gathered))
        except ServiceError as error:
            if error.status not in _MAY_BE_TOO_MANY:
                raise
            self._largest = min(self._largest, len(gathered) // 2)
            self._waiting.extendleft(reversed(gathered))
            self._start_sending()
            return
        for each, item in zip(gathered, items, strict=True):
            if item.code == _FORBIDDEN:
                self._refused.append(each)
                self._start_sending()
            else:
                _settle(each, item)


def _items(told: Any, count: int) -> list[_Item]:
    try:
        items = msgspec.convert(told, list[_Item])
    except msgspec.ValidationError:
        raise no_answer(200) from None
    if len(items) != count:
        raise no_answer(200)
    return items


def _settle(one: _Waiting, item: _Item) -> None:
    if item.code or item.data is None:
        _fail(one, ServiceError(STATUSES.get(item.code, 500), item.code, item.message))
    elif not one.answer.done():  # or else whoever waited for it has gone away
        one.answer.set_result(cast("Timer", item.data))


def _fail(one: _Waiting, error: Exception) -> None:
    if not one.answer.done():
        one.answer.set_exception(error)
