"""From where a request comes, if proxies brought it."""

import pytest

from duetime.api.proxies import Proxies

TRUSTED = ("10.0.0.0/8", "::1", "fd00::/8")


@pytest.mark.parametrize(
    ("peer", "told", "origin"),
    [
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("::1", ["203.0.113.9"], "203.0.113.9"),
        ("::ffff:10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["203.0.113.9:4711"], "203.0.113.9"),
        ("10.0.0.1", ["[2001:db8::7]:4711"], "2001:db8::7"),
        ("10.0.0.1", ["2001:DB8::7"], "2001:db8::7"),
        # Through two proxies, in one header or in two.
        ("10.0.0.1", ["203.0.113.9, 10.9.9.9"], "203.0.113.9"),
        ("10.0.0.1", ["203.0.113.9", "10.9.9.9"], "203.0.113.9"),
        # What the client wrote itself stands before what the proxy has added.
        ("10.0.0.1", ["1.2.3.4, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["1.2.3.4", "203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["1.2.3.4, nonsense, 10.2.2.2"], "10.2.2.2"),
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9\xff"], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        # Who is not trusted may say what they like.
        ("203.0.113.9", ["1.2.3.4"], "203.0.113.9"),
        ("203.0.113.9", [], "203.0.113.9"),
        (None, ["1.2.3.4"], None),
        ("a socket", ["1.2.3.4"], "a socket"),
    ],
)
def test_only_what_trusted_proxies_add_is_believed(peer, told, origin):
    """The nearest that is not a trusted proxy is who asks."""
    headers = [(b"x-forwarded-for", each.encode("latin-1")) for each in told]
    assert Proxies(TRUSTED).origin(peer, [(b"host", b"x"), *headers]) == origin
    assert Proxies().origin(peer, headers) == peer


def test_a_long_header_is_read_to_its_end():
    """It is bounded by what the server takes of headers."""
    told = ", ".join(["10.0.0.2"] * 2_000).encode()
    assert Proxies(TRUSTED).origin("10.0.0.1", [(b"x-forwarded-for", told)]) == "10.0.0.2"
