"""A connection carries one HTTP/1.1 exchange at a time: a request out, and its answer back.

It lives in the event loop's own thread. A client library with a thread of its own costs several
times as much, because the two threads keep handing Python's lock to each other; and it could not
take a request back, which closing the connection does.
"""

import asyncio
import math
import select
from collections.abc import Callable
from typing import Any, NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from msgspec import Raw

_INTERIM = range(100, 200)  # the answer is still to come ...
_SWITCHING = 101  # ... but here, after which no HTTP follows
_ENDED = getattr(select, "POLLHUP", 0) | getattr(select, "POLLRDHUP", 0)
_HAS_POLL = hasattr(select, "poll")  # not on Windows
_LARGE = 64 * 1024  # a request that may not leave at once
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})  # how long the body is


class Unanswered(Exception):
    """There was no whole answer; the text says why, in words that follow a colon."""


class NothingCame(Unanswered):
    """Not a byte of an answer."""


class BrokeOff(Unanswered):
    """The answer began and did not end."""


class NotHttp(Unanswered):
    """Something came that is no HTTP."""


class GivenUp(Unanswered):
    """This side closed the connection."""


class Response(NamedTuple):
    """What is kept of an answer."""

    status: int
    headers: list[tuple[bytes, bytes]]

    def header(self, name: bytes) -> str | None:
        """The value of a header, by its name in lower case."""
        for field, value in self.headers:
            if field.lower() == name:
                return value.decode("latin-1")
        return None


class _Answers:
    """What comes in on a connection: one answer after the other, each to a request.

    The parser calls the ``on_`` methods.
    """

    __slots__ = ("_has_head", "_headers", "_is_head", "_parser", "_received", "answer", "can_go_on")

    def __init__(self) -> None:
        self._is_head = False
        self._parser = self._new_parser()

    def expect(self, answer: asyncio.Future[Response], *, is_head: bool) -> None:
        """Wait for an answer; that to a HEAD has no body, whatever its headers say."""
        if self._is_head:
            self._parser = self._new_parser()  # the last one still waits for a body
        self.answer = answer
        self.can_go_on = False  # with another exchange on the same connection
        self._is_head = is_head
        self._has_head = False  # the answer: its headers are complete
        self._headers: list[tuple[bytes, bytes]] = []
        self._received = 0

    def _new_parser(self) -> Any:
        parser = HttpResponseParser(self)
        # The receiver may have done its work by now: its answer counts even if it is not written
        # quite as it should be. What could be smuggled in by that has no way to go from here.
        parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_chunked_length=True,
            lenient_transfer_encoding=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        return parser

    def forget(self) -> None:
        """Wait no longer."""
        del self.answer

    def release(self) -> None:
        """Let go of the parser: the two hold each other, which only a collection would notice."""
        del self._parser

    def feed(self, data: bytes, read_at_most: int) -> None:
        """Take what came."""
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self.can_go_on = False
        except HttpParserError as error:
            self.can_go_on = False
            self._stop_reading(str(error))
        if self._received > read_at_most:
            self._stop_reading("its headers do not end")

    def end(self, exc: Exception | None) -> None:
        """The other side ended the connection, which is how an answer without a length ends too."""
        is_delimited = any(name.lower() in _FRAMING for name, _ in self._headers)
        if self._has_head and not is_delimited and exc is None:
            self._complete(can_go_on=False)
            return
        how = "the connection was closed" if exc is None else "the connection was reset"
        self.fail(BrokeOff(how) if self._received else NothingCame(how))

    def fail(self, error: Exception) -> None:
        """There will be no answer."""
        if not self.answer.done():
            self.answer.set_exception(error)

    def on_message_begin(self) -> None:
        if self.answer.done():
            self.can_go_on = False  # more came than one answer

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() not in _INTERIM:
            self._has_head = True
            if self._is_head:
                self._complete(can_go_on=self._parser.should_keep_alive())

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status not in _INTERIM:
            self._complete(can_go_on=self._parser.should_keep_alive())
        elif status == _SWITCHING:
            self._complete(can_go_on=False)
        else:
            self._headers = []

    def _complete(self, *, can_go_on: bool) -> None:
        if not self.answer.done():
            self.can_go_on = can_go_on
            self.answer.set_result(Response(self._parser.get_status_code(), self._headers))

    def _stop_reading(self, problem: str) -> None:
        """Take the answer for what it is so far: its status alone decides."""
        if self._has_head:
            self._complete(can_go_on=False)
        else:
            self.fail(NotHttp(problem))


