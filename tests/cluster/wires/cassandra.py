"""Follows Cassandra's protocol on one connection, to know which answer tells of a written batch.

Requests and answers are envelopes with a number (the stream) that they share. From version 5 of the
protocol on, envelopes lie in segments once the connection has been set up.
"""

import struct
from collections.abc import Iterator

_STARTUP, _READY, _AUTHENTICATE, _RESULT, _BATCH = 0x01, 0x02, 0x03, 0x08, 0x0D
_FIRST_WITH_SEGMENTS = 5
_SEGMENT_HEADER, _SEGMENT_TRAILER = 6, 4
_ENVELOPE_HEADER = 9
# The end of the answer to a conditional batch that was written: one row, and in it one byte that
# says so.
_APPLIED = struct.pack("!iib", 1, 1, 1)


class TimerWrites:
    """Tells the answers to conditional batches that were written."""

    def __init__(self) -> None:
        self._requests = _Direction((_STARTUP,))
        self._answers = _Direction((_READY, _AUTHENTICATE))
        self._batches: set[int] = set()  # the streams of those without an answer yet

    def asked(self, data: bytes) -> None:
        """Read on in what the client says."""
        for opcode, stream, _ in self._requests.envelopes(data):
            if opcode == _BATCH:
                self._batches.add(stream)

    def is_awaited(self, answer: bytes) -> bool:
        """Tell whether an answer to a batch that was written ends in this piece."""
        is_awaited = False
        for opcode, stream, body in self._answers.envelopes(answer):
            if stream in self._batches:
                self._batches.discard(stream)
                is_awaited |= opcode == _RESULT and body.endswith(_APPLIED)
        return is_awaited


class _Direction:
    """What one side says."""

    def __init__(self, last_bare: tuple[int, ...]) -> None:
        self._last_bare = last_bare  # after one of these, there are segments
        self._has_segments = False
        self._raw = b""
        self._payload = b""

    def envelopes(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """The opcode, the stream and the body of each envelope that is complete."""
        self._raw += data
        while True:
            if self._has_segments:
                self._unpack()
            else:
                self._payload, self._raw = self._payload + self._raw, b""
            if len(self._payload) < _ENVELOPE_HEADER:
                return
            version, _, stream, opcode, length = struct.unpack_from("!BBhBi", self._payload)
            end = _ENVELOPE_HEADER + length
            if len(self._payload) < end:
                return
            body, self._payload = self._payload[_ENVELOPE_HEADER:end], self._payload[end:]
            if opcode in self._last_bare and version & 0x7F >= _FIRST_WITH_SEGMENTS:
                self._has_segments = True
                self._raw, self._payload = self._payload + self._raw, b""
            yield opcode, stream, body

    def _unpack(self) -> None:
        """Take the payload out of each segment that is complete."""
        while len(self._raw) >= _SEGMENT_HEADER:
            length = int.from_bytes(self._raw[:3], "little") & 0x1FFFF
            end = _SEGMENT_HEADER + length + _SEGMENT_TRAILER
            if len(self._raw) < end:
                return
            self._payload += self._raw[_SEGMENT_HEADER : _SEGMENT_HEADER + length]
            self._raw = self._raw[end:]
