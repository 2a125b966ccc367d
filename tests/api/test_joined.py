"""Joined writes: an answer leaves in one piece, and what has no body does not wait for one."""

import asyncio

import pytest

from duetime.api.joined import _LARGE, JoinedWrites

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Wire:
    """A transport that keeps what is written, piece by piece."""

    def __init__(self) -> None:
        self.pieces = []
        self.is_closed = False

    def write(self, data):
        assert not self.is_closed
        self.pieces.append(data)

    def close(self):
        self.is_closed = True

    abort = close

    def is_closing(self):
        return self.is_closed

    def get_extra_info(self, name):
        return f"the {name}"


@pytest.fixture
def wire():
    return Wire()


@pytest.fixture
async def joined(wire):
    return JoinedWrites(wire, asyncio.get_running_loop())


async def test_a_head_leaves_with_its_body(joined, wire):
    """One write for both, at once."""
    joined.write(HEAD)
    joined.write(b"{}")
    assert wire.pieces == [HEAD + b"{}"]
    await asyncio.sleep(0)
    assert len(wire.pieces) == 1


async def test_what_comes_after_that_is_written_as_it_comes(joined, wire):
    """As the parts of an answer that goes on and on."""
    for part in (HEAD, b"one", b"two", b"three"):
        joined.write(part)
    assert wire.pieces == [HEAD + b"one", b"two", b"three"]


async def test_a_large_body_is_not_copied(joined, wire):
    """It leaves behind its head."""
    body = bytes(_LARGE)
    joined.write(HEAD)
    joined.write(body)
    assert wire.pieces[0] == HEAD
    assert wire.pieces[1] is body


async def test_a_head_alone_leaves_in_the_next_turn(joined, wire):
    """Such as that of a stream in which nothing has happened yet."""
    joined.write(HEAD)
    assert wire.pieces == []
    await asyncio.sleep(0)
    assert wire.pieces == [HEAD]
    joined.write(b"later")
    assert wire.pieces == [HEAD, b"later"]


async def test_a_close_writes_what_waits(joined, wire):
    """Before it closes; an abort does not, and nothing is written after it."""
    joined.write(HEAD)
    joined.close()
    assert (wire.pieces, wire.is_closed) == ([HEAD], True)


async def test_nothing_is_written_after_an_abort(joined, wire):
    """The head that waited is gone with the connection."""
    joined.write(HEAD)
    joined.abort()
    await asyncio.sleep(0)
    assert wire.pieces == []


async def test_all_else_is_the_transports(joined):
    """The server asks it for the peer, and pauses it."""
    assert joined.get_extra_info("peername") == "the peername"
