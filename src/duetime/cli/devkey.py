"""The keys of `duetime dev`: made once, and kept beside the database for the next start."""

import base64
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile

from duetime.cli.database_file import file_of
from duetime.config.reading import SHORTEST_KEY, secrets_keys
from duetime.errors import ConfigurationError
from duetime.vault import KEY_BYTES

_ELSEWHERE = Path("data")


def key_path(database_url: str) -> Path:
    """Where the key of a database is kept: beside it, if it is a file."""
    return _beside(database_url) / "duetime.key"


def secrets_key_path(database_url: str) -> Path:
    """Where the key is kept that seals the secrets of a database, likewise."""
    return _beside(database_url) / "duetime.secrets.key"


def _beside(database_url: str) -> Path:
    file = file_of(database_url.partition("?")[0])
    return file.parent if file else _ELSEWHERE


def read_key(path: Path) -> str | None:
    """The key that is kept there, if there is one that may be read."""
    try:
        return path.read_text("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def keep_key(path: Path) -> str:
    """The key that is kept there; if there is none yet, a new one that only its owner may read."""
    key = _kept(path, lambda: secrets.token_urlsafe(32))
    if key is None or len(key) < SHORTEST_KEY:
        raise ConfigurationError(f"{path}: holds no key; remove it, and a new one is made")
    return key


def keep_secrets_key(path: Path) -> tuple[str, ...]:
    """The keys that are kept there, or else a new one; none where nothing can be sealed with it."""
    if find_spec("cryptography") is None:
        return ()
    kept = _kept(path, lambda: base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode())
    try:
        return tuple(secrets_keys(kept or "-"))
    except ValueError:
        raise ConfigurationError(
            f"{path}: holds no key; what was sealed with it can be read with that one only. If "
            "there is nothing of that, remove the file, and a new one is made"
        ) from None


def _kept(path: Path, make: Callable[[], str]) -> str | None:
    """What is kept there, or was just made; None if it cannot be read."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # It is whole from the first moment that it can be seen: two starts at once agree on it.
        with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.") as made:
            made.write(make() + "\n")
            made.flush()
            with suppress(FileExistsError):
                os.link(made.name, path)
    except OSError as error:
        if not path.exists():
            raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from error
    return read_key(path)
