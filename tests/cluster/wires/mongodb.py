"""Follows MongoDB's protocol on one connection, to know which answer tells of a write.

A message begins with its length, its number, the number of the message that it answers, and its
kind. A command is a document, whose first field is the name of the command and of its collection.
"""

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

_HEADER = struct.Struct("<iiii")
_MESSAGE = 2013  # the kind that drivers and servers have used since 2017
# Flags, the kind of the section, the document's length; then a text field with its length.
_TIMERS = re.compile(rb".{9}\x02(insert|update)\x00\x07\x00\x00\x00timers\x00", re.DOTALL)


def through(url: str, port: int) -> str:
    """The same database, reached at another port of this machine.

    The members of a replica set say under which names they want to be reached, and a driver goes
    there. Unless it was told that this one server is all there is.
    """
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    options = [each for each in parts.query.split("&") if not each.startswith("replicaSet=")]
    return parts._replace(
        netloc=f"{user}{at}127.0.0.1:{port}", query="&".join([*options, "directConnection=true"])
    ).geturl()


class Message(NamedTuple):
    """One message, from either side."""

    number: int
    answers: int
    kind: int
    body: bytes


class TimerWrites:
    """Tells the answers to writes of timers, which are acknowledged by then."""

    def __init__(self) -> None:
        self._requests = Pieces()
        self._answers = Pieces()
        self._writing: set[int] = set()  # the numbers of writes that were not answered yet

    def asked(self, data: bytes) -> None:
        """Read on in what the client says."""
        for message in self._requests.add(data):
            if message.kind == _MESSAGE and _TIMERS.match(message.body):
                self._writing.add(message.number)

    def is_awaited(self, answer: bytes) -> bool:
        """Tell whether this is the end of an answer to a write."""
        answered = {message.answers for message in self._answers.add(answer)}
        is_awaited = not answered.isdisjoint(self._writing)
        self._writing -= answered
        return is_awaited


class Pieces:
    """Makes messages of the pieces that they come in."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, data: bytes) -> Iterator[Message]:
        """Each message that is complete with this piece."""
        self._data += data
        while len(self._data) >= _HEADER.size:
            length, number, answers, kind = _HEADER.unpack_from(self._data)
            if len(self._data) < length:
                return
            body, self._data = self._data[_HEADER.size : length], self._data[length:]
            yield Message(number, answers, kind, body)
