"""Which headers of an answer are kept, where any are asked for."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.delivery.answers import Response
from duetime.delivery.capture import LONGEST_VALUE, MOST_OF_HEADERS, Capture
from duetime.delivery.http import HttpSender
from duetime.timer import Kind
from tests.delivery.conftest import make_timer, mine
from tests.delivery.receiver import Receiver

LOST = "\N{REPLACEMENT CHARACTER}"


def kept(names: list[str], *fields: tuple[bytes, bytes]) -> dict[str, str] | None:
    return Capture(0, tuple(names), None).fields(Response(200, list(fields)))


@pytest.mark.parametrize("status", [200, 302, 404, 503])
async def test_those_that_are_asked_for(sender: HttpSender, receiver: Receiver, status: int):
    """Whatever the status, however the receiver spells them, and no others."""
    url = receiver.url(f"/status/{status}?X-REQUEST-id=r-1&Server=s&Set-Cookie=secret")
    timer = make_timer(url, response_headers=("x-request-id", "server", "x-missing"))
    outcome = await sender.send(timer, mine)
    assert (outcome.status_code, outcome.response) == (status, None)
    assert outcome.response_headers == {"x-request-id": "r-1", "server": "s"}


async def test_not_asked_for(sender: HttpSender, receiver: Receiver):
    """Nothing is kept then, which is not the same as that there were none."""
    url = receiver.url("/status/200?Server=s")
    assert (await sender.send(make_timer(url), mine)).response_headers is None
    timer = make_timer(url, response_headers=("x-missing",))
    assert (await sender.send(timer, mine)).response_headers == {}


async def test_no_answer_has_none(sender: HttpSender, receiver: Receiver):
    """An answer that breaks off is a failed attempt, and nothing of it is kept."""
    text = "HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 9\r\n\r\nabc"
    timer = make_timer(receiver.url(f"/raw?text={quote(text)}"), response_headers=("x-a",))
    outcome = await sender.send(timer, mine)
    assert (outcome.kind, outcome.response_headers) == (Kind.NETWORK, None)


async def test_beside_the_body(sender: HttpSender, receiver: Receiver):
    """Both are kept where both are asked for."""
    url = receiver.url("/status/200?X-A=1")
    outcome = await sender.send(make_timer(url, response_headers=("x-a",), response_bytes=1), mine)
    assert (outcome.response, outcome.response_headers) == ("o", {"x-a": "1"})


def test_one_that_came_ten_thousand_times():
    """Is not put together further than it is kept."""
    fields = [(b"a", b"xyz")] * 10_000
    assert kept(["a", "b"], *fields, (b"b", b"1")) == {
        "a": ", ".join(["xyz"] * 1000)[:LONGEST_VALUE],
        "b": "1",
    }


def test_one_that_came_twice():
    """Is one with commas."""
    assert kept(["via"], (b"Via", b"a"), (b"X", b"y"), (b"VIA", b"b")) == {"via": "a, b"}


def test_a_long_value_is_cut():
    """At so many bytes, and not in the middle of a character."""
    assert kept(["a"], (b"a", b"x" * 5000)) == {"a": "x" * LONGEST_VALUE}
    assert kept(["a"], (b"a", b"x" + "ü".encode() * 1000)) == {"a": "x" + "ü" * 511}


def test_all_together_are_bounded():
    """Those that come first are kept; what has no room any more is left out."""
    names = [f"n{number}" for number in range(16)]
    fields = [(name.encode(), b"x" * 900) for name in names]
    found = kept(names[::-1], *fields)
    assert found == {**dict.fromkeys(names[:4], "x" * 900), "n4": "x" * (4096 - 3600)}


def test_controls_are_replaced():
    """As in the body: no store and no terminal chokes on them."""
    assert kept(["a"], (b"a", b"\x1b[31m\0\xff\x85")) == {"a": f"{LOST}[31m{LOST * 3}"}
    assert kept(["a"], (b"a", b"one\r\n two\nthree\tfour")) == {"a": "one  two three\tfour"}


@given(
    names=st.lists(st.sampled_from("abcdefghijklmnop"), unique=True),
    fields=st.lists(st.tuples(st.sampled_from(list("ABCDEFxyz")), st.binary(max_size=3000))),
)
def test_whatever_comes(names: list[str], fields: list[tuple[str, bytes]]):
    """Only what was asked for, in bounds, and text that every store takes."""
    found = kept(names, *[(name.encode(), value) for name, value in fields]) or {}
    assert set(found) <= set(names)
    assert sum(len(value) for value in found.values()) <= MOST_OF_HEADERS
    for value in found.values():
        assert len(value) <= LONGEST_VALUE
        assert all(each == "\t" or each.isprintable() or ord(each) > 0x9F for each in value)
