"""Readers: each turns what was written for a setting into its value, or says what to write.

A reader never repeats what it was given: the caller does, where that is no secret.
"""

import re
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any, NamedTuple

from duetime.clock import Millis
from duetime.durations import format_duration, parse_duration

SHORTEST_KEY = 32

_SIZE = re.compile(r"(\d{1,12})\s*(|B|KiB|MiB|GiB)", re.ASCII | re.IGNORECASE)
_SIZE_UNITS = {"": 1, "b": 1, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S*", re.ASCII | re.IGNORECASE)
_SECRETS_KEY = re.compile(r"[A-Za-z0-9+/]{43}=")
_SIGNING_SECRET = re.compile(r"whsec_[A-Za-z0-9+/_-]{32,}={0,2}", re.ASCII)


class Reader(NamedTuple):
    """What may be written, for people, and what reads it."""

    values: str
    read: Callable[[str], Any]

    def __call__(self, written: str) -> Any:
        """Read it; ValueError says what to write instead."""
        return self.read(written)


def text(values: str = "text") -> Reader:
    """Anything."""
    return Reader(values, str)


def _url(written: str) -> str:
    """A URL of any scheme; whether there is a store for it, the stores know."""
    if not _URL.fullmatch(written):
        raise ValueError("must be a URL such as sqlite:///data/duetime.db")
    return written


def _api_key(written: str) -> str:
    """A key that nobody guesses, and that fits into a header."""
    if len(written) < SHORTEST_KEY:
        raise ValueError(f"must have at least {SHORTEST_KEY} characters, but has {len(written)}")
    if not (written.isascii() and written.isprintable()) or " " in written:
        raise ValueError("must consist of printable ASCII characters, without spaces")
    return written


url = Reader("a URL", _url)
api_key = Reader(f"{SHORTEST_KEY} characters or more", _api_key)


def count(least: int, most: int) -> Reader:
    """A whole number within bounds."""

    def read(written: str) -> int:
        digits = written.isascii() and written.isdigit() and len(written) <= len(str(most))
        if not digits or not least <= int(written) <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(written)

    return Reader(f"{least} to {most}", read)


def one_of(*choices: str) -> Reader:
    """One of a few words, in any case."""
    values = ", ".join(choices)

    def read(written: str) -> str:
        if written.lower() not in choices:
            raise ValueError(f"must be one of {values}")
        return written.lower()

    return Reader(values, read)


def duration(least: Millis = 0) -> Reader:
    """A duration that is not too short."""

    def read(written: str) -> Millis:
        millis = parse_duration(written)
        if millis < least:
            raise ValueError(f"must be at least {format_duration(least)}")
        return millis

    return Reader(f"a duration, {format_duration(least)} or more" if least else "a duration", read)


def duration_or_never(least: Millis) -> Reader:
    """A duration, or None for "never"."""
    read_duration = duration(least)

    def read(written: str) -> Any:
        if written.lower() == "never":
            return None
        try:
            return read_duration(written)
        except ValueError as error:
            raise ValueError(f'{error}, or "never"') from None

    return Reader(f"{read_duration.values}, or never to keep them for ever", read)


def size(least: int, most: int | None = None) -> Reader:
    """A number of bytes: "1048576", "1024KiB" or "1MiB"."""

    def read(written: str) -> int:
        found = _SIZE.fullmatch(written)
        if not found:
            raise ValueError('must be a number of bytes such as "1048576" or "1MiB"')
        total = int(found[1]) * _SIZE_UNITS[found[2].lower()]
        if total < least:
            raise ValueError(f"must be at least {least} bytes")
        if most is not None and total > most:
            raise ValueError(f"must be at most {most} bytes")
        return total

    values = "bytes, or KiB, MiB, GiB" if most is None else f"up to {most // _SIZE_UNITS['mib']}MiB"
    return Reader(values, read)


def _words(written: str) -> tuple[str, ...]:
    """A list with commas between; what each word means, its user knows."""
    found = tuple(word.strip() for word in written.split(",") if word.strip())
    if any(len(word.split()) > 1 for word in found):
        raise ValueError("must be separated by commas")
    return found


def words(examples: str) -> Reader:
    """A list of words that somebody else understands."""
    return Reader(f"comma-separated, e.g. {examples}", _words)


def _networks(written: str) -> tuple[str, ...]:
    """Networks and single addresses."""
    found = _words(written)
    for word in found:
        try:
            ip_network(word)
        except ValueError:
            raise ValueError("must be addresses, or networks such as 10.1.0.0/16") from None
    return found


networks = Reader("comma-separated, e.g. 10.0.0.0/8, ::1", _networks)


def _signing_secrets(written: str) -> tuple[str, ...]:
    """Secrets that look like secrets; delivery reads them."""
    secrets = tuple(secret.strip() for secret in written.split(",") if secret.strip())
    for number, secret in enumerate(secrets, start=1):
        if not _SIGNING_SECRET.fullmatch(secret):
            raise ValueError(
                f"number {number} must be whsec_ and then 24 random bytes or more in base64"
            )
    return secrets


signing_secrets = Reader("comma-separated whsec_...", _signing_secrets)


def _secrets_keys(written: str) -> tuple[str, ...]:
    """Keys that are long enough; the vault reads them."""
    keys = tuple(key.strip() for key in written.split(",") if key.strip())
    for number, key in enumerate(keys, start=1):
        if not _SECRETS_KEY.fullmatch(key):
            raise ValueError(f"number {number} must be 32 random bytes in base64")
    return keys


secrets_keys = Reader("comma-separated base64", _secrets_keys)
