"""A parser makes operations of the bytes that a server sends, in whatever pieces they come.

It works on whole lines and whole messages, never byte by byte: acknowledgements come by the
thousand.
"""

import re
from typing import NamedTuple, TypeAlias

LONGEST_LINE = 64 * 1024  # the server's greeting names all of its cluster
LARGEST_MESSAGE = 64 * 1024 * 1024  # what servers allow at most

_LONGEST_HEAD = 16 * 1024  # of a message: two subjects and some numbers
_CRLF = b"\r\n"
_NUMBER = re.compile(rb"[0-9]{1,18}").fullmatch
_BROKEN = "it sent a message with a broken first line"


class ProtocolError(Exception):
    """What came is nothing that a NATS server says."""


class Delivery(NamedTuple):
    """A message, for one subscription."""

    subscription: int
    subject: bytes
    reply: bytes
    headers: bytes
    data: bytes


class Line(NamedTuple):
    """Anything else: INFO, PING, PONG, +OK or -ERR, and what follows."""

    name: bytes
    rest: bytes = b""


Operation: TypeAlias = Delivery | Line

_PONG = Line(b"PONG")


class Parser:
    """What has come and is not whole yet."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._have = 0
        self._need = 0  # bytes without which there is no use in looking

    @property
    def is_empty(self) -> bool:
        """Tell whether all that came has been made into operations."""
        return not self._have

    def feed(self, data: bytes) -> list[Operation]:
        """The operations that are whole now. ProtocolError if it can be none."""
        if self._have:
            self._pieces.append(data)
            self._have += len(data)
            if self._have < self._need:
                return []
            data = b"".join(self._pieces)
        operations: list[Operation] = []
        start, end = 0, len(data)
        need = 0
        while start < end:
            line_end = data.find(_CRLF, start, start + LONGEST_LINE)
            if line_end < 0:
                if end - start >= LONGEST_LINE:
                    raise ProtocolError("it sent a line that is too long")
                break
            begin = line_end + 2
            line = data[start:line_end]
            if (head := _head(line)) is None:
                operations.append(_line(line))
                start = begin
                continue
            subscription, subject, reply, split, size = head
            after = begin + size
            if after + 2 > end:
                need = after + 2 - start
                break
            if data[after : after + 2] != _CRLF:
                raise ProtocolError("it sent a message that does not end where it said")
            split += begin
            operations.append(
                Delivery(subscription, subject, reply, data[begin:split], data[split:after])
            )
            start = after + 2
        rest = data[start:] if start else data
        self._pieces = [rest] if rest else []
        self._have = len(rest)
        self._need = need
        return operations


def _head(line: bytes) -> tuple[int, bytes, bytes, int, int] | None:
    """The first line of a message: for which subscription, on which subject, where an answer is
    wanted, and how long its headers are and the whole of it; None if it is no message.
    """
    # Not by all that Python takes for spaces: strangers choose subjects, and some may have it.
    words = line.split(b" ")
    name = words[0]
    if name == b"MSG":
        has_headers = False
    elif name == b"HMSG":
        has_headers = True
    else:
        return None
    numbers = words[-2:] if has_headers else words[-1:]
    has_reply = len(words) == 5 + has_headers
    if not (has_reply or len(words) == 4 + has_headers):
        raise ProtocolError(_BROKEN)
    if len(line) >= _LONGEST_HEAD or not all(map(_NUMBER, (words[2], *numbers))):
        raise ProtocolError(_BROKEN)
    size = int(numbers[-1])
    split = int(numbers[0]) if has_headers else 0
    if split > size:
        raise ProtocolError(_BROKEN)
    if size > LARGEST_MESSAGE:
        raise ProtocolError("it sent a message that is too large")
    return int(words[2]), words[1], words[3] if has_reply else b"", split, size


def _line(line: bytes) -> Line:
    if line == b"PONG":
        return _PONG
    name, _, rest = line.partition(b" ")
    name = name.upper()
    if name not in {b"INFO", b"PING", b"PONG", b"+OK", b"-ERR"}:
        raise ProtocolError("it sent what no NATS server says")
    return Line(name, rest)
