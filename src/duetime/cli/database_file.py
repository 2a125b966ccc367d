"""The file of an embedded database, read from its URL without loading a store."""

from pathlib import Path

_SQLITE = "sqlite:///"


def file_of(database_url: str) -> Path | None:
    """The file that a URL names, if it names one."""
    path = database_url.removeprefix(_SQLITE)
    is_file = path != database_url and path and not path.startswith(":")
    return Path(path) if is_file else None
