"""Files with signing secrets: every user of a machine can read the arguments of its processes."""

import sys
from pathlib import Path

from duetime.errors import ConfigurationError
from duetime.webhooks import decode_secret

FLAG = "--secret-file"
STDIN = "-"
MOST = 100


def secrets_in_file(path: str, most: int = MOST) -> list[str]:
    """The secrets that are in a file, with commas, spaces or line ends between them."""
    try:
        text = sys.stdin.read() if path == STDIN else Path(path).read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(f"{FLAG}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{FLAG}: {path} is no text") from None
    found = checked(text, FLAG)
    if not found or len(found) > most:
        many = "one secret" if most == 1 else f"one secret or more, up to {most}"
        raise ConfigurationError(f"{FLAG}: {path} must hold {many}")
    return found


def checked(text: str, place: str) -> list[str]:
    """The secrets in a text; ConfigurationError names the place and shows none of them."""
    found = text.replace(",", " ").split()
    for number, secret in enumerate(found, start=1):
        try:
            decode_secret(secret)
        except ValueError as error:
            raise ConfigurationError(f"{place}: secret number {number} {error}") from None
    return found
