"""Answers: what comes back on a connection, and the ways in which it may fail to."""

from typing import Any, NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from duetime.delivery.excerpt import Excerpt

_INTERIM = range(100, 200)  # the answer is still to come ...
_SWITCHING = 101  # ... but here, after which no HTTP follows
_TLS_ALERT = b"\x15\x03"  # how one begins, in all versions
_SPEAKS_TLS = "it is TLS; the URL may have to begin with https"
_CLEARER = {"Expected HTTP/, RTSP/ or ICE/": "it does not begin with HTTP/"}
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})  # how long the body is


class NoAnswer(Exception):
    """There was no whole answer; the text says why, in words that follow a colon."""


class NothingCame(NoAnswer):
    """Not a byte of an answer."""


class BrokeOff(NoAnswer):
    """The answer began and did not end."""


class NotHttp(NoAnswer):
    """Something came that is no HTTP."""


class Unfinished(TimeoutError):
    """The answer began and did not end in time."""


class GivenUp(NoAnswer):
    """This side closed the connection."""


class Response(NamedTuple):
    """What is kept of an answer."""

    status: int
    headers: list[tuple[bytes, bytes]]
    excerpt: Excerpt | None = None  # of the body, where one was asked for
    flaw: str | None = None  # why the body was not read to its end, if it was not

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

    __slots__ = (
        "_excerpt",
        "_flaw",
        "_has_head",
        "_headers",
        "_is_head",
        "_parser",
        "_received",
        "_sees_body",
        "answer",
        "can_go_on",
    )

    def __init__(self) -> None:
        self._is_head = False
        self._use_new_parser(sees_body=False)

    def expect(self, *, is_head: bool, excerpt: Excerpt | None = None) -> None:
        """Wait for an answer; that to a HEAD has no body, whatever its headers say."""
        sees_body = excerpt is not None
        if self._is_head or self._sees_body is not sees_body:
            self._use_new_parser(sees_body=sees_body)  # after a HEAD, the last waits for a body
        self.answer: Response | Exception | None = None  # or why there is none
        self._excerpt = excerpt
        self.can_go_on = False  # with another exchange on the same connection
        self._is_head = is_head
        self._has_head = False  # the answer: its headers are complete
        self._headers: list[tuple[bytes, bytes]] = []
        self._received = 0
        self._flaw: str | None = None

    def _use_new_parser(self, *, sees_body: bool) -> None:
        parser = HttpResponseParser(_WithBody(self) if sees_body else self)
        # The receiver may have done its work by now: its answer counts even if it is not written
        # quite as it should be. What could be smuggled in by that has no way to go from here.
        parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_chunked_length=True,
            lenient_transfer_encoding=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._parser: Any = parser
        self._sees_body = sees_body

    def forget(self) -> None:
        """Wait no longer."""
        self.answer = self._excerpt = None

    def release(self) -> None:
        """Let go of the parser: the two hold each other, which only a collection would notice."""
        del self._parser

    def feed(self, data: bytes, read_at_most: int) -> None:
        """Take what came."""
        self._received += len(data)
        if self._received > read_at_most:  # also if the rest comes with it, or it would be chance
            self._flaw = f"is longer than {read_at_most // 1024} KiB, its headers included"
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self.can_go_on = False
        except HttpParserError as error:
            self.can_go_on = False
            self._flaw = "is not valid HTTP"
            is_tls = self._received == len(data) and data.startswith(_TLS_ALERT)
            self._stop_reading(_SPEAKS_TLS if is_tls else _CLEARER.get(str(error), str(error)))
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

    def run_out(self) -> None:
        """There is no time left."""
        self.fail(Unfinished() if self._received else TimeoutError())

    def fail(self, error: Exception) -> None:
        """There will be no answer."""
        if self.answer is None:
            self.answer = error

    def on_message_begin(self) -> None:
        if self.answer is not None:
            self.can_go_on = False  # more came than one answer
            self._headers = []  # which are not that one's

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() not in _INTERIM:
            self._has_head = True
            if self._is_head:
                self._complete(can_go_on=self._parser.should_keep_alive())

    def keep(self, piece: bytes) -> None:
        """Take a piece of a body, unless it is of another answer than the one that is awaited."""
        if self._excerpt is not None and self.answer is None:
            self._excerpt.add(piece)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status not in _INTERIM:
            self._complete(can_go_on=self._parser.should_keep_alive())
        elif status == _SWITCHING:
            self._complete(can_go_on=False)
        else:
            self._headers = []

    def _complete(self, *, can_go_on: bool) -> None:
        if self.answer is None:
            self.can_go_on = can_go_on
            status = self._parser.get_status_code()
            self.answer = Response(status, self._headers, self._excerpt, self._flaw)

    def _stop_reading(self, problem: str) -> None:
        """Take the answer for what it is so far: its status alone decides."""
        if self._has_head:
            self._complete(can_go_on=False)
        else:
            self.fail(NotHttp(problem))


class _WithBody:
    """What a parser calls that has to tell of the body too.

    It copies each piece of it for whoever has an ``on_body``, so ``Answers`` must not have one: of
    most answers nothing is kept.
    """

    __slots__ = (
        "on_body",
        "on_header",
        "on_headers_complete",
        "on_message_begin",
        "on_message_complete",
    )

    def __init__(self, answers: Answers) -> None:
        self.on_body = answers.keep
        self.on_header = answers.on_header
        self.on_headers_complete = answers.on_headers_complete
        self.on_message_begin = answers.on_message_begin
        self.on_message_complete = answers.on_message_complete