class Connection(asyncio.Protocol):
    """One connection to a receiver.

    ``read_at_most`` bounds how many bytes of an answer are read: of a longer one the rest is not
    waited for, its status counts, and the connection is closed.
    """

    __slots__ = (
        "_alarm",
        "_alarm_at",
        "_answers",
        "_deadline",
        "_is_tls",
        "_is_under_way",
        "_loop",
        "_on_lost",
        "_poll",
        "_read_at_most",
        "_transport",
        "exchanges",
        "is_reusable",
        "place",
        "rested_at",
    )

    def __init__(
        self,
        place: tuple[str, str],
        *,
        read_at_most: int,
        on_lost: Callable[["Connection"], None],
        is_tls: bool = False,
    ) -> None:
        self.place = place  # where it leads: the origin and the address
        self.rested_at = 0.0  # on the monotonic clock, since when nobody uses it
        self.is_reusable = False
        self.exchanges = 0  # that ended well
        self._is_tls = is_tls
        self._read_at_most = read_at_most
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._answers = _Answers()
        self._is_under_way = False  # an exchange
        self._deadline = 0.0  # its own, on the event loop's clock
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf
        self._poll: Any = select.poll() if _HAS_POLL else None

    async def exchange(
        self, head: bytes, body: bytes | Raw, seconds: float, *, is_head: bool = False
    ) -> Response:
        """Send a request and wait for its answer; Unanswered or TimeoutError if none comes."""
        self.is_reusable = False
        if self._transport.is_closing():
            raise NothingCame("the connection was closed")
        answer: asyncio.Future[Response] = self._loop.create_future()
        self._answers.expect(answer, is_head=is_head)
        self._is_under_way = True
        try:
            self._wait_at_most(seconds)
            is_large = self._write(head, memoryview(body))
            response = await answer
            self.is_reusable = self._answers.can_go_on and not self._transport.is_closing()
            if is_large and (self._is_tls or self._transport.get_write_buffer_size()):
                self.is_reusable = False  # the answer came before the request was out
            self.exchanges += 1
            return response
        finally:
            self._is_under_way = False
            # A failure holds this frame and thereby the request: nothing here may hold the failure.
            self._answers.forget()
            del answer

    def _wait_at_most(self, seconds: float) -> None:
        """Set the alarm. It is left as it is between exchanges: setting it costs more than that."""
        self._deadline = self._loop.time() + seconds
        if self._deadline < self._alarm_at:
            self._set_alarm(seconds)

    def _set_alarm(self, seconds: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._loop.call_later(seconds, self._on_alarm)
        self._alarm_at = self._deadline

    def _on_alarm(self) -> None:
        self._alarm, self._alarm_at = None, math.inf
        if not self._is_under_way:
            return
        left = self._deadline - self._loop.time()
        if left > 0:  # it was set for an exchange before this one
            self._set_alarm(left)
        else:
            self._answers.fail(TimeoutError())

    def _write(self, head: bytes, body: memoryview) -> bool:
        """Write a request, at once and without a copy if it is large; tell whether it is."""
        if body.nbytes < _LARGE:
            self._transport.write(head + body)
            return False
        self._transport.write(head)
        self._transport.write(body)
        return True

    def is_quiet(self) -> bool:
        """Tell whether nothing has come that the event loop has not told yet, such as the end.

        To ask costs little, but lets go of Python's lock.
        """
        return not (_HAS_POLL and self._poll.poll(0))

    def close(self) -> None:
        """Close it; an exchange that is under way ends without an answer."""
        self.is_reusable = False
        if self._is_under_way:
            self._answers.fail(GivenUp())
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.is_reusable = True
        if _HAS_POLL:  # TLS has its own talk, so there only the end counts
            events = _ENDED if self._is_tls else _ENDED | select.POLLIN
            self._poll.register(transport.get_extra_info("socket").fileno(), events)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_reusable = False
        if self._is_under_way:
            self._answers.end(exc)
        if self._alarm is not None:
            self._alarm.cancel()
        self._answers.release()
        self._on_lost(self)

    def data_received(self, data: bytes) -> None:
        if self._is_under_way:
            self._answers.feed(data, self._read_at_most)
        else:
            self.close()  # nobody asked

    def eof_received(self) -> None:
        """The other side says no more, which may be long before the connection is lost."""
        self.is_reusable = False
        if self._is_under_way:
            self._answers.end(None)
