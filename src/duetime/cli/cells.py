"""Cells: how single values look in a table or on a line, whatever they are."""

from collections.abc import Mapping
from typing import Any

import msgspec

from duetime.cli.output import Screen, printable, relative
from duetime.client import ClientError
from duetime.clock import Millis

LONGEST_LINE = 200
_LONGEST_CELL = 40


def show_lines(screen: Screen, values: Mapping[str, Any]) -> None:
    """A line for each thing that is known; a status has its colours already."""
    for name, value in values.items():
        if value is not None and value != "":
            shown = str(value) if name == "status" else printable(str(value))
            screen.line(f"{screen.colour('dim', f'{name:<12}')} {shown}")


def rows(answer: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The list of this name in an answer; ClientError if it is none that could be shown."""
    found = answer.get(name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ClientError(f"the service's answer has no list of {name}; --json shows what it has")
    return found


def inner(answer: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The object of this name in an answer, empty if there is none."""
    found = answer.get(name)
    return found if isinstance(found, dict) else {}


def cell(value: Any, longest: int = _LONGEST_CELL) -> str:
    """A value on one line, shortened; a dash where there is none."""
    text = "-" if value is None or value == "" else printable(str(value))
    return shortened(text, longest)


def number(value: Any) -> str:
    """A number that may be long; a dash where there is none."""
    if isinstance(value, float):
        value = round(value, 1)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:,}" if is_number else cell(value)


def time(at: str | None, now: Millis) -> str | None:
    return f"{at} ({relative(at, now)})" if at else None


def json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def milliseconds(value: Any) -> str:
    return "-" if value is None else f"{value} ms"


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
