"""Bodies: what requests carry, so many bytes at once.

A body takes its room before it is read, and gives it back when its request has been answered.
Large ones have room of their own: while they wait for it, small requests pass. Tiny ones need
none: they weigh as little as the rest of a request, and a timer counts as much at least.
"""

from typing import Any

from starlette.types import Receive

from duetime.admission import MIB, Admission, Marks, Room
from duetime.api.request import header
from duetime.clock import Clock, SharedTimeLimit
from duetime.errors import CallerGone, InvalidRequest, PayloadTooLarge

TINY = 4 * 1024
SMALL = 64 * 1024

# Enough for the bodies of all creates that are let in or stand in line, and of changes beside them.
SMALL_ONES = Marks(100_000, 192 * MIB, 10_000, 16 * MIB)

# Two batches of the largest size. In line they are not in memory yet.
LARGE_ONES = Marks(1_000, 64 * MIB, 1_000, 1024 * MIB)

# Seconds that a body may take to arrive: whoever stalls must not keep the room, or the connection.
LONGEST_READ = 60.0


class Bodies:
    """Reads bodies, within their bounds."""

    def __init__(self, clock: Clock, small: Marks = SMALL_ONES, large: Marks = LARGE_ONES) -> None:
        self._in_time = SharedTimeLimit(clock, LONGEST_READ)
        self._small = Admission("too many requests are under way", clock, small)
        self._large = Admission("too many large requests are under way", clock, large)

    async def read(
        self, receive: Receive, headers: list[tuple[bytes, bytes]], limit: int
    ) -> tuple[bytes, Room | None]:
        """A request's body, and the room that it takes, which is to be left."""
        size = _announced(headers, limit)
        if size == 0:
            return await _received(receive, limit), None
        if size <= TINY:
            return await self._received_in_time(receive, limit), None
        room = await (self._small if size <= SMALL else self._large).enter(1, size)
        try:
            body = await self._received_in_time(receive, limit)
        except BaseException:
            room.leave()
            raise
        if len(body) != size:
            room.shrink(len(body))
        return body, room

    async def _received_in_time(self, receive: Receive, limit: int) -> bytes:
        try:
            return await self._in_time.run(_received(receive, limit))
        except TimeoutError:
            raise InvalidRequest(f"body: did not arrive within {LONGEST_READ:.0f} s") from None


def _announced(headers: list[tuple[bytes, bytes]], limit: int) -> int:
    """How long a body will be at most."""
    announced = header(headers, b"content-length")
    if announced is None:
        return 0 if header(headers, b"transfer-encoding") is None else limit
    if not announced.isdigit() or (size := int(announced)) > limit:
        raise _too_large(limit)
    return size


async def _received(receive: Receive, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            raise CallerGone("the caller hung up in the middle of its request")
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"body: must be at most {limit} bytes")
