"""Proxies that stand before the service, and are believed when they say from where a request came.

Anybody can write an X-Forwarded-For. Each proxy adds to its end from whom it has the request; so it
is read from the end, as far as those are trusted who wrote it.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

Address = IPv4Address | IPv6Address

_HEADER = b"x-forwarded-for"


class Proxies:
    """Knows the trusted ones by their networks."""

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        self._networks = [ip_network(each) for each in trusted]

    def origin(self, peer: str | None, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """From where a request comes that a peer has brought."""
        if not self._networks or peer is None or not self._trusts(_address(peer)):
            return peer
        origin = peer
        told = b",".join(value for name, value in headers if name == _HEADER)
        for text in reversed(told.decode("latin-1").split(",")):
            address = _address(text.strip())
            if address is None:  # who wrote it does not know, and what stands before is hearsay
                break
            origin = str(address)
            if not self._trusts(address):
                break
        return origin

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)


def _address(text: str) -> Address | None:
    """An address, with a port or without."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
