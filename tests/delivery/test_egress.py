"""Egress: every special range, by its first, last and an inner address, and the allow-list."""

import pytest

from duetime.delivery.egress import Egress
from duetime.errors import ConfigurationError

DENIED = {
    "this host": ["0.0.0.0", "0.255.255.255"],
    "private": [
        *("10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255"),
        *("192.168.0.0", "192.168.255.255"),
    ],
    "carrier-grade NAT": ["100.64.0.0", "100.127.255.255"],
    "loopback": ["127.0.0.1", "127.255.255.255", "::1"],
    "link-local": ["169.254.0.0", "169.254.255.255", "fe80::1", "febf::1", "fe80::1%eth0"],
    "metadata": [
        *("169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
        *("fd00:ec2::254", "fd20:ce::254"),
    ],
    "protocol assignments": ["192.0.0.0", "192.0.0.255", "2001::1", "2001:1ff::1"],
    "documentation": [
        *("192.0.2.1", "198.51.100.1", "203.0.113.255", "2001:db8::1"),
        *("3fff::1", "3fff:fff::1"),
    ],
    "benchmarks": ["198.18.0.0", "198.19.255.255", "2001:2::1"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1"],
    "reserved": ["240.0.0.1", "255.255.255.254", "4000::1", "e000::1", "100::1"],
    "broadcast": ["255.255.255.255"],
    "unspecified": ["::"],
    "unique local": ["fc00::1", "fdff:ffff::1"],
    "site-local": ["fec0::1"],
    "segment routing": ["5f00::1"],
    "mapped": ["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe"],
    "compatible": ["::127.0.0.1", "::8.8.8.8"],
    "translated": ["::ffff:0:127.0.0.1", "::ffff:0:8.8.8.8"],
    "NAT64": ["64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808"],
    "6to4": ["2002:7f00:1::1", "2002:a9fe:a9fe::", "192.88.99.1"],
    "Teredo": ["2001:0:4136:e378:8000:63bf:3fff:fdd2"],
    "ISATAP": ["2a00:1450::5efe:808:808", "2a00:1450::200:5efe:a00:1", "fe80::5efe:a00:1"],
}
GLOBAL = [
    *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0"),
    *("126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255"),
    *("172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0"),
    *("223.255.255.255", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e", "2001:4860::8888"),
    *("::ffff:8.8.8.8", "64:ff9b::808:808"),
]


@pytest.mark.promise("permitted-addresses")
@pytest.mark.parametrize(
    "address", [address for addresses in DENIED.values() for address in addresses]
)
def test_special_address_is_denied(address: str):
    """An address that the internet cannot reach is not called by default."""
    assert not Egress.parse("").permits("receiver.example", 443, address)


@pytest.mark.parametrize("address", GLOBAL)
def test_global_address_is_permitted(address: str):
    """An address that the whole internet can reach is called."""
    assert Egress.parse("").permits("receiver.example", 443, address)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_permitted_for_development(address: str):
    """``duetime dev`` may call this machine."""
    assert Egress.parse("", loopback=True).permits("localhost", 8080, address)


@pytest.mark.promise("permitted-addresses")
@pytest.mark.parametrize("address", ["10.0.0.1", "169.254.169.254", "::", "0.0.0.0"])
def test_loopback_permits_nothing_else(address: str):
    """Permission to call this machine is not permission to call its neighbours."""
    assert not Egress.parse("", loopback=True).permits("localhost", 8080, address)


@pytest.mark.parametrize(
    ("allow", "host", "port", "address", "permitted"),
    [
        ("10.20.0.0/16", "a.example", 80, "10.20.3.4", True),
        ("10.20.0.0/16", "a.example", 80, "::ffff:10.20.3.4", True),
        ("10.20.0.0/16", "a.example", 80, "10.21.0.0", False),
        ("10.0.0.7", "a.example", 80, "10.0.0.7", True),
        ("10.0.0.7", "a.example", 80, "10.0.0.8", False),
        ("10.0.0.7:8080", "a.example", 8080, "10.0.0.7", True),
        ("10.0.0.7:8080", "a.example", 80, "10.0.0.7", False),
        ("[fd12::7]:8080", "a.example", 8080, "fd12::7", True),
        ("[fd12::7]:8080", "a.example", 80, "fd12::7", False),
        ("fd12::/32", "a.example", 80, "fd12::1", True),
        ("fd12::7", "a.example", 80, "fd12::7", True),
        ("hooks.internal", "hooks.internal", 80, "10.0.0.1", True),
        ("hooks.internal", "hooks.internal.", 80, "10.0.0.1", True),
        ("hooks.internal", "a.hooks.internal", 80, "10.0.0.1", False),
        ("HOOKS.Internal", "hooks.internal", 80, "10.0.0.1", True),
        ("bücher.internal", "xn--bcher-kva.internal", 80, "10.0.0.1", True),
        ("hooks.internal:8080", "hooks.internal", 8080, "10.0.0.1", True),
        ("hooks.internal:8080", "hooks.internal", 80, "10.0.0.1", False),
        ("*.internal", "hooks.internal", 80, "10.0.0.1", True),
        ("*.internal", "a.b.internal", 80, "10.0.0.1", True),
        ("*.internal", "internal", 80, "10.0.0.1", False),
        ("*.internal", "notinternal", 80, "10.0.0.1", False),
        ("*.internal:443", "a.internal", 80, "10.0.0.1", False),
        (" 10.0.0.0/8 , , hooks.internal ", "hooks.internal", 80, "127.0.0.1", True),
    ],
)
def test_allow_list(allow: str, host: str, port: int, address: str, *, permitted: bool):
    """Each form of entry permits what it says and no more."""
    assert Egress.parse(allow).permits(host, port, address) is permitted


@pytest.mark.promise("permitted-addresses")
@pytest.mark.parametrize(
    ("deny", "host", "port", "address", "permitted"),
    [
        ("8.8.8.0/24", "a.example", 443, "8.8.8.8", False),
        ("8.8.8.0/24", "a.example", 443, "::ffff:8.8.8.8", False),
        ("8.8.8.0/24", "a.example", 443, "64:ff9b::808:808", False),
        ("8.8.8.0/24", "a.example", 443, "9.9.9.9", True),
        ("8.8.8.8:25", "a.example", 25, "8.8.8.8", False),
        ("8.8.8.8:25", "a.example", 443, "8.8.8.8", True),
        ("2606:4700::/32", "a.example", 443, "2606:4700::1", False),
        ("*.example", "a.example.", 443, "8.8.8.8", False),
        ("*.example", "example", 443, "8.8.8.8", True),
        ("a.example", "b.example", 443, "8.8.8.8", True),
        ("10.1.0.0/16", "a.example", 443, "10.1.2.3", False),
        ("10.1.0.0/16", "a.example", 443, "10.2.0.1", True),
        ("hooks.internal", "hooks.internal", 443, "10.2.0.1", False),
    ],
)
def test_deny_list(deny: str, host: str, port: int, address: str, *, permitted: bool):
    """It wins over what is public, and over what is allowed."""
    egress = Egress.parse("10.0.0.0/8, hooks.internal", deny=deny)
    assert egress.permits(host, port, address) is permitted


@pytest.mark.promise("permitted-addresses")
@pytest.mark.parametrize(
    ("public", "host", "port", "address", "permitted"),
    [
        ("all", "a.example", 443, "8.8.8.8", True),
        ("ALL", "a.example", 443, "8.8.8.8", True),
        ("none", "a.example", 443, "8.8.8.8", False),
        ("none", "hooks.internal", 443, "10.0.0.1", True),
        ("none", "hooks.internal", 443, "8.8.8.8", True),
        ("*.partner.example:443", "a.partner.example", 443, "8.8.8.8", True),
        ("*.partner.example:443", "a.partner.example", 8443, "8.8.8.8", False),
        ("*.partner.example:443", "b.example", 443, "8.8.8.8", False),
        ("a.example", "a.example", 443, "127.0.0.1", False),
        ("a.example", "a.example", 443, "::ffff:10.0.0.1", False),
        ("0.0.0.0/0", "a.example", 443, "10.0.0.1", False),
        ("8.8.8.0/24", "a.example", 443, "8.8.8.8", True),
        ("8.8.8.0/24", "a.example", 443, "9.9.9.9", False),
    ],
)
def test_public_list(public: str, host: str, port: int, address: str, *, permitted: bool):
    """It narrows what is public and opens nothing: a host in it may not lead inside."""
    egress = Egress.parse("hooks.internal", public=public)
    assert egress.permits(host, port, address) is permitted


@pytest.mark.parametrize("public", ["all, a.example", "none,all", "none, 8.8.8.8"])
def test_all_and_none_stand_alone(public: str):
    """A list that says two things at once is refused."""
    with pytest.raises(ConfigurationError, match="EGRESS_PUBLIC: all and none stand alone"):
        Egress.parse("", public=public)


@pytest.mark.parametrize("variable", ["EGRESS_PUBLIC", "EGRESS_DENY"])
def test_bad_entry_is_named_with_its_list(variable: str):
    """It is said which of the lists it stands in."""
    lists = {variable.removeprefix("EGRESS_").lower(): "8.8.8.8, *"}
    with pytest.raises(ConfigurationError, match=rf"^{variable}: '\*' is neither a network"):
        Egress.parse("", **lists)


@pytest.mark.parametrize(
    "entry",
    [
        *("10.0.0.1/8", "10.0.0.0/33", "fd12::/129", "*", "*.", "*.*.example", "a*.example", "a b"),
        *("http://a.example", "a.example:0", "a.example:99999", "a.example:x", "[::1", "[a]:80"),
        *("a..example", "a.example/", "a.example/x", "me@a.example", "10.0.0.0/8:443", ":80"),
    ],
)
def test_bad_entry_is_named(entry: str):
    """An entry that means nothing is refused by name when the server starts."""
    with pytest.raises(ConfigurationError) as caught:
        Egress.parse(f"10.0.0.0/8,{entry}")
    assert str(caught.value).startswith(f"EGRESS_ALLOW: {entry!r} ")
