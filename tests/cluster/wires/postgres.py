"""Follows PostgreSQL's protocol on one connection, to know which answer tells of a commit.

The driver names a statement once, when it prepares it, and the answers say little: so the requests
are read as well. A write is over when the server is ready for the next query and in no transaction.
"""

import re
import struct
from collections.abc import Iterator

_TIMERS = re.compile(rb"(INSERT INTO|UPDATE) \S*(timers|states)\b")
_VERSION_3 = 196_608
_IDLE = b"Z\x00\x00\x00\x05I"


class TimerWrites:
    """Tells the answers to writes of timers that are committed by then."""

    def __init__(self) -> None:
        self._requests = b""
        self._has_started = False
        self._writing: dict[bytes, bool] = {}  # by name of the prepared statement
        self._is_writing = False
        self._answered = b""

    def asked(self, data: bytes) -> None:
        """Read on in what the client says."""
        self._requests += data
        for kind, body in self._messages():
            name, _, rest = body.partition(b"\x00")
            if kind == b"P":  # prepare: name, statement
                self._writing[name] = _TIMERS.search(rest) is not None
            elif kind == b"B":  # bind: portal, name
                self._is_writing |= self._writing.get(rest.partition(b"\x00")[0], False)
            elif kind == b"Q":  # a plain statement
                self._is_writing |= _TIMERS.search(body) is not None

    def is_awaited(self, answer: bytes) -> bool:
        """Tell whether this is the end of an answer to a write."""
        self._answered = (self._answered + answer)[-len(_IDLE) :]
        if self._answered != _IDLE:
            return False
        was_writing, self._is_writing = self._is_writing, False
        return was_writing

    def _messages(self) -> Iterator[tuple[bytes, bytes]]:
        """Each message that is complete; the first ones have no letter."""
        while True:
            letters = int(self._has_started)
            if len(self._requests) < letters + 4:
                return
            [length] = struct.unpack_from("!i", self._requests, letters)
            if len(self._requests) < letters + length:
                return
            kind = self._requests[:letters]
            body = self._requests[letters + 4 : letters + length]
            self._requests = self._requests[letters + length :]
            if not self._has_started:
                self._has_started = struct.unpack_from("!i", body) == (_VERSION_3,)
            yield kind, body
