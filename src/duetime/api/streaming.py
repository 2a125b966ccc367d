"""Streaming: an answer that is sent part by part, as long as somebody listens.

One that fails half way has a last word, or is cut off, so that nobody takes what they have for the
whole. What fails before anything was said is answered with, for it has an envelope.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Literal

from starlette.types import Receive, Scope, Send

from duetime.api.envelope import Reply
from duetime.clock import Clock, time_limit

MOMENT = 1.0  # seconds that a reader has for a part when there is a hurry


class Streaming:
    """One answer on its way."""

    def __init__(
        self,
        reply: Reply,
        parts: AsyncGenerator[bytes],
        failure: Callable[[Exception], Reply],
        clock: Clock,
    ) -> None:
        self._reply = reply
        self._parts = parts
        self._failure = failure
        self._clock = clock
        self._hurry: set[asyncio.Task[Literal[True]]] = set()  # done when there is one

    async def send(self, scope: Scope, receive: Receive, send: Send) -> Exception | None:
        """Send all of it; the answer is what failed before anything was sent."""
        reply = self._reply
        gone = asyncio.create_task(disconnected(receive))
        if reply.hurry is not None:
            self._hurry.add(asyncio.create_task(reply.hurry.wait()))
        try:
            async with aclosing(self._parts):
                try:
                    first = await self._next(gone)
                except Exception as error:  # noqa: BLE001 - as above
                    return error
                headers = [(b"content-type", reply.content_type), *reply.headers]
                await send(
                    {"type": "http.response.start", "status": reply.status, "headers": headers}
                )
                if scope["method"] == "HEAD":
                    first = None
                if await self._send_parts(first, gone, send):
                    if not gone.done():
                        await send({"type": "http.response.body", "body": b""})
                else:
                    scope.get("abort", gone.cancel)()  # nothing can be said to it any more
                    await asyncio.wait({gone})
        finally:
            for task in (gone, *self._hurry):
                task.cancel()
        return None

    async def _send_parts(self, part: bytes | None, gone: asyncio.Task[None], send: Send) -> bool:
        """Send this part and all that come; tell whether their reader has taken them."""
        try:
            while part is not None:
                if not await self._is_taken(part, send):
                    return False
                part = await self._next(gone)
        except Exception as error:
            if self._reply.last_word is None:
                raise
            return await self._is_taken(self._reply.last_word(self._failure(error)), send)
        return True

    async def _is_taken(self, part: bytes, send: Send) -> bool:
        """Send a part; tell whether its reader has made room for it in time."""
        message = {"type": "http.response.body", "body": part, "more_body": True}
        if self._reply.longest_pause is None:
            await send(message)
            return True
        sending = asyncio.ensure_future(send(message))
        try:
            async with time_limit(self._clock, self._reply.longest_pause):
                await asyncio.wait({sending, *self._hurry}, return_when=asyncio.FIRST_COMPLETED)
            async with time_limit(self._clock, MOMENT):
                await asyncio.wait({sending})
            sending.result()
        except TimeoutError:
            return False
        finally:
            if not sending.done():
                sending.cancel()
                await asyncio.wait({sending})
        return True

    async def _next(self, gone: asyncio.Task[None]) -> bytes | None:
        """The next part; None if that was all, or nobody is there any more."""
        coming = asyncio.create_task(self._part())
        try:
            await asyncio.wait({coming, gone}, return_when=asyncio.FIRST_COMPLETED)
            return None if gone.done() else coming.result()
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait({coming})

    async def _part(self) -> bytes | None:
        return await anext(self._parts, None)


async def disconnected(receive: Receive) -> None:
    """Return when the client has hung up; its body has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
