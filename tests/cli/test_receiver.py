"""The receiver: correct HTTP/1.1 on a real socket, and what it tells of each callback."""

import asyncio
import gc
import json
import signal
import socket
from contextlib import suppress

import pytest

from duetime.cli.arrival import Arrival
from duetime.cli.output import Screen
from duetime.cli.receiver import running_receiver
from duetime.cli.receiver_command import as_line, printing
from duetime.testing import FakeClock

NOW = 1_750_000_000_000  # 2025-06-15T15:06:40Z
ANSWER = b"HTTP/1.1 200 Received\r\nContent-Length: 0\r\n\r\n"


async def talk(port: int, *pieces: bytes, answer: bytes) -> None:
    """Send the pieces one by one, and expect exactly this answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        async with asyncio.timeout(5):
            assert await reader.readexactly(len(answer)) == answer
            if b"Connection: close" in answer:
                assert await reader.read() == b""
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.fixture
async def receiver():
    arrivals: list[Arrival] = []
    async with running_receiver("127.0.0.1", 0, arrivals.append, clock=FakeClock(NOW)) as port:
        yield port, arrivals


async def test_a_callback_is_answered_and_told_of(receiver):
    """With its method, path, headers and body."""
    port, arrivals = receiver
    request = (
        b"POST /a?b=1 HTTP/1.1\r\nHost: x\r\nX-Timer-Attempt: 2\r\nContent-Length: 2\r\n\r\n{}"
    )
    await talk(port, request, answer=ANSWER)
    (arrival,) = arrivals
    assert arrival[:3] == (NOW, "POST", "/a?b=1")
    assert (arrival.attempt, arrival.body) == ("2", b"{}")


async def test_a_request_may_come_in_any_pieces(receiver):
    """Byte by byte is the same request."""
    port, arrivals = receiver
    request = b"PUT /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    await talk(port, *(bytes([byte]) for byte in request), answer=ANSWER)
    assert arrivals[0].body == b"abc"


async def test_a_chunked_body_is_put_together(receiver):
    """Chunks are no part of the body."""
    port, arrivals = receiver
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    await talk(port, head, b"3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n", answer=ANSWER)
    assert arrivals[0].body == b"abcde"


async def test_a_connection_is_kept_and_requests_may_be_sent_ahead(receiver):
    """Two requests in one write get two answers, in order."""
    port, arrivals = receiver
    one = b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\n"
    await talk(port, one + one.replace(b"/1 ", b"/2 "), answer=ANSWER * 2)
    assert [arrival.path for arrival in arrivals] == ["/1", "/2"]


async def test_a_sender_that_expects_a_continue_gets_it(receiver):
    """A sender that asks first is told to go on before its body is sent."""
    port, arrivals = receiver
    head = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    await talk(port, head, b"hi", answer=b"HTTP/1.1 100 Continue\r\n\r\n" + ANSWER)
    assert arrivals[0].body == b"hi"


@pytest.mark.parametrize("version", [b"HTTP/1.1\r\nConnection: close", b"HTTP/1.0"])
async def test_a_connection_is_closed_where_that_was_asked_for(version, receiver):
    """HTTP/1.0 and `Connection: close` close a connection after the answer."""
    port, _ = receiver
    answer = ANSWER[:-2] + b"Connection: close\r\n\r\n"
    await talk(port, b"GET / " + version + b"\r\nHost: x\r\n\r\n", answer=answer)


async def test_what_is_no_http_is_refused(receiver):
    """With 400, after what was sent before it, and the connection is closed."""
    port, arrivals = receiver
    refusal = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    good = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    await talk(port, good + b"hello\r\n\r\n" + good, answer=ANSWER + refusal)
    assert len(arrivals) == 1


async def test_it_stops_while_senders_are_connected():
    """Idle connections and answers under way do not hold it up."""
    seen = asyncio.Event()
    async with asyncio.timeout(5):
        async with running_receiver("127.0.0.1", 0, lambda _: seen.set(), delay=60_000) as port:
            _, idle = await asyncio.open_connection("127.0.0.1", port)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await seen.wait()
        assert await reader.read() == b""
    for each in (idle, writer):
        each.close()


@pytest.mark.parametrize("passes", range(8))
async def test_it_stops_while_a_sender_connects(passes):
    """However far that has come: the sender is told, and nothing is left open."""
    with socket.socket() as sender:
        async with running_receiver("127.0.0.1", 0, lambda _: None) as port:
            sender.connect(("127.0.0.1", port))
            for _ in range(passes):  # of the event loop
                await asyncio.sleep(0)
        sender.setblocking(False)
        async with asyncio.timeout(5):
            with suppress(ConnectionResetError):  # told all the same
                assert await asyncio.get_running_loop().sock_recv(sender, 1) == b""
    gc.collect()  # pytest fails a test that leaves a socket to it


def an_arrival(body=b"", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Arrival(NOW, "POST", "/hook", named, body)


@pytest.mark.parametrize(
    ("due", "lateness"),
    [
        ("2025-06-15T15:06:39.988Z", 12),
        ("2025-06-15T17:06:40+02:00", 0),
        (str(NOW - 5), 5),
        ("yesterday", None),
        ("", None),
    ],
)
def test_lateness_is_measured_from_the_due_time(due, lateness):
    """In milliseconds; unknown where the header is missing or wrong."""
    assert an_arrival(x_timer_due=due).lateness == lateness


def test_a_line_tells_what_matters():
    """When, what, which attempt, how late, and the body, shortened and harmless."""
    arrival = an_arrival(
        b'{"a":"\x1b"}' + b"x" * 200, x_timer_due=str(NOW - 3), x_timer_attempt="2"
    )
    line = as_line(Screen(), arrival)
    start = (
        '2025-06-15T15:06:40Z  POST  /hook  attempt 2  +3 ms  {"a":"\N{REPLACEMENT CHARACTER}"}x'
    )
    assert line.startswith(start)
    assert line.endswith("…")
    assert len(line) < 200


async def test_the_command_prints_json_and_stops_cleanly(spawn):
    """As a process: one line per callback, and Ctrl-C ends it without a word."""
    process = spawn("receiver", "--port", "0", "--status", "503")
    head = await asyncio.to_thread(process.stdout.readline)
    port = int(head.rpartition(":")[2])
    request = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\n[1, 2]\n"
    await talk(port, request, answer=b"HTTP/1.1 503 ")
    line = await asyncio.to_thread(process.stdout.readline)
    assert "POST  /x  [1, 2]" in line
    process.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(process.communicate, timeout=10) == ("", "")
    assert process.returncode == 0


def test_a_port_that_is_taken_is_told(run, taken_port):
    """A port that is taken is told of in one sentence, and it exits with 2."""
    ended = run("receiver", "--port", str(taken_port))
    assert ended.code == 2
    assert f"cannot listen on 127.0.0.1:{taken_port}: " in ended.err


@pytest.fixture
def taken_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_json_lines_carry_everything(capsys):
    """Headers too, and a JSON body as JSON."""
    printing(Screen(), as_json=True)(an_arrival(b'{"a": 1}', x_timer_due=str(NOW - 1)))
    told = json.loads(capsys.readouterr().out)
    assert (told["lateness_ms"], told["body"]) == (1, {"a": 1})
    assert told["headers"] == {"x-timer-due": str(NOW - 1)}


async def test_it_ends_when_nobody_reads_what_it_prints(spawn):
    """`duetime receiver | head` answers what came, and ends without a traceback."""
    process = spawn("receiver", "--port", "0")
    head = await asyncio.to_thread(process.stdout.readline)
    process.stdout.close()
    port = int(head.rpartition(":")[2])
    await talk(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", answer=ANSWER)
    assert await asyncio.to_thread(process.wait, 10) == 141
    assert process.stderr.read() == ""
