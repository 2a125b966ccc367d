"""Output for people: aligned columns, relative times, and colours where they can be seen."""

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, TextIO

import msgspec

from duetime.clock import Millis, from_datetime

_COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36, "dim": 2}
_STATUS_COLOURS = {
    "pending": "cyan",
    "executing": "yellow",
    "completed": "green",
    "failed": "red",
    "canceled": "dim",
    "paused": "magenta",
}
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))
_BARELY: Millis = 1000


class Screen:
    """Where a command prints, and whether that place shows colours."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self.is_terminal = self._stream.isatty()
        self._has_colours = (
            self.is_terminal
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM", "") != "dumb"
        )

    def line(self, text: str = "") -> None:
        print(text, file=self._stream, flush=True)

    def json(self, data: Any, *, on_one_line: bool = False) -> None:
        """One JSON document, as the service gave it."""
        encoded = msgspec.json.encode(data)
        text = encoded if on_one_line else msgspec.json.format(encoded, indent=2)
        print(text.decode(), file=self._stream, flush=True)

    def clear(self) -> None:
        """Begin again at the top of the screen."""
        self._stream.write("\x1b[H\x1b[2J")

    def colour(self, name: str, text: str) -> str:
        return f"\x1b[{_COLOURS[name]}m{text}\x1b[0m" if self._has_colours else text

    def status(self, status: str) -> str:
        return self.colour(_STATUS_COLOURS.get(status, "dim"), status)

    def table(self, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Columns as wide as what stands in them; the last is not filled up."""
        lines = [heads, *rows]
        widths = [max(_width(line[column]) for line in lines) for column in range(len(heads))]
        for number, cells in enumerate(lines):
            padded = (
                cell + " " * (width - _width(cell))
                for cell, width in zip(cells, widths, strict=True)
            )
            text = "  ".join(padded).rstrip()
            self.line(self.colour("dim", text) if number == 0 else text)


def printable(text: str) -> str:
    """Without the control characters by which a timer's name could take over a terminal."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )


def relative(at: str | None, now: Millis) -> str:
    """A time as seen from now: "in 4m", "3s ago"."""
    if not at:
        return "-"
    try:
        distance = from_datetime(datetime.fromisoformat(at)) - now
    except (TypeError, ValueError, OverflowError):
        return printable(str(at))  # a service of another version may tell times otherwise
    if abs(distance) < _BARELY:
        return "now"
    size = _roughly(abs(distance))
    return f"in {size}" if distance > 0 else f"{size} ago"


def _roughly(millis: Millis) -> str:
    """A duration in its largest unit, and the next one while the first is small."""
    for (unit, size), (smaller, smaller_size) in pairwise(_UNITS):
        if millis >= size:
            rest = (millis % size) // smaller_size
            is_few = millis < 10 * size
            return f"{millis // size}{unit}" + (f"{rest}{smaller}" if is_few and rest else "")
    return f"{millis // 1000}s"


def _width(text: str) -> int:
    """How many places a text takes, its colours taking none."""
    plain = text
    while "\x1b[" in plain:
        before, _, rest = plain.partition("\x1b[")
        plain = before + rest.partition("m")[2]
    return len(plain)
