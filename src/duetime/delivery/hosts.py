"""Hosts: where a credential may be sent: to exact hosts, and to all hosts below a domain.

Both sides are written the way in which the URL parser writes the host that is then connected to:
lower case, IDNA, addresses in their one form. What looks alike is not the same; what is the same
host looks alike here.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address

from pyreqwest.http import Url

_BELOW = "*."
_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
_NO_PART_OF_A_HOST = re.compile(r"[\s/\\?#@:%*\[\]]")


class Hosts:
    """Which hosts these are."""

    __slots__ = ("_below", "_exact", "_over_http")

    def __init__(self, patterns: Iterable[str], *, over_http: bool = False) -> None:
        """Take patterns as ``normal`` writes them; ``over_http``: also without TLS."""
        self._over_http = over_http
        patterns = tuple(patterns)
        self._exact = frozenset(each for each in patterns if not each.startswith(_BELOW))
        self._below = tuple(each[1:] for each in patterns if each.startswith(_BELOW))

    def __contains__(self, host: str) -> bool:
        """Tell whether a host is one of these, as the URL parser writes it."""
        name = host.removesuffix(".")
        return name in self._exact or bool(self._below and name.endswith(self._below))

    def problem(self, host: str, *, is_tls: bool) -> str | None:
        """Why nothing may be sent there, in words that follow what it is; None: it may."""
        if host not in self:
            return f"may not be sent to {host.removesuffix('.')}"
        return None if is_tls or self._over_http else "is sent over https only"

    def includes(self, pattern: str) -> bool:
        """Tell whether all that a pattern stands for is among these."""
        if not pattern.startswith(_BELOW):
            return pattern in self
        return any(pattern[1:].endswith(each) for each in self._below)


def normal(pattern: str) -> str:
    """A pattern in its one form; ValueError says what is wrong with it."""
    try:
        return str(ip_address(pattern.removeprefix("[").removesuffix("]")))
    except ValueError:
        pass
    is_below = pattern.startswith(_BELOW)
    name = pattern.removeprefix(_BELOW)
    host = None if _NO_PART_OF_A_HOST.search(name) else _host(name)
    if host is None:
        raise ValueError("must be a host such as api.example.com or *.example.com, and no more")
    if is_below and ("." not in host or _is_address(host)):
        raise ValueError("must have a domain of two parts or more behind *.")
    return f"{_BELOW}{host}" if is_below else host


def where(url: str) -> tuple[str, bool]:
    """To which host a URL leads, and whether over TLS; ValueError if it is none."""
    parsed = Url(url)
    host = parsed.host_str or ""
    if parsed.domain is None:
        host = str(ip_address(host.strip("[]")))
    return host.removesuffix("."), parsed.scheme == "https"


def _host(name: str) -> str | None:
    try:
        host, _ = where(f"https://{name}/")
    except ValueError:
        return None
    return host if _HOST.fullmatch(host) else None


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
