"""The client for plain code."""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Self, Unpack

from pyreqwest.client import SyncClientBuilder

from duetime.client import calls
from duetime.client.calls import Answer, AnswerT, Call
from duetime.client.connection import DEFAULT_URL, Connection
from duetime.client.errors import ClientError
from duetime.client.event_types import Event, EventFilters
from duetime.client.following import QUIET, Following
from duetime.client.lines import LINES_TYPE, Lines, is_stream
from duetime.client.plain_administration import Administration
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


class Client(Administration):
    """Speaks to a Duetime service."""

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
        self._http = self._connection.configure(SyncClientBuilder()).build()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def timeout(self) -> float:
        """The longest that a call may take, in seconds."""
        return self._connection.timeout

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def send(self, call: Call[AnswerT]) -> AnswerT:
        """Make a call: all the other methods do."""
        return self.exchange(call).data

    def exchange(self, call: Call[AnswerT]) -> Answer[AnswerT]:
        """Make a call, and have the answer's status and message as well as its data."""
        with self._connection.translating_errors():
            request = self._http.request(call.method, self._connection.address(call))
            response = self._connection.fill(request, call).build().send()
            body = bytes(response.bytes())
        retry_after = response.get_header("Retry-After")
        return calls.read_answer(call, response.status, body, retry_after)

    def lines(self, call: Call[bytes]) -> Iterator[bytes]:
        """Make a call whose answer is lines of JSON, and have each as it arrives."""
        lines = Lines()
        for piece in self._pieces(call, LINES_TYPE):
            yield from lines.feed(piece)
        yield from lines.end()

    def _pieces(self, call: Call[bytes], type_: str, quiet_for: float = 0.0) -> Generator[bytes]:
        connection = self._connection
        with connection.translating_errors():
            builder = connection.configure(SyncClientBuilder(), streams=True, quiet_for=quiet_for)
            http = builder.build()
            request = http.request(call.method, connection.address(call))
            request = connection.fill(request, call).streamed_read_buffer_limit(0)
            with http, request.build_streamed() as response:
                if not is_stream(response.status, response.get_header("Content-Type"), type_):
                    body, retry_after = response.bytes(), response.get_header("Retry-After")
                    calls.read_answer(call, response.status, bytes(body), retry_after)
                    raise calls.no_answer(response.status)
                with connection.translating_breaks():
                    while (piece := response.body_reader.read_chunk()) is not None:
                        yield bytes(piece)

    def events(
        self,
        *,
        after: str | None = None,
        follow: bool = True,
        on_break: Callable[[ClientError | None], None] | None = None,
        **filters: Unpack[EventFilters],
    ) -> Iterator[Event]:
        """Hear of what happens to timers, as it happens, for as long as somebody goes through it.

        ``after`` is the position to go on from, or "first" for all that is kept. Without
        ``follow`` it ends when all that is kept has been heard. When the stream breaks off,
        ``on_break`` is told, and it goes on where it was; what will not pass is raised.
        """
        following = Following(filters, after, follow=follow)
        while not following.is_over:
            error: ClientError | None = None
            try:
                with closing(self._pieces(following.call(), SSE_TYPE, QUIET)) as pieces:
                    for piece in pieces:
                        yield from following.take(piece)
            except ClientError as failure:
                error = failure
            if not following.is_over:
                pause = following.pause_after(error)
                if on_break is not None:
                    on_break(error)
                time.sleep(pause)

    def create(self, *, idempotency_key: str | None = None, **timer: Unpack[NewTimer]) -> Timer:
        """Create a timer. The same key and content again answer with the same timer."""
        return self.send(calls.create(timer, idempotency_key))

    def create_batch(self, timers: Sequence[NewTimer]) -> Batch:
        """Create many timers in one request; one that is refused does not stop the others."""
        return self.send(calls.create_batch(timers))

    def get(self, id_: str) -> Timer:
        return self.send(calls.get(id_))

    def list(self, **filters: Unpack[Filters]) -> Iterator[Timer]:
        """All timers that match, page by page; ``limit`` is the size of a page."""
        following: Filters | None = filters
        while following is not None:
            page = self.send(calls.page(following))
            yield from page["timers"]
            following = calls.next_page(following, page)

    def page(self, **filters: Unpack[Filters]) -> Page:
        """One page of the list, with the cursor of the next one."""
        return self.send(calls.page(filters))

    def update(
        self, id_: str, *, if_version: int | None = None, **change: Unpack[TimerChange]
    ) -> Timer:
        return self.send(calls.update(id_, change, if_version))

    def cancel(self, id_: str, *, if_version: int | None = None) -> Timer:
        return self.send(calls.cancel(id_, if_version))

    def fire(self, id_: str) -> Timer:
        """Make a timer due now."""
        return self.send(calls.act(id_, "fire"))

    def pause(self, id_: str) -> Timer:
        return self.send(calls.act(id_, "pause"))

    def resume(self, id_: str) -> Timer:
        return self.send(calls.act(id_, "resume"))

    def redrive(self, id_: str) -> Timer:
        """Try a timer again that has failed, now and by the whole of its retry policy."""
        return self.send(calls.act(id_, "redrive"))

    def attempts(self, id_: str) -> Attempts:
        """The execution log of a timer."""
        return self.send(calls.attempts(id_))

    def get_by_key(self, group: str, timer_id: str) -> Timer:
        return self.send(calls.get_by_key(group, timer_id))

    def put_by_key(
        self,
        group: str,
        timer_id: str,
        *,
        if_version: int | None = None,
        **timer: Unpack[TimerContent],
    ) -> Timer:
        """Create the timer of this key, or give it new content."""
        return self.send(calls.put_by_key(group, timer_id, timer, if_version))

    def cancel_by_key(self, group: str, timer_id: str, *, if_version: int | None = None) -> Timer:
        return self.send(calls.cancel_by_key(group, timer_id, if_version))

    def nodes(self, *, with_shards: bool = False) -> Nodes:
        """Who is there, how many shards each node looks after, and which if asked for."""
        return self.send(calls.nodes(with_shards=with_shards))

    def health(self) -> Health:
        """How the service is; ServiceError if it is not well."""
        return self.send(calls.health())

    def ready(self) -> Health:
        """Whether the service takes requests; ServiceError if it does not."""
        return self.send(calls.ready())
