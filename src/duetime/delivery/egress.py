"""Egress: which addresses may be called. Users choose the URLs, so they must not reach inside.

By default only addresses that the whole internet can reach are permitted. The judgement is made on
the address that will be connected to, never on a name alone, because what a name resolves to is
up to whoever owns it. ``EGRESS_ALLOW`` widens it, entry by entry:

- a network or an address, ``10.20.0.0/16``, ``fd12::/32``, ``10.0.0.7``, ``10.0.0.7:8080``,
  ``[::1]:8080``: these addresses, whatever the name that led there;
- a host, ``hooks.internal``, ``*.svc.cluster.local``, ``localhost:8080``: this host, *whatever it
  resolves to*. List only names whose DNS you control.
"""

import re
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import NamedTuple, TypeAlias

from pyreqwest.http import Url

from duetime.errors import ConfigurationError

VARIABLE = "EGRESS_ALLOW"

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# Spelled out rather than asked of ipaddress.is_global, whose answer differs between patch releases.
_DENIED_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this host
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carrier-grade NAT; Alibaba's metadata
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # Azure's platform endpoint, on a public address
            "169.254.0.0/16",  # link-local; the metadata of most clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments; Oracle's metadata
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
# Of IPv6, only this block is handed out for global use. The rest (unspecified, loopback,
# IPv4-compatible, unique local, link-local, site-local, multicast, ...) is outside of it.
_GLOBAL_V6 = IPv6Network("2000::/3")
_DENIED_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments; Teredo, which embeds an IPv4 address
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which embeds an IPv4 address
            "3fff::/20",  # documentation
        ),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_LOOPBACK: tuple[Network, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))

_WITH_PORT = re.compile(
    r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:/?#@\\\[\]\s]+))(?::(?P<port>[0-9]{1,5}))?"
)
_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
_LAST_PORT = 65_535


class _Rule(NamedTuple):
    """One entry of the list: a network, a host, or (``suffix``) all hosts under a domain."""

    network: Network | None = None
    host: str | None = None
    suffix: str | None = None
    port: int | None = None

    def permits(self, host: str, port: int, address: Address) -> bool:
        if self.port is not None and self.port != port:
            return False
        if self.network is not None:
            return address in self.network or _unwrapped(address) in self.network
        if self.suffix is not None:
            return host.endswith(self.suffix)
        return host == self.host


class Egress:
    """What may be called."""

    def __init__(self, rules: tuple[_Rule, ...] = ()) -> None:
        self._rules = rules

    @classmethod
    def parse(cls, allow: str, *, loopback: bool = False) -> "Egress":
        """Read ``EGRESS_ALLOW``; with ``loopback``, this machine may be called as well."""
        rules = [_Rule(network=network) for network in _LOOPBACK] if loopback else []
        rules += [_parse_rule(entry) for part in allow.split(",") if (entry := part.strip())]
        return cls(tuple(rules))

    def permits(self, host: str, port: int, address: str) -> bool:
        """Tell whether a URL's host (as ``Url`` normalises it) may be called at this address."""
        ip = ip_address(address)
        if is_global(ip):
            return True
        name = host.removesuffix(".")
        return any(rule.permits(name, port, ip) for rule in self._rules)


def is_global(address: Address) -> bool:
    """Tell whether an address is one that the whole internet can reach."""
    ip = _unwrapped(address)
    if isinstance(ip, IPv4Address):
        return not any(ip in network for network in _DENIED_V4)
    return ip in _GLOBAL_V6 and not any(ip in network for network in _DENIED_V6)


def _unwrapped(address: Address) -> Address:
    """The IPv4 address that a mapped or NAT64 one leads to; any other address as it is."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def _parse_rule(entry: str) -> _Rule:
    if network := _parse_network(entry):
        return _Rule(network=network)
    parts = _WITH_PORT.fullmatch(entry)
    if parts is None:
        raise _bad(entry)
    port = int(parts["port"]) if parts["port"] else None
    if port is not None and not 0 < port <= _LAST_PORT:
        raise _bad(entry)
    if network := _parse_network(parts["v6"] or parts["host"]):
        return _Rule(network=network, port=port)
    if parts["v6"]:
        raise _bad(entry)
    pattern: str = parts["host"]
    domain = pattern.removeprefix("*.")
    host = _normalised(domain)
    if host is None:
        raise _bad(entry)
    if domain != pattern:
        return _Rule(suffix=f".{host}", port=port)
    return _Rule(host=host, port=port)


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


def _bad(entry: str) -> ConfigurationError:
    return ConfigurationError(
        f"{VARIABLE}: {entry!r} is neither a network (10.20.0.0/16), nor an address (10.0.0.7),"
        " nor a host (hooks.internal, *.hooks.internal), each but the first with a :port or without"
    )
