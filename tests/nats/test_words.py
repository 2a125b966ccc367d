"""Subjects, tokens, headers and addresses: what may be written, and how it is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.errors import ConfigurationError
from duetime.nats import headers, servers, subjects
from duetime.nats.servers import Server

names = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=":"), min_size=1
)
values = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_categories=["C"]))


@pytest.mark.parametrize("subject", ["a", "a.b.c", "orders.Grün.1", "a-b_c$.%7E", "x" * 255])
def test_legal_subjects(subject: str):
    """Dots part it, and almost everything may stand between them."""
    assert subjects.problem_with(subject) is None


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("", "must not be empty"),
        ("a b", "must not have spaces or control characters"),
        ("a\r\nPUB b 0", "must not have spaces or control characters"),
        ("a\x00", "must not have spaces or control characters"),
        ("a\u2028b", "must not have spaces or control characters"),
        ("a.*", "must not have the wildcards * and >"),
        ("a.>", "must not have the wildcards * and >"),
        ("a*b", "must not have the wildcards * and >"),
        (".a", "must not have empty parts between its dots"),
        ("a.", "must not have empty parts between its dots"),
        ("a..b", "must not have empty parts between its dots"),
        ("x" * 256, "must be at most 255 bytes"),
        ("ü" * 128, "must be at most 255 bytes"),
        ("\ud800", "must not have spaces or control characters"),
    ],
)
def test_illegal_subjects(subject: str, problem: str):
    """Each has a reason."""
    assert subjects.problem_with(subject) == problem


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_text_is_a_token(text: str):
    """Of which one subject is made, and nothing else; and back."""
    token = subjects.token(text)
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-%")
    assert subjects.untoken(token) == text


def test_fixed_tokens():
    """They are what others subscribe to, and never change."""
    assert subjects.token("acme-eu_1") == "acme-eu_1"
    assert subjects.token("a.b c~%*>ü") == "a%2Eb%20c%7E%25%2A%3E%C3%BC"


@given(st.dictionaries(names, values))
def test_headers_are_read_as_they_were_written(given: dict[str, str]):
    """But for spaces around a value, which are nobody's."""
    said = {name: value.strip() for name, value in given.items()}
    assert headers.read(headers.written(given) or b"NATS/1.0\r\n\r\n") == (said, None)


def test_no_headers_are_no_block():
    """Then a message is sent without one."""
    assert headers.written({}) == b""


@pytest.mark.parametrize("bad", [{"a": "b\r\nc: d"}, {"a\n": "b"}, {"a": "b\r"}, {"a": "\n"}])
def test_a_header_is_one_line(bad: dict[str, str]):
    """However it came to be stored, it is not sent."""
    with pytest.raises(ValueError, match="more than one line"):
        headers.written(bad)


def test_what_the_server_itself_says():
    """It has a status, and often a description."""
    assert headers.read(b"NATS/1.0 503\r\n\r\n") == ({}, 503)
    assert headers.read(b"NATS/1.0 404 No Messages\r\n\r\n") == (
        {"Description": "No Messages"},
        404,
    )


@given(st.binary())
def test_any_block_can_be_read(block: bytes):
    """Whoever may publish writes them."""
    headers.read(block)
    headers.read(b"NATS/1.0" + block)


def test_of_many_headers_the_first_are_read():
    """A megabyte of them would take hundreds of times the memory, and the time."""
    many = {f"Name-{number}": "x" for number in range(100_000)}
    found, _ = headers.read(headers.written(many))
    assert list(found) == list(many)[: headers.MOST]
    found, _ = headers.read(headers.written({"A": "1", "B": "x" * 1_000_000, "C": "2"}))
    assert found["A"] == "1"
    assert "C" not in found
    assert len(found["B"]) < headers.MOST_BYTES


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("nats://here", Server("here")),
        ("nats://here:1", Server("here", 1)),
        ("tls://here", Server("here", is_tls=True)),
        ("nats://u:p%40%2F@here", Server("here", user="u", password="p@/")),
        ("nats://t%3Aken@here:2", Server("here", 2, token="t:ken")),
        ("nats://[::1]:3", Server("::1", 3)),
    ],
)
def test_addresses(url: str, server: Server):
    """With who we are before the @, which is never shown."""
    assert servers.read(url) == server
    assert "p@/" not in server.shown
    assert servers.read(server.shown) == server._replace(user="", password="", token="")


@pytest.mark.parametrize("url", ["http://here", "nats://", "nats://here:99999", "nats://[x"])
def test_no_addresses(url: str):
    """The error says what they look like, and nothing of a password in them."""
    with pytest.raises(ConfigurationError, match="NATS_URL: must be nats://host:port"):
        servers.read(url)


def test_others_of_a_cluster():
    """They are reached as the one that told of them; numbers show its certificate."""
    told = Server("here", 1, is_tls=True, user="u", password="p")
    assert told.others(["there:2", "10.0.0.1:3", "[::1]:4", "bad:port", "[", ""]) == [
        told._replace(host="there", port=2),
        told._replace(host="10.0.0.1", port=3, name="here"),
        told._replace(host="::1", port=4, name="here"),
    ]
