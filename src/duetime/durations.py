"""Durations as people write them: "250ms", "10s", "15m", "3d", "1h30m", or ISO 8601 "PT15M"."""

import re
from decimal import ROUND_CEILING, Decimal

from duetime.clock import Millis

_UNITS: dict[str, int] = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_NUMBER = r"\d{1,15}(?:\.\d{1,9})?"
_PARTS = re.compile(rf"({_NUMBER})(ms|s|m|h|d|w)", re.ASCII)
_SHORT = re.compile(rf"(?:{_NUMBER}(?:ms|s|m|h|d|w))+", re.ASCII)
_ISO = re.compile(
    rf"P(?:(?P<w>{_NUMBER})W)?(?:(?P<d>{_NUMBER})D)?"
    rf"(?:T(?:(?P<h>{_NUMBER})H)?(?:(?P<m>{_NUMBER})M)?(?:(?P<s>{_NUMBER})S)?)?",
    re.ASCII,
)
LONGEST: Millis = 100 * 366 * _UNITS["d"]

HELP = 'must be a duration such as "250ms", "10s", "15m", "3d" or "PT15M"'


def parse_duration(text: str) -> Millis:
    """Read a duration as milliseconds, rounded up; ValueError says what is wrong with it."""
    if text == "0":
        return 0
    if _SHORT.fullmatch(text):
        parts = [(number, unit) for number, unit in _PARTS.findall(text)]
    elif (iso := _ISO.fullmatch(text)) and any(iso.groupdict().values()) and text[-1] != "T":
        parts = [(number, unit) for unit, number in iso.groupdict().items() if number]
    else:
        raise ValueError(HELP)
    total = sum((Decimal(number) * _UNITS[unit] for number, unit in parts), Decimal(0))
    millis = int(total.to_integral_value(ROUND_CEILING))
    if millis > LONGEST:
        raise ValueError("must be at most 100 years")
    return millis


def format_duration(millis: Millis) -> str:
    """Write milliseconds in the largest units that say them exactly: 90000 is "1m30s"."""
    if millis == 0:
        return "0s"
    text = ""
    for unit in ("d", "h", "m", "s", "ms"):
        count, millis = divmod(millis, _UNITS[unit])
        if count:
            text += f"{count}{unit}"
    return text
