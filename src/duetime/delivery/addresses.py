"""Addresses: which of them the whole internet can reach, whatever they are wrapped in."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TypeAlias

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
# ISATAP embeds an IPv4 address behind this, in whatever network; the second is its "global" form.
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})


def is_global(address: Address) -> bool:
    """Tell whether an address is one that the whole internet can reach."""
    ip = unwrapped(address)
    if isinstance(ip, IPv4Address):
        return not any(ip in network for network in _DENIED_V4)
    if (int(ip) >> 32) & 0xFFFF_FFFF in _ISATAP:
        return False
    return ip in _GLOBAL_V6 and not any(ip in network for network in _DENIED_V6)


def unwrapped(address: Address) -> Address:
    """The IPv4 address that a mapped or NAT64 one leads to; any other address as it is."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address
