"""The API on a socket: what reaches the server before, or instead of, the app."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from duetime.api import server as servers
from duetime.api.server import MOST_HEADER_BYTES, MOST_HEADERS, ApiServer, listen
from duetime.stores.memory import MemoryStore
from tests.api.client import KEY, timer_body
from tests.api.conftest import MakeApi
from tests.waiting import until

AUTH = f"X-API-Key: {KEY}\r\n".encode()
BODY = json.dumps(timer_body()).encode()

Exchange = Callable[..., Awaitable[list[tuple[int, dict[str, str], bytes]]]]
Drip = Callable[[bytes, bytes], Awaitable[bytes]]


Running = tuple[ApiServer, tuple[str, int]]


@pytest.fixture
async def running(make_api: MakeApi) -> AsyncIterator[Running]:
    """A server, and where it listens."""
    listener = listen("127.0.0.1", 0)
    server = ApiServer(make_api(MemoryStore(), max_body=4096).app, drain_for=1)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await server.is_listening.wait()
    yield server, listener.getsockname()
    server.should_exit = True
    await serving


@pytest.fixture
def exchange(running: Running) -> Exchange:
    """Sends bytes to a server, and gives the answers that come back on that connection."""
    _, address = running

    async def send(data: bytes, answers: int = 1, method: str = "") -> list[Any]:
        reader, writer = await asyncio.open_connection(*address)
        try:
            async with asyncio.timeout(10):
                writer.write(data)
                return [await _answer(reader, method) for _ in range(answers)]
        finally:
            writer.close()
            await writer.wait_closed()

    return send


async def _all_of(reader: asyncio.StreamReader) -> bytes:
    """What comes until the end, which may be a rude one for who is still writing."""
    came = b""
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(4096):
            came += piece
    return came


async def _answer(reader: asyncio.StreamReader, method: str) -> tuple[int, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(head[0].split()[1])
    headers = {
        name.lower(): value
        for name, _, value in (line.partition(": ") for line in head[1:] if line)
    }
    length = 0 if method == "HEAD" or status == 100 else int(headers["content-length"])
    return status, headers, await reader.readexactly(length)


def request(line: str, *headers: bytes, body: bytes = b"") -> bytes:
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    fields = b"".join(header + b"\r\n" for header in headers)
    return (
        line.encode("latin-1")
        + b" HTTP/1.1\r\nHost: x\r\n"
        + AUTH
        + fields
        + length
        + b"\r\n"
        + body
    )


async def test_create_and_list(exchange: Exchange):
    """Requests follow one another on one connection, also without waiting for the answers."""
    both = request("POST /timers", body=BODY) + request("GET /timers")
    created, listed = await exchange(both, answers=2)
    assert created[0] == 201
    assert created[1]["etag"] == '"1"'
    assert json.loads(listed[2])["data"]["total"] == 1


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # somebody speaks TLS
        b"GET /timers HTTP/9.9\r\n\r\n",
        b"GET /timers HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
        b"POST /timers HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        b"POST /timers HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /timers HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 400 + b"\r\n\r\n",
        b"POST /timers HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        request("GET /timers", *(b"X-%d: 1" % n for n in range(MOST_HEADERS + 1))),
        request("GET /timers", b"X: " + b"x" * (MOST_HEADER_BYTES + 1)),
        request("GET /timers?tag=" + "x" * (MOST_HEADER_BYTES + 1)),
    ],
)
async def test_not_http(exchange: Exchange, data: bytes):
    """What is no HTTP, or too much of it, is 400 in the envelope, and the connection ends."""
    [(status, headers, body)] = await exchange(data)
    assert status == 400
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    envelope = json.loads(body)
    assert (envelope["code"], envelope["data"]) == (2, None)
    assert envelope["message"]


@pytest.fixture
def drip(monkeypatch: pytest.MonkeyPatch, running: Running) -> Drip:
    """Sends bytes to a server that has little patience, then others again and again to its end."""
    monkeypatch.setattr(servers, "LONGEST_HEAD", 0.5)
    _, address = running

    async def send(first: bytes, again: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(first)
        answer = asyncio.create_task(_all_of(reader))
        async with asyncio.timeout(10):
            while not answer.done():
                writer.write(again)
                await asyncio.sleep(0.01)
        writer.close()
        return await answer

    return send


@pytest.mark.parametrize("first", [b"", request("GET /healthz")], ids=["first", "second"])
async def test_headers_that_never_end(drip: Drip, first: bytes):
    """A request whose headers only drip in is given up, be it the first or a later one."""
    answer = await drip(first + b"GET /healthz HTTP/1.1\r\nX: ", b"x")
    head, _, body = answer.rpartition(b"\r\n\r\n")
    assert head.split(b"HTTP/1.1 ")[-1].startswith(b"400 ")
    assert "did not arrive within" in json.loads(body)["message"]
    assert head.count(b"HTTP/1.1 200") == bool(first)


@pytest.mark.parametrize("again", [b"", b"\r\n"], ids=["silence", "empty lines"])
async def test_connection_on_which_no_request_comes(drip: Drip, again: bytes):
    """It is closed without a word."""
    assert await drip(b"", again) == b""


async def test_body_that_nobody_reads(drip: Drip):
    """What drips in after its request was answered does not hold the connection."""
    unread = request("POST /nowhere", b"Content-Length: 1000000")
    answer = await drip(unread, b"x")
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert answer.count(b"HTTP/1.1 ") == 1


async def test_time_for_headers_ends_with_them(running: Running):
    """Who has sent them is waited for by the app alone, and has as long as it gives."""
    server, address = running
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request("POST /timers", b"Content-Length: %d" % len(BODY)))
    await until(lambda: server.server_state.tasks, "the request to be begun")
    assert [connection._alarm for connection in server.server_state.connections] == [None]
    writer.write(BODY)
    assert (await _answer(reader, ""))[0] == 201
    assert [connection._alarm for connection in server.server_state.connections] == [None]
    writer.close()


async def test_chunked(exchange: Exchange):
    """A body in chunks is a body."""
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (BODY[:7], BODY[7:]))
    data = request("POST /timers", b"Transfer-Encoding: chunked") + chunks + b"0\r\n\r\n"
    [(status, _, _)] = await exchange(data)
    assert status == 201


@pytest.mark.parametrize("announced", [True, False])
async def test_too_large(exchange: Exchange, *, announced: bool):
    """A body over the limit is 413, announced or not, and the connection ends."""
    if announced:
        data = request("POST /timers", b"Content-Length: 4097")
    else:
        chunk = b"800\r\n" + b" " * 2048 + b"\r\n"
        data = request("POST /timers", b"Transfer-Encoding: chunked") + chunk * 3
    [(status, headers, body)] = await exchange(data)
    assert (status, json.loads(body)["code"]) == (413, 8)
    assert headers["connection"] == "close"


async def test_expect(exchange: Exchange):
    """A client that asks first whether to send its body is told to go on."""
    data = request("POST /timers", b"Expect: 100-continue", body=BODY)
    answers = await exchange(data, answers=2)
    assert [status for status, _, _ in answers] == [100, 201]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/groups/default/timers/%FF", 400),
        ("/groups/default/timers/a%0A", 400),
        ("/groups/default/timers/a%00", 400),
        ("/groups/default/timers/%E6%97%A5", 404),
        ("/groups/default/timers/a%2Fb", 404),
        ("/groups/default/timers/%", 404),
        ("/timers?tag=%FF", 400),
        ("/timers?tag=a;b", 200),
        ("/timers#fragment", 200),
        ("http://x/timers", 200),
        ("/%74imers", 200),
        ("/timers/../timers", 404),
    ],
)
async def test_paths(exchange: Exchange, path: str, status: int):
    """Odd paths are answered in the envelope."""
    [answer] = await exchange(request(f"GET {path}"))
    assert answer[0] == status, answer
    assert answer[1]["content-type"] == "application/json"
    json.loads(answer[2])


async def test_head(exchange: Exchange):
    """HEAD on the description is answered without a body."""
    [(status, headers, _)] = await exchange(request("HEAD /openapi.json"), method="HEAD")
    assert (status, headers["content-type"]) == (200, "application/json")


async def test_upgrade_is_ignored(exchange: Exchange):
    """Who asks for a WebSocket gets the answer of the API."""
    data = request("GET /timers", b"Connection: Upgrade", b"Upgrade: websocket")
    [(status, _, _)] = await exchange(data)
    assert status == 200


async def test_server_does_not_say_what_it_is(exchange: Exchange):
    """The answer does not name the server's software."""
    [(_, headers, _)] = await exchange(request("GET /healthz"))
    assert "server" not in headers
