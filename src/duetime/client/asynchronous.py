"""The client for asyncio: method by method the same as the plain one."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Self, Unpack

from pyreqwest.client import ClientBuilder

from duetime.client import calls
from duetime.client.asynchronous_administration import AsyncAdministration
from duetime.client.calls import Answer, AnswerT, Call
from duetime.client.connection import DEFAULT_URL, Connection
from duetime.client.errors import ClientError
from duetime.client.event_types import Event, EventFilters
from duetime.client.following import QUIET, Following
from duetime.client.lines import LINES_TYPE, Lines, is_stream
from duetime.client.sse import SSE_TYPE
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


class AsyncClient(AsyncAdministration):
    """Speaks to a Duetime service from asyncio code."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        tenant: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        """With a ``tenant``, the operator's key acts for it; other keys act for their own."""
        self._connection = Connection(url, api_key, tenant, timeout)
        self._http = self._connection.configure(ClientBuilder()).build()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @property
    def timeout(self) -> float:
        """The longest that a call may take, in seconds."""
        return self._connection.timeout

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.close()

    async def send(self, call: Call[AnswerT]) -> AnswerT:
        """Make a call: all the other methods do."""
        return (await self.exchange(call)).data

    async def exchange(self, call: Call[AnswerT]) -> Answer[AnswerT]:
        """Make a call, and have the answer's status and message as well as its data."""
        with self._connection.translating_errors():
            request = self._http.request(call.method, self._connection.address(call))
            response = await self._connection.fill(request, call).build().send()
            body = bytes(await response.bytes())
        retry_after = response.get_header("Retry-After")
        return calls.read_answer(call, response.status, body, retry_after)

    async def lines(self, call: Call[bytes]) -> AsyncIterator[bytes]:
        """Make a call whose answer is lines of JSON, and have each as it arrives."""
        lines = Lines()
        async with aclosing(self._pieces(call, LINES_TYPE)) as pieces:
            async for piece in pieces:
                for line in lines.feed(piece):
                    yield line
        for line in lines.end():
            yield line

    async def _pieces(
        self, call: Call[bytes], type_: str, quiet_for: float = 0.0
    ) -> AsyncGenerator[bytes]:
        connection = self._connection
        with connection.translating_errors():
            builder = connection.configure(ClientBuilder(), streams=True, quiet_for=quiet_for)
            http = builder.build()
            request = http.request(call.method, connection.address(call))
            request = connection.fill(request, call).streamed_read_buffer_limit(0)
            async with http, request.build_streamed() as response:
                if not is_stream(response.status, response.get_header("Content-Type"), type_):
                    body, retry_after = await response.bytes(), response.get_header("Retry-After")
                    calls.read_answer(call, response.status, bytes(body), retry_after)
                    raise calls.no_answer(response.status)
                with connection.translating_breaks():
                    while (piece := await response.body_reader.read_chunk()) is not None:
                        yield bytes(piece)

    async def events(
        self,
        *,
        after: str | None = None,
        follow: bool = True,
        on_break: Callable[[ClientError | None], None] | None = None,
        **filters: Unpack[EventFilters],
    ) -> AsyncIterator[Event]:
        """Hear of what happens to timers, as it happens, for as long as somebody goes through it.

        ``after`` is the position to go on from, or "first" for all that is kept. Without
        ``follow`` it ends when all that is kept has been heard. When the stream breaks off,
        ``on_break`` is told, and it goes on where it was; what will not pass is raised.
        """
        following = Following(filters, after, follow=follow)
        while not following.is_over:
            error: ClientError | None = None
            try:
                async with aclosing(self._pieces(following.call(), SSE_TYPE, QUIET)) as pieces:
                    async for piece in pieces:
                        for event in following.take(piece):
                            yield event
            except ClientError as failure:
                error = failure
            if not following.is_over:
                pause = following.pause_after(error)
                if on_break is not None:
                    on_break(error)
                await asyncio.sleep(pause)

    async def create(
        self, *, idempotency_key: str | None = None, **timer: Unpack[NewTimer]
    ) -> Timer:
        """Create a timer. The same key and content again answer with the same timer."""
        return await self.send(calls.create(timer, idempotency_key))

    async def create_batch(self, timers: Sequence[NewTimer]) -> Batch:
        """Create many timers in one request; one that is refused does not stop the others."""
        return await self.send(calls.create_batch(timers))

    async def get(self, id_: str) -> Timer:
        return await self.send(calls.get(id_))

    async def list(self, **filters: Unpack[Filters]) -> AsyncIterator[Timer]:
        """All timers that match, page by page; ``limit`` is the size of a page."""
        following: Filters | None = filters
        while following is not None:
            page = await self.send(calls.page(following))
            for timer in page["timers"]:
                yield timer
            following = calls.next_page(following, page)

    async def page(self, **filters: Unpack[Filters]) -> Page:
        """One page of the list, with the cursor of the next one."""
        return await self.send(calls.page(filters))

    async def update(
        self, id_: str, *, if_version: int | None = None, **change: Unpack[TimerChange]
    ) -> Timer:
        return await self.send(calls.update(id_, change, if_version))

    async def cancel(self, id_: str, *, if_version: int | None = None) -> Timer:
        return await self.send(calls.cancel(id_, if_version))

    async def fire(self, id_: str) -> Timer:
        """Make a timer due now."""
        return await self.send(calls.act(id_, "fire"))

    async def pause(self, id_: str) -> Timer:
        return await self.send(calls.act(id_, "pause"))

    async def resume(self, id_: str) -> Timer:
        return await self.send(calls.act(id_, "resume"))

    async def redrive(self, id_: str) -> Timer:
        """Try a timer again that has failed, now and by the whole of its retry policy."""
        return await self.send(calls.act(id_, "redrive"))

    async def attempts(self, id_: str) -> Attempts:
        """The execution log of a timer."""
        return await self.send(calls.attempts(id_))

    async def get_by_key(self, group: str, timer_id: str) -> Timer:
        return await self.send(calls.get_by_key(group, timer_id))

    async def put_by_key(
        self,
        group: str,
        timer_id: str,
        *,
        if_version: int | None = None,
        **timer: Unpack[TimerContent],
    ) -> Timer:
        """Create the timer of this key, or give it new content."""
        return await self.send(calls.put_by_key(group, timer_id, timer, if_version))

    async def cancel_by_key(
        self, group: str, timer_id: str, *, if_version: int | None = None
    ) -> Timer:
        return await self.send(calls.cancel_by_key(group, timer_id, if_version))

    async def nodes(self, *, with_shards: bool = False) -> Nodes:
        """Who is there, how many shards each node looks after, and which if asked for."""
        return await self.send(calls.nodes(with_shards=with_shards))

    async def health(self) -> Health:
        """How the service is; ServiceError if it is not well."""
        return await self.send(calls.health())

    async def ready(self) -> Health:
        """Whether the service takes requests; ServiceError if it does not."""
        return await self.send(calls.ready())
