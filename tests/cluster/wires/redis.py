"""Follows Redis's protocol on one connection, to know which answer tells of a written timer.

The scripts are sent in full, each with its name in a comment, and a connection has one question
under way at a time: so an answer is whole when nothing of it is missing.
"""

_WRITING = (b"\n-- insert: ", b"\n-- apply: ", b"\n-- remove: ")
_CRLF = b"\r\n"


class TimerWrites:
    """Tells the answers to scripts that write timers: by then they have run, and it is on disk."""

    def __init__(self) -> None:
        self._asked = b""
        self._is_writing = False
        self._answered = b""

    def asked(self, data: bytes) -> None:
        """Read on in what the client says."""
        self._asked += data
        while (end := _end(self._asked)) is not None:
            command, self._asked = self._asked[:end], self._asked[end:]
            # The script is what comes first; a user's text may have anything in it.
            _, _, arguments = command.partition(b"$4\r\nEVAL\r\n$")
            length, _, script = arguments.partition(_CRLF)
            text = script[: int(length or 0)]
            self._is_writing = any(mark in text for mark in _WRITING)

    def is_awaited(self, answer: bytes) -> bool:
        """Tell whether this is the end of an answer to a write."""
        self._answered += answer
        is_over = False
        while (end := _end(self._answered)) is not None:
            self._answered = self._answered[end:]
            is_over = True
        if not is_over:
            return False
        was_writing, self._is_writing = self._is_writing, False
        return was_writing


def _end(data: bytes, start: int = 0) -> int | None:
    """Where the value ends that begins there; None if some of it is still to come."""
    line_end = data.find(_CRLF, start)
    if line_end < 0:
        return None
    kind, rest, end = data[start : start + 1], data[start + 1 : line_end], line_end + 2
    if kind == b"$" and rest != b"-1":
        end += int(rest) + 2
    elif kind == b"*":
        for _ in range(int(rest)):
            found = _end(data, end)
            if found is None:
                return None
            end = found
    return end if end <= len(data) else None
