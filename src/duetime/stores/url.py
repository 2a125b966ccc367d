"""The URL of a database: taken apart the same way for every engine, and never repeated.

A password that was not escaped cuts a URL off in its middle, and what comes behind may be the rest
of it. So a URL that falls apart is answered with how one looks, and with no part of itself.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from duetime.errors import ConfigurationError

POOL_SIZES = range(2, 1001)

_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?", re.ASCII)
_OPTION = re.compile(r"[A-Za-z_]{1,60}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_LAST_PORT = 65535


class Host(NamedTuple):
    """One of the servers that a URL names."""

    name: str  # an IPv6 address without its brackets
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Host | None":
        """Read a host, with a port or without; None if it is neither."""
        found = _HOST.fullmatch(text)
        port = int(found[2]) if found and found[2] else None
        if found is None or port == 0 or (port or 0) > _LAST_PORT:
            return None
        return cls(found[1].strip("[]"), port)


class DatabaseUrl:
    """What a URL says. ConfigurationError names what is wrong with it, and never the password.

    ``at_in_options``: they may hold an @, as in the name of a user.
    """

    def __init__(self, url: str, *, engine: str, example: str, at_in_options: bool = False) -> None:
        self._engine = engine
        self._example = example
        try:
            parts = urlsplit(url)
        except ValueError:
            raise self.broken() from None
        self.scheme = parts.scheme
        self.netloc = parts.netloc
        self.path = parts.path.removeprefix("/")
        who, _, hosts = parts.netloc.rpartition("@")
        user, colon, password = who.partition(":")
        self.user = unquote(user) or None
        self.password = unquote(password) if colon else None
        found = [Host.parse(each) for each in hosts.split(",")]
        self.hosts = [host for host in found if host is not None]
        options = parse_qsl(parts.query, keep_blank_values=True)
        is_cut_off = "#" in url or "@" in parts.path or "@" in who
        is_cut_off = is_cut_off or ("@" in parts.query and not at_in_options)
        if is_cut_off or None in found or not all(_OPTION.fullmatch(name) for name, _ in options):
            raise self.broken()
        self.given = dict(options)

    def broken(self) -> ConfigurationError:
        """The error for a URL that does not look like one of this engine."""
        return ConfigurationError(
            f"a {self._engine} URL looks like {self._example}, with a number as the port, "
            "up to 65535; in a user or password, write @ as %40, : as %3A, / as %2F, ? as %3F, "
            "# as %23 and % as %25"
        )

    def options(self, known: Sequence[str]) -> "UrlOptions":
        """What stands behind the question mark, all of it known."""
        return UrlOptions(self.given, known, self._engine)


class UrlOptions:
    """The options of a URL, taken one by one; an error names the one that is wrong."""

    def __init__(self, given: dict[str, str], known: Sequence[str], engine: str) -> None:
        if unknown := given.keys() - set(known):
            raise ConfigurationError(
                f"{min(unknown)}: no such option of a {engine} URL; there are {', '.join(known)}"
            )
        self._given = given

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def text(self, name: str) -> str | None:
        """What it says, if it is there."""
        return self._given.get(name)

    def number(self, name: str, otherwise: int, allowed: range) -> int:
        """A number, or what counts without one."""
        text = self._given.get(name, str(otherwise))
        if not (_NUMBER.fullmatch(text) and int(text) in allowed):
            raise ConfigurationError(
                f"{name}: must be from {allowed.start} to {allowed.stop - 1}, not {text[:60]!r}"
            )
        return int(text)

    def choice(self, name: str, choices: Sequence[str], otherwise: str) -> str:
        """One of a few words, or what counts without one."""
        chosen = self._given.get(name, otherwise)
        if chosen not in choices:
            is_pair = len(choices) == 2  # noqa: PLR2004
            listed = " or ".join(choices) if is_pair else f"one of {', '.join(choices)}"
            raise ConfigurationError(f"{name}: must be {listed}, not {chosen[:60]!r}")
        return chosen

    def file(self, name: str) -> str | None:
        """A file, if one is named; it must be there."""
        path = self._given.get(name)
        if path is not None and not Path(path).is_file():
            raise ConfigurationError(f"{name}: there is no file {path[:200]!r}")
        return path

    def besides(self, taken: Iterable[str]) -> dict[str, str]:
        """All but these, as they stand there."""
        return {name: value for name, value in self._given.items() if name not in set(taken)}
