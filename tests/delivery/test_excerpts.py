"""What is kept of the answers of receivers, where it is asked for."""

import unicodedata
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.delivery.answers import Answers
from duetime.delivery.excerpt import Excerpt
from duetime.delivery.http import HttpSender
from duetime.timer import Kind, Outcome
from tests.delivery.conftest import MakeSender, make_timer, mine
from tests.delivery.receiver import Receiver

MUCH = 1000  # more than the answers here have
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LOST = "\N{REPLACEMENT CHARACTER}"


def with_length(body: bytes, status: int = 200, head: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d \r\n%bContent-Length: %d\r\n\r\n%b" % (status, head, len(body), body)


async def send(
    sender: HttpSender, receiver: Receiver, answer: bytes, keep: int, *, by: int = 9999, **callback
) -> Outcome:
    url = receiver.url(f"/say?by={by}&hex={answer.hex()}")
    return await sender.send(make_timer(url, response_bytes=keep, timeout=5000, **callback), mine)


ANSWERS = {
    "shorter": (with_length(b"abc"), 4, "abc"),
    "as long": (with_length(b"abc"), 3, "abc"),
    "longer": (with_length(b"abcdefghijklmnopqrst"), 10, "abcdefghij"),
    "one byte": (with_length(b"abc"), 1, "a"),
    "empty": (with_length(b""), MUCH, ""),
    "with nothing": (b"HTTP/1.1 204 \r\n\r\n", MUCH, ""),
    "in chunks": (CHUNKED + b"3\r\nabc\r\n4;ext=1\r\ndefg\r\n0\r\n\r\n", MUCH, "abcdefg"),
    "longer, in chunks": (CHUNKED + b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n", 5, "abcde"),
    "with a trailer": (CHUNKED + b"1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n", MUCH, "a"),
    "after 103": (b"HTTP/1.1 103 \r\nLink: </a>\r\n\r\n" + with_length(b"abc"), MUCH, "abc"),
    "two bytes, cut": (with_length("aüü".encode()), 4, "aü"),
    "three bytes, cut": (with_length("€€".encode()), 5, "€"),
    "four bytes, cut": (with_length("😀😀".encode()), 7, "😀"),
    "four bytes, whole": (with_length("😀😀".encode()), 8, "😀😀"),
    "nothing but half of one": (with_length("😀".encode()), 3, ""),
    "broken at its own end": (with_length(b"a\xe2\x82"), MUCH, f"a{LOST}"),
    "no UTF-8": (with_length(b"\xffa\xc3(\x80b"), MUCH, f"{LOST}a{LOST}({LOST}b"),
    "surrogates": (with_length(b"a\xed\xa0\x80b"), MUCH, f"a{LOST * 3}b"),
    "NUL": (with_length(b"a\0b\0"), MUCH, f"a{LOST}b{LOST}"),
    "controls": (with_length(b"\x01\x1b[31m\x7f"), MUCH, f"{LOST * 2}[31m{LOST}"),
    "controls of two bytes": (with_length("\x80a\x85\x9f".encode()), MUCH, f"{LOST}a{LOST * 2}"),
    "tabs and lines": (with_length(b"a\tb\nc\r\nd\re\n\r"), MUCH, "a\tb\nc\nd\ne\n\n"),
}


@pytest.mark.parametrize("by", [1, 7, 10_000])
@pytest.mark.parametrize("name", ANSWERS)
async def test_how_an_answer_began(sender: HttpSender, receiver: Receiver, name: str, by: int):
    """However it is cut into pieces, so much is kept and no more; the connection is used again."""
    answer, keep, text = ANSWERS[name]
    for _ in range(2):
        outcome = await send(sender, receiver, answer, keep, by=by)
        assert (outcome.kind, outcome.error, outcome.response) == (Kind.OK, None, text)
    assert receiver.connections == 1


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (503, "HTTP 503 Service Unavailable"),
        (404, "HTTP 404 Not Found"),
        (302, "redirect to http://a.example/ was not followed (HTTP 302)"),
    ],
)
async def test_failed_answer(sender: HttpSender, receiver: Receiver, status: int, error: str):
    """What an answer says that is no success is kept as well; its error is in the usual words."""
    answer = with_length(b"sorry: s3cret", status, b"Location: http://a.example/\r\n")
    outcome = await send(sender, receiver, answer, MUCH)
    assert (outcome.kind, outcome.status_code, outcome.error) == (Kind.HTTP, status, error)
    assert outcome.response == "sorry: s3cret"


async def test_not_asked_for(sender: HttpSender, receiver: Receiver):
    """Nothing is kept then, and the parser copies nothing: it would for whoever has on_body."""
    outcome = await send(sender, receiver, with_length(b"abc"), 0)
    assert (outcome.kind, outcome.response) == (Kind.OK, None)
    assert not hasattr(Answers(), "on_body")


