"""The seal: what it hides, and what does not open."""

import pytest

from duetime.api.cursors import Cursors
from duetime.api.seal import Seal
from duetime.errors import InvalidRequest

SEAL = Seal("a secret of the service")
PLACE = ("created_at desc", 1_761_474_600_000, "019a2031-3c40-7abc-8def-001122334455")


def opens(cursors: Cursors, cursor: str) -> bool:
    try:
        cursors.read(cursor, tuple[str, int, str])
    except InvalidRequest:
        return False
    return True


@pytest.mark.parametrize("content", [b"", b"a", b"\0" * 40, b"\0content\0", bytes(range(256))])
def test_what_is_sealed_opens(content):
    """A content comes back as it was, of whatever bytes, under the same secret."""
    sealed = SEAL.close(content, b"a list")
    assert len(sealed) == len(content) + 16
    assert Seal("a secret of the service").open(sealed, b"a list") == content
    assert Seal("another secret").open(sealed, b"a list") is None


def test_nothing_of_it_shows():
    """No stretch of a content is in what is sealed, and no two share the bytes they are hid by."""
    one, two = b"the timer 4711 of acme", b"the timer 4712 of acme"
    sealed, other = SEAL.close(one, b"a list"), SEAL.close(two, b"a list")
    assert not any(one[at : at + 3] in sealed for at in range(len(one) - 2))
    assert sum(a == b for a, b in zip(sealed, other, strict=True)) < len(sealed) // 2
    assert SEAL.close(one, b"a list") == sealed


def test_what_was_altered_does_not_open():
    """Any bit of any byte that is another one, a byte more, a byte less, or nothing at all."""
    sealed = SEAL.close(b"a place in a list", b"a list")
    altered = [
        sealed[:at] + bytes([sealed[at] ^ 1 << bit]) + sealed[at + 1 :]
        for at in range(len(sealed))
        for bit in range(8)
    ]
    cut = [sealed[:end] for end in range(len(sealed))]
    for wrong in (*altered, *cut, sealed + b"\0", b"\0" + sealed):
        assert SEAL.open(wrong, b"a list") is None


def test_a_seal_is_for_one_purpose():
    """What is sealed for one does not open for another, also where its end is moved."""
    sealed = SEAL.close(b"content", b"a list")
    for purpose in (b"", b"a lis", b"a listc", b"another list"):
        assert SEAL.open(sealed, purpose) is None
    assert SEAL.open(SEAL.close(b"tcontent", b"a lis"), b"a list") is None


def test_a_cursor_is_of_one_list_of_one_tenant():
    """The same place in another list, or of another tenant, is no place at all."""
    mine = Cursors(SEAL, "acme", "timers")
    cursor = mine.write(PLACE)
    assert mine.read(cursor, tuple[str, int, str]) == PLACE
    assert mine.read(None, tuple[str, int, str]) is None
    for tenant, name in (("acme", "audit"), ("rival", "timers"), ("acm", "etimers")):
        assert not opens(Cursors(SEAL, tenant, name), cursor)


def test_a_cursor_is_taken_only_as_it_was_given():
    """Each letter of it counts, also what Base64 would pass over; and it fits into a URL."""
    mine = Cursors(SEAL, "acme", "timers")
    cursor = mine.write(PLACE)
    assert len(cursor) < 128
    for at, letter in enumerate(cursor):
        other = "B" if letter == "A" else "A"
        for wrong in (other, "", "!", letter + "=", letter + "\n", letter + "é"):
            assert not opens(mine, cursor[:at] + wrong + cursor[at + 1 :])
    assert not opens(mine, "")


def test_a_cursor_of_another_kind_of_place_does_not_open():
    """One that was sealed here, but says something else than this version would say."""
    mine = Cursors(SEAL, "acme", "timers")
    assert not opens(mine, mine.write("a text"))
