"""Answers: what comes back on a connection, and the ways in which it may fail to."""

import asyncio
from typing import Any, NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

_INTERIM = range(100, 200)  # the answer is still to come ...
_SWITCHING = 101  # ... but here, after which no HTTP follows
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})  # how long the body is


class NoAnswer(Exception):
    """There was no whole answer; the text says why, in words that follow a colon."""


class NothingCame(NoAnswer):
    """Not a byte of an answer."""


class BrokeOff(NoAnswer):
    """The answer began and did not end."""


class NotHttp(NoAnswer):
    """Something came that is no HTTP."""


class GivenUp(NoAnswer):
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


class Answers:
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