async def test_each_answer_for_itself(sender: HttpSender, receiver: Receiver):
    """On one connection, what is kept of one answer says nothing about the next."""
    asked = [(b"first", MUCH), (b"second", 0), (b"third", 2), (b"fourth", MUCH), (b"fifth", 0)]
    kept = [
        (await send(sender, receiver, with_length(body), keep)).response for body, keep in asked
    ]
    assert kept == ["first", None, "th", "fourth", None]
    assert receiver.connections == 1


async def test_nothing_stays_with_the_connection(sender: HttpSender, receiver: Receiver):
    """One at rest does not hold the text of its last answer."""
    await send(sender, receiver, with_length(b"abc"), MUCH)
    [connection] = sender._connections._at_rest
    assert connection._answers._excerpt is None


async def test_head(sender: HttpSender, receiver: Receiver):
    """The answer to a HEAD has no body, and what follows is the next answer's."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
    for keep, kept in ((MUCH, ""), (0, None), (MUCH, "")):
        outcome = await send(sender, receiver, head, keep, method="HEAD")
        assert (outcome.kind, outcome.response) == (Kind.OK, kept)
        outcome = await send(sender, receiver, with_length(b"abc"), MUCH, method="GET")
        assert (outcome.kind, outcome.response) == (Kind.OK, "abc")
    assert receiver.connections == 1


async def test_until_the_end_of_the_connection(sender: HttpSender, receiver: Receiver):
    """An answer without a length ends with the connection, and is kept."""
    text = "HTTP/1.1 200 OK\r\n\r\nall of it"
    url = receiver.url(f"/raw?text={quote(text)}")
    outcome = await sender.send(make_timer(url, response_bytes=6), mine)
    assert (outcome.kind, outcome.response) == (Kind.OK, "all of")


@pytest.mark.parametrize(
    "text",
    [
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ],
    ids=["length", "chunks"],
)
@pytest.mark.parametrize("keep", [2, MUCH])
async def test_broken_off(sender: HttpSender, receiver: Receiver, text: str, keep: int):
    """A body that breaks off is a failed attempt, also if all that is kept of it had come."""
    url = receiver.url(f"/raw?text={quote(text)}")
    outcome = await sender.send(make_timer(url, response_bytes=keep), mine)
    assert (outcome.kind, outcome.status_code, outcome.response) == (Kind.NETWORK, None, None)
    at = f"127.0.0.1:{receiver.port}"
    assert outcome.error == f"the answer of {at} broke off: the connection was closed"


async def test_too_late(sender: HttpSender, receiver: Receiver):
    """A body that does not end in time is a failed attempt."""
    timer = make_timer(receiver.url("/dripping"), response_bytes=1, timeout=100)
    outcome = await sender.send(timer, mine)
    assert (outcome.kind, outcome.response) == (Kind.TIMEOUT, None)


async def test_two_answers_at_once(sender: HttpSender, receiver: Receiver):
    """What comes behind an answer is not taken for its body."""
    outcome = await send(sender, receiver, with_length(b"abc") + with_length(b"forged"), MUCH)
    assert (outcome.kind, outcome.response) == (Kind.OK, "abc")


async def test_badly_written_answer(sender: HttpSender, receiver: Receiver):
    """Of an answer that counts though it is not written as it should be, what could be read."""
    outcome = await send(sender, receiver, CHUNKED + b"3\r\nabc\r\nzz\r\nabc", MUCH)
    assert (outcome.kind, outcome.response) == (Kind.OK, "abc")


async def test_no_more_than_is_read(make_sender: MakeSender, receiver: Receiver):
    """Whatever a timer asks for, no more is kept than is read of an answer."""
    sender = make_sender(read_at_most=1000)
    timer = make_timer(receiver.url("/endless"), response_bytes=10**12)
    outcome = await sender.send(timer, mine)
    assert outcome.kind is Kind.OK
    assert outcome.response is not None
    assert len(outcome.response) <= 1000


@given(pieces=st.lists(st.binary(max_size=40), max_size=10), most=st.integers(1, 60))
def test_whatever_comes(pieces: list[bytes], most: int):
    """It is text that every store takes, and no more than was asked for is in memory meanwhile."""
    excerpt = Excerpt(most)
    for piece in pieces:
        excerpt.add(piece)
        assert len(excerpt._kept) <= most
    text = excerpt.text(most)
    assert len(text) <= most
    assert {each for each in text if unicodedata.category(each) in {"Cc", "Cs"}} <= {"\t", "\n"}


_CLEAN = st.characters(exclude_categories=["Cc", "Cs"])


@given(text=st.text(_CLEAN), most=st.integers(1, 60), cut=st.integers(1, 7))
def test_good_text_is_kept_as_it_is(text: str, most: int, cut: int):
    """Not a character is changed or lost that the limit has room for."""
    encoded, excerpt = text.encode(), Excerpt(most)
    for start in range(0, len(encoded), cut):
        excerpt.add(encoded[start : start + cut])
    assert excerpt.text(most) == encoded[:most].decode(errors="ignore")
