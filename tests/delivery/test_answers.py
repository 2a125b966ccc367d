"""Answers as receivers write them, in all the forms that HTTP has, and in none of them."""

import asyncio
import contextlib
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyreqwest.http import Url

from duetime.clock import SystemClock
from duetime.delivery.answers import NoAnswer
from duetime.delivery.connections import Connections
from duetime.delivery.http import HttpSender
from duetime.delivery.receiver import Receiver as Origin
from duetime.timer import Kind, Outcome
from tests.delivery.conftest import MakeSender, make_timer, mine
from tests.delivery.receiver import Receiver
from tests.waiting import until

OK = "HTTP/1.1 200 OK\r\n"
EMPTY = f"{OK}Content-Length: 0\r\n\r\n"
CHUNKED = f"{OK}Transfer-Encoding: chunked\r\n\r\n"


async def answered(sender: HttpSender, receiver: Receiver, text: str, how: str = "say") -> Outcome:
    timer = make_timer(receiver.url(f"/{how}?text={quote(text)}"), timeout=2000)
    return await sender.send(timer, mine)


WHOLE = {
    "with a length": f"{OK}Content-Length: 3\r\n\r\nabc",
    "empty": EMPTY,
    "in chunks": f"{CHUNKED}3\r\nabc\r\n1;ext=1\r\nd\r\n0\r\n\r\n",
    "in chunks, with a trailer": f"{CHUNKED}1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n",
    "without a reason": "HTTP/1.1 200 \r\ncontent-length:0\r\n\r\n",
    "after 100": f"HTTP/1.1 100 Continue\r\n\r\n{EMPTY}",
    "after 103, twice": "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 2 + EMPTY,
    "with nothing": "HTTP/1.1 204 No Content\r\n\r\n",
    "with bytes in a header": f"{OK}X-Name: bücher\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("by", [1, 7, 10_000])
@pytest.mark.parametrize("text", WHOLE.values(), ids=list(WHOLE))
async def test_whole_answer(sender: HttpSender, receiver: Receiver, text: str, by: int):
    """However it is cut into pieces, it is understood, and its connection is used again."""
    for _ in range(2):
        query = f"by={by}&text={quote(text)}"
        outcome = await sender.send(make_timer(receiver.url(f"/say?{query}")), mine)
        assert outcome.kind is Kind.OK
    assert receiver.connections == 1


@pytest.mark.parametrize(
    "text",
    [
        f"{OK}Connection: close\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        f"{EMPTY}{EMPTY}",
        f"{EMPTY}x",
        f"{OK}Content-Length: 5000\r\n\r\n" + "x" * 3000,
    ],
    ids=["close", "1.0", "two answers", "and more", "too long"],
)
async def test_last_answer_of_a_connection(make_sender: MakeSender, receiver: Receiver, text: str):
    """It counts; but what comes on the connection after it cannot be trusted."""
    sender = make_sender(read_at_most=1000)
    for count in (1, 2):
        outcome = await answered(sender, receiver, text)
        assert (outcome.kind, outcome.status_code) == (Kind.OK, 200)
        assert receiver.connections == count


@pytest.mark.parametrize(
    "text",
    [
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        f"{OK}Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        f"{CHUNKED}zz\r\nabc",
        f"{OK}X-Odd: \x01\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["lines", "two lengths", "chunk", "header"],
)
async def test_answer_that_is_badly_written(sender: HttpSender, receiver: Receiver, text: str):
    """The receiver has done its work, and said so: that is not held against it."""
    outcome = await answered(sender, receiver, text)
    assert (outcome.kind, outcome.status_code) == (Kind.OK, 200)


async def test_answer_until_the_end_of_the_connection(sender: HttpSender, receiver: Receiver):
    """One without a length ends with the connection."""
    outcome = await answered(sender, receiver, f"{OK}\r\nall of it", how="raw")
    assert (outcome.kind, outcome.status_code) == (Kind.OK, 200)


async def test_something_that_nobody_asked_for(sender: HttpSender, receiver: Receiver):
    """What comes on a connection at rest is not taken for the next answer."""
    late = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(EMPTY.encode())
        await late.wait()
        writer.write(b"HTTP/1.1 500 Forged\r\nContent-Length: 0\r\n\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        for _ in range(2):
            late.clear()
            assert (await sender.send(make_timer(url), mine)).kind is Kind.OK
            late.set()
            await until(lambda: not sender._connections.at_rest)


@pytest.mark.parametrize("text", [f"{OK}X: " + "x" * 3000, "HTTP/1.1 102 Wait\r\n\r\n" * 200])
async def test_headers_that_do_not_end(make_sender: MakeSender, receiver: Receiver, text: str):
    """They are read up to the limit, and no more is kept."""
    sender = make_sender(read_at_most=1000)
    outcome = await answered(sender, receiver, text)
    assert outcome.kind is Kind.NETWORK
    at = f"127.0.0.1:{receiver.port}"
    assert outcome.error == f"the answer of {at} is not valid HTTP: its headers do not end"


_PIECES = (
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 100 x\r\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"\r\n",
    b"abc",
    b"3\r\nabc\r\n",
    b"0\r\n\r\n",
    b"\n",
    b"\0",
)
_WIRE = st.binary(max_size=300) | st.lists(st.sampled_from(_PIECES), max_size=12).map(b"".join)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(wire=_WIRE, head=st.booleans(), cuts=st.integers(1, 40), keep=st.sampled_from([0, 5]))
def test_whatever_comes(wire: bytes, cuts: int, keep: int, *, head: bool):
    """Whatever bytes a receiver sends, there is an outcome, and nothing stays open behind it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for start in range(0, len(wire), cuts):
            writer.write(wire[start : start + cuts])
            await asyncio.sleep(0)
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            origin = Origin(Url(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"))
            connections = Connections(SystemClock(), most_at_rest=10, read_at_most=200)
            connection = await connections.open(origin, "127.0.0.1", 5)
            with contextlib.suppress(NoAnswer):
                response = await connection.exchange(
                    b"GET / HTTP/1.1\r\n\r\n", b"", 5, is_head=head, keep=keep
                )
                assert 100 <= response.status <= 999
                assert (response.excerpt is not None) is (keep > 0)
            connections.give_back(connection)
            connections.close()
            await until(lambda: not connections._open)

    asyncio.run(main())
