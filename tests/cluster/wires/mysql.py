"""Follows MySQL's protocol on one connection, to know which answer tells of a commit.

A write of timers is one packet that ends with its COMMIT, and is answered by a packet for each of
its statements; the last one says that there are no more.
"""

import re

_TIMERS = re.compile(rb"\x03.*INSERT INTO (timers|states)\b.*;COMMIT\Z", re.DOTALL)
_MORE_TO_COME = 0x0008


class TimerWrites:
    """Tells the answers to writes of timers that are committed by then."""

    def __init__(self) -> None:
        self._requests = b""
        self._answers = b""
        self._is_writing = False

    def asked(self, data: bytes) -> None:
        """Read on in what the client says."""
        self._requests += data
        packets, self._requests = _split(self._requests)
        for packet in packets:
            self._is_writing = _TIMERS.match(packet) is not None
            self._answers = b""

    def is_awaited(self, answer: bytes) -> bool:
        """Tell whether this is the end of an answer to a write."""
        if not self._is_writing:
            return False
        packets, self._answers = _split(self._answers + answer)
        for packet in packets:
            if packet[:1] != b"\x00":  # it failed
                self._is_writing = False
            elif not _status(packet) & _MORE_TO_COME:
                self._is_writing = False
                return True
        return False


def _split(data: bytes) -> tuple[list[bytes], bytes]:
    """The packets that are complete, and what is left."""
    packets = []
    while len(data) >= 4 and len(data) >= 4 + (length := int.from_bytes(data[:3], "little")):
        packets.append(data[4 : 4 + length])
        data = data[4 + length :]
    return packets, data


def _status(packet: bytes) -> int:
    """The flags of an OK packet, which follow two numbers of different lengths."""
    at = 1
    for _ in range(2):
        at += {0xFC: 3, 0xFD: 4, 0xFE: 9}.get(packet[at], 1)
    return int.from_bytes(packet[at : at + 2], "little")
