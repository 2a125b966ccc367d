"""Reads a .env file: KEY=value lines, comments, quotes and ``export``. It expands nothing."""

import re
from pathlib import Path
from typing import NamedTuple

_LINE = re.compile(
    r"""(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*
    (?:"(?P<double>(?:[^"\\]|\\.)*)"\s*(?:\#.*)?
    |'(?P<single>[^']*)'\s*(?:\#.*)?
    |(?P<bare>[^"'\s].*?|)(?:\s+\#.*)?(?<!\s)\s*)""",
    re.VERBOSE,
)
DOTENV = Path(".env")  # in the directory that a command is started in

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class DotEnv(NamedTuple):
    """What a file says, and which of its lines say nothing that can be read."""

    values: dict[str, str]
    problems: list[str]


def read_dotenv(path: Path) -> DotEnv:
    """Read a file that need not be there. A problem names the line, never what stands in it."""
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        return DotEnv({}, [])
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        return DotEnv({}, [f"{path}: cannot be read: {why}"])
    values: dict[str, str] = {}
    problems: list[str] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if found := _LINE.fullmatch(line):
            values[found["name"]] = _value(found)
        else:
            problems.append(f'{path}, line {number}: write it as NAME=value or NAME="value"')
    return DotEnv(values, problems)


def _value(found: re.Match[str]) -> str:
    if (double := found["double"]) is not None:
        return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), double)
    if (single := found["single"]) is not None:
        return single
    bare = found["bare"]
    return "" if bare.startswith("#") else bare.rstrip()
