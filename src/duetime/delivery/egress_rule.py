"""A rule is one entry of the lists that say what may be called, and what may not."""

import re
from ipaddress import ip_network
from typing import NamedTuple

from pyreqwest.http import Url

from duetime.delivery.addresses import Address, Network, unwrapped
from duetime.errors import ConfigurationError

_WITH_PORT = re.compile(
    r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:/?#@\\\[\]\s]+))(?::(?P<port>[0-9]{1,5}))?"
)
_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
_LAST_PORT = 65_535


class Rule(NamedTuple):
    """A network, a host, or (``suffix``) all hosts under a domain."""

    network: Network | None = None
    host: str | None = None
    suffix: str | None = None
    port: int | None = None

    def fits(self, host: str, port: int, address: Address | None) -> bool:
        """Tell whether it speaks of this; an address that nobody knows yet is in no network."""
        if self.port is not None and self.port != port:
            return False
        if self.network is not None:
            return address is not None and (
                address in self.network or unwrapped(address) in self.network
            )
        if self.suffix is not None:
            return host.endswith(self.suffix)
        return host == self.host


def parse_rules(variable: str, entries: str) -> tuple[Rule, ...]:
    """Read the list that a variable has; what means nothing is named."""
    parts = [part.strip() for part in entries.split(",")]
    try:
        return tuple(_parse_rule(entry) for entry in parts if entry)
    except _BadEntry as error:
        raise ConfigurationError(f"{variable}: {error}") from None


def _parse_rule(entry: str) -> Rule:
    if network := _parse_network(entry):
        return Rule(network=network)
    parts = _WITH_PORT.fullmatch(entry)
    if parts is None:
        raise _BadEntry(entry)
    port = int(parts["port"]) if parts["port"] else None
    if port is not None and not 0 < port <= _LAST_PORT:
        raise _BadEntry(entry)
    if network := _parse_network(parts["v6"] or parts["host"]):
        return Rule(network=network, port=port)
    if parts["v6"]:
        raise _BadEntry(entry)
    pattern: str = parts["host"]
    domain = pattern.removeprefix("*.")
    host = _normalised(domain)
    if host is None:
        raise _BadEntry(entry)
    if domain != pattern:
        return Rule(suffix=f".{host}", port=port)
    return Rule(host=host, port=port)


def _parse_network(text: str) -> Network | None:
    try:
        return ip_network(text)
    except ValueError:
        return None


def _normalised(host: str) -> str | None:
    """Write a host the way that a URL's host is written (lower case, IDNA)."""
    try:
        url = Url(f"http://{host}/")
    except ValueError:
        return None
    name = (url.domain or "").removesuffix(".")
    return name if _HOST.fullmatch(name) else None


class _BadEntry(Exception):
    """What means nothing in a list."""

    def __str__(self) -> str:
        return (
            f"{self.args[0]!r} is neither a network (10.20.0.0/16), nor an address (10.0.0.7), nor"
            " a host (hooks.internal, *.hooks.internal), each but the first with a :port or without"
        )
