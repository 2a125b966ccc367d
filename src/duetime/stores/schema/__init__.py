"""The schema of each SQL engine, as numbered files that are run once each, in order.

A file that has been released is never edited: what is wrong with it, the next one sets right.

Where nodes of two versions may share the tables, a file says in its first line which older programs
can live with it: ``-- oldest: 3`` are those that know the schema up to number 3. Without such a
line, only those that know the file itself can.
"""

import re
from importlib import resources
from typing import NamedTuple

from duetime.errors import ConfigurationError

_OLDEST = re.compile(r"-- oldest: (\d+)\n")


class Migration(NamedTuple):
    """One step of a schema, from the one before it."""

    number: int
    name: str
    script: str
    oldest: int = 0  # programs that know the schema up to here can live with this step


def migrations(engine: str) -> list[Migration]:
    """The steps of an engine's schema, oldest first."""
    folder = resources.files(__name__) / engine
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    return [_read(file.name, file.read_text("utf-8")) for file in files]


def _read(name: str, script: str) -> Migration:
    number = int(name[:4])
    found = _OLDEST.match(script)
    return Migration(
        number, name[5:].removesuffix(".sql"), script, int(found[1]) if found else number
    )


def check_not_newer(what: str, newest: int, oldest: int, known: int) -> None:
    """Refuse what was made for programs that know more than this one."""
    if oldest > known:
        raise ConfigurationError(
            f"{what} was made by a newer Duetime (it is at number {newest}, for programs that know "
            f"{oldest}; this one knows {known}): upgrade Duetime"
        )


def check_not_older(what: str, newest: int, known: int) -> None:
    """Refuse what has not seen every step, where none may be made."""
    if newest < known:
        raise ConfigurationError(
            f"{what} was made by an older Duetime: run duetime migrate on it first"
        )


def check_steps(what: str, newest: int, known: int, advice: str = "name another") -> None:
    """The same, and refuse what has seen no step at all: it is not one of Duetime's."""
    if newest == 0:
        raise ConfigurationError(f"there are no timers in {what}: {advice}")
    check_not_older(what, newest, known)
