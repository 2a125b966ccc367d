"""The schema of each SQL engine, as numbered files that are run once each, in order.

A file that has been released is never edited: what is wrong with it, the next one sets right.
"""

from importlib import resources
from typing import NamedTuple


class Migration(NamedTuple):
    """One step of a schema, from the one before it."""

    number: int
    name: str
    script: str


def migrations(engine: str) -> list[Migration]:
    """The steps of an engine's schema, oldest first."""
    folder = resources.files(__name__) / engine
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    return [
        Migration(int(file.name[:4]), file.name[5:].removesuffix(".sql"), file.read_text("utf-8"))
        for file in files
    ]
