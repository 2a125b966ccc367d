"""The key of `duetime dev`: made once, and kept beside the database for the next start."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from duetime.cli.database_file import file_of
from duetime.config.reading import SHORTEST_KEY
from duetime.errors import ConfigurationError

_ELSEWHERE = Path("data")


def key_path(database_url: str) -> Path:
    """Where the key of a database is kept: beside it, if it is a file."""
    file = file_of(database_url.partition("?")[0])
    return (file.parent if file else _ELSEWHERE) / "duetime.key"


def read_key(path: Path) -> str | None:
    """The key that is kept there, if there is one that may be read."""
    try:
        return path.read_text("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def keep_key(path: Path) -> str:
    """The key that is kept there; if there is none yet, a new one that only its owner may read."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # It is whole from the first moment that it can be seen: two starts at once agree on it.
        with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.") as made:
            made.write(secrets.token_urlsafe(32) + "\n")
            made.flush()
            with suppress(FileExistsError):
                os.link(made.name, path)
    except OSError as error:
        if not path.exists():
            raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from error
    key = read_key(path)
    if key is None or len(key) < SHORTEST_KEY:
        raise ConfigurationError(f"{path}: holds no key; remove it, and a new one is made")
    return key
