"""The parser makes the same of what a server sends, however it is cut, and survives all else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.nats import parser
from duetime.nats.parser import Delivery, Line, Operation, Parser, ProtocolError

# Whoever publishes chooses them, and to a server all is part of one that is none of these four.
subjects = st.lists(
    st.integers(0, 255).filter(lambda byte: byte not in b" \t\r\n"), min_size=1, max_size=8
).map(bytes)
contents = st.binary(max_size=40)
deliveries = st.builds(
    Delivery,
    st.integers(0, 10**9),
    subjects,
    subjects | st.just(b""),
    contents.map(lambda data: b"NATS/1.0\r\n" + data) | st.just(b""),
    contents,
)
lines = st.sampled_from(
    [
        Line(b"PING"),
        Line(b"PONG"),
        Line(b"+OK"),
        Line(b"INFO", b'{"a": 1}'),
        Line(b"-ERR", b"'Unknown Protocol Operation'"),
    ]
)


def written(operation: Operation) -> bytes:
    """The operation as a server sends it."""
    if isinstance(operation, Line):
        return b" ".join(filter(None, operation)) + b"\r\n"
    number, subject, reply, headers, data = operation
    words = [b"HMSG" if headers else b"MSG", subject, b"%d" % number]
    words += [reply] if reply else []
    words += [b"%d" % len(headers)] if headers else []
    words += [b"%d" % (len(headers) + len(data))]
    return b" ".join(words) + b"\r\n" + headers + data + b"\r\n"


@given(st.lists(deliveries | lines, max_size=6), st.data())
def test_any_cut_gives_the_same(operations: list[Operation], data: st.DataObject):
    """Nothing is lost, doubled or out of order, wherever the pieces begin and end."""
    stream = b"".join(map(written, operations))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    found: list[Operation] = []
    reader = Parser()
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[start:end])
    assert found == operations
    assert reader.is_empty


@given(st.lists(st.binary(max_size=100), max_size=10))
def test_anything_else_is_refused_or_waits(pieces: list[bytes]):
    """Whatever comes, it is an operation, a part of one, or an error of one kind."""
    reader = Parser()
    try:
        for piece in pieces:
            reader.feed(piece)
    except ProtocolError as error:
        assert str(error).startswith("it sent")  # noqa: PT017 - it may be, and need not


@pytest.mark.parametrize(
    "said",
    [
        b"MSG a 1 5\r\nhello!!\r\n",  # longer than it says
        b"MSG a 1 7\r\nhello\r\nPING\r\n",  # shorter
        b"MSG a 1 -5\r\n",
        b"MSG a x 5\r\n",
        b"MSG a 5\r\n",
        b"MSG\r\n",
        b"MSG a 1 2 3 4 5\r\n",
        b"MSG a 1 99999999999999999999999\r\n",
        b"MSG a 1 " + b"9" * 5000 + b"\r\n",  # more digits than Python reads
        b"HMSG a 1 9 5\r\n",  # headers longer than the whole
        b"HMSG a 1 5\r\n",
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\r\n",
        b"\x16\x03\x01\x00\x05\r\n",
    ],
)
def test_lies_are_errors(said: bytes):
    """Lengths that are wrong, and lines that no server sends."""
    with pytest.raises(ProtocolError, match=r"^it sent "):
        Parser().feed(said)


def test_a_line_has_an_end():
    """What goes on for ever is refused, not kept."""
    reader = Parser()
    for _ in range(parser.LONGEST_LINE // 1000):
        reader.feed(b"I" * 1000)
    with pytest.raises(ProtocolError, match="too long"):
        reader.feed(b"I" * 1000)


def test_a_large_message_is_put_together_once():
    """In how many pieces it comes does not matter: they are not looked at before all are there."""
    size = 16 * 1024 * 1024
    reader = Parser()
    assert reader.feed(b"MSG a 1 %d\r\n" % size) == []
    piece = bytes(1024)
    for _ in range(size // 1024):
        assert reader.feed(piece) == []
    [message] = reader.feed(b"\r\n")
    assert isinstance(message, Delivery)
    assert len(message.data) == size
