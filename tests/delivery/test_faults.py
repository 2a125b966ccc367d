"""Every fault that a receiver can have: the kind, the sentence, whether it is tried again, and
that neither memory nor time nor the next attempt suffers from it.
"""

import asyncio
import socket
import threading
import tracemalloc
from typing import NamedTuple

import pytest

from duetime.delivery.http import HttpSender
from duetime.timer import Kind, Outcome
from tests.delivery.conftest import MakeSender, make_timer, mine
from tests.delivery.faulty import GOOD, Fault, FaultyReceiver

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
MEBIBYTE = bytes(1024 * 1024)

BROKE_OFF = "the answer of {at} broke off: the connection was "
NO_HTTP = "the answer of {at} is not valid HTTP: "
SOON = 400  # milliseconds: the timeout where there is nothing but to wait for it


class Row(NamedTuple):
    """A fault, and what comes of it."""

    fault: Fault
    kind: Kind
    error: str | None
    status: int | None = None
    is_kept: bool = False  # the connection, for the next request


def status(number: int, error: str | None, *, is_final: bool = True) -> Row:
    """An answer with a status, and nothing wrong but that."""
    length = b"" if number in {204, 304} else b"Content-Length: 0\r\n"
    says = b"HTTP/1.1 %03d \r\n%s\r\n" % (number, length)
    return Row(Fault(says), Kind.HTTP if error else Kind.OK, error, number, is_final)


NOT_RETRIED = {
    "101": Row(
        Fault(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n\0"),
        Kind.HTTP,
        "HTTP 101 Switching Protocols",
        101,
    ),
    "300": status(300, "HTTP 300 Multiple Choices"),
    "301": status(301, "HTTP 301 Moved Permanently"),
    "302": status(302, "HTTP 302 Found"),
    "304": status(304, "HTTP 304 Not Modified"),
    "307": status(307, "HTTP 307 Temporary Redirect"),
    "400": status(400, "HTTP 400 Bad Request"),
    "401": status(401, "HTTP 401 Unauthorized"),
    "404": status(404, "HTTP 404 Not Found"),
    "409": status(409, "HTTP 409 Conflict"),
    "410": status(410, "HTTP 410 Gone"),
    "418": status(418, "HTTP 418 I'm a Teapot"),
    "451": status(451, "HTTP 451 Unavailable For Legal Reasons"),
    "499": status(499, "HTTP 499"),
}
DELIVERED = {
    "200": status(200, None),
    "201": status(201, None),
    "202": status(202, None),
    "204": status(204, None),
    "206": status(206, None),
    "299": status(299, None),
    "100, then 200": Row(Fault(b"HTTP/1.1 100 Continue\r\n\r\n" + GOOD), Kind.OK, None, 200, True),
    "103, then 200": Row(Fault(INTERIM + GOOD), Kind.OK, None, 200, True),
    # The status has come and nothing is awaited of the body: what is wrong with it is no matter.
    "100 MB": Row(
        Fault(OK + b"Content-Length: 104857600\r\n\r\n", "flood", MEBIBYTE), Kind.OK, None, 200
    ),
    "endless chunks": Row(
        Fault(CHUNKED, "flood", b"100000\r\n" + MEBIBYTE + b"\r\n"), Kind.OK, None, 200
    ),
    "endless body without a length": Row(
        Fault(OK + b"\r\n", "flood", MEBIBYTE), Kind.OK, None, 200
    ),
    "garbage in chunks": Row(Fault(CHUNKED + b"zz\r\nabc"), Kind.OK, None, 200),
    "a length that is too short": Row(
        Fault(OK + b"Content-Length: 2\r\n\r\nmore than that"), Kind.OK, None, 200
    ),
    "two answers": Row(Fault(GOOD + GOOD), Kind.OK, None, 200),
}
RETRIED = {
    "000": status(0, "HTTP 000, which is no status"),
    "408": status(408, "HTTP 408 Request Timeout"),
    "425": status(425, "HTTP 425 Too Early"),
    "429": status(429, "HTTP 429 Too Many Requests"),
    "500": status(500, "HTTP 500 Internal Server Error"),
    "501": status(501, "HTTP 501 Not Implemented"),
    "502": status(502, "HTTP 502 Bad Gateway"),
    "503": status(503, "HTTP 503 Service Unavailable"),
    "504": status(504, "HTTP 504 Gateway Timeout"),
    "599": status(599, "HTTP 599"),
    "600": status(600, "HTTP 600, which is no status"),
    "999": status(999, "HTTP 999, which is no status"),
    "closes without an answer": Row(
        Fault(then="close"), Kind.NETWORK, "no answer from {at}: the connection was closed"
    ),
    "resets before the answer": Row(
        Fault(then="reset"), Kind.NETWORK, "no answer from {at}: the connection was reset"
    ),
    "resets in mid-headers": Row(Fault(OK + b"X-A: ", "reset"), Kind.NETWORK, BROKE_OFF + "reset"),
    "closes in mid-headers": Row(Fault(OK + b"X-A: ", "close"), Kind.NETWORK, BROKE_OFF + "closed"),
    "resets in mid-body": Row(
        Fault(OK + b"Content-Length: 20\r\n\r\nshort", "reset"), Kind.NETWORK, BROKE_OFF + "reset"
    ),
    "a length that is too long": Row(
        Fault(OK + b"Content-Length: 20\r\n\r\nshort", "close"), Kind.NETWORK, BROKE_OFF + "closed"
    ),
    "closes between chunks": Row(
        Fault(CHUNKED + b"3\r\nabc\r\n", "close"), Kind.NETWORK, BROKE_OFF + "closed"
    ),
    "a length below zero": Row(
        Fault(OK + b"Content-Length: -1\r\n\r\n"),
        Kind.NETWORK,
        NO_HTTP + "Invalid character in Content-Length",
    ),
    "a length beyond all bounds": Row(
        Fault(OK + b"Content-Length: 99999999999999999999\r\n\r\n"),
        Kind.NETWORK,
        NO_HTTP + "Content-Length overflow",
    ),
    "two lengths": Row(
        Fault(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        Kind.NETWORK,
        NO_HTTP + "Duplicate Content-Length",
    ),
    "another protocol": Row(
        Fault(b"SSH-2.0-OpenSSH_9.9\r\n"), Kind.NETWORK, NO_HTTP + "it does not begin with HTTP/"
    ),
    "status that is no number": Row(
        Fault(b"HTTP/1.1 20x OK\r\n\r\n"), Kind.NETWORK, NO_HTTP + "Invalid status code"
    ),
    "another version of HTTP": Row(
        Fault(b"HTTP/9.9 200 OK\r\n\r\n"), Kind.NETWORK, NO_HTTP + "Invalid HTTP version"
    ),
    "a header without a name": Row(
        Fault(OK + b"X: 1\r\n: 2\r\n\r\n"), Kind.NETWORK, NO_HTTP + "Invalid header token"
    ),
    "endless headers": Row(
        Fault(OK, "flood", b"X-Filler: " + b"x" * 1000 + b"\r\n"),
        Kind.NETWORK,
        NO_HTTP + "its headers do not end",
    ),
    "one endless header": Row(
        Fault(OK + b"X-A: ", "flood", b"x" * 10_000),
        Kind.NETWORK,
        NO_HTTP + "its headers do not end",
    ),
    "endless interim answers": Row(
        Fault(INTERIM, "flood", INTERIM), Kind.NETWORK, NO_HTTP + "its headers do not end"
    ),
}
AWAITED = {
    "hangs before headers": Row(Fault(then="hang"), Kind.TIMEOUT, "no answer within 400ms"),
    "hangs in mid-headers": Row(
        Fault(OK + b"X-A: ", "hang"), Kind.TIMEOUT, "the answer did not end within 400ms"
    ),
    "hangs in mid-body": Row(
        Fault(OK + b"Content-Length: 20\r\n\r\nshort", "hang"),
        Kind.TIMEOUT,
        "the answer did not end within 400ms",
    ),
    "100, and nothing more": Row(
        Fault(b"HTTP/1.1 100 Continue\r\n\r\n", "hang"),
        Kind.TIMEOUT,
        "the answer did not end within 400ms",
    ),
    "drips headers": Row(
        Fault(OK + b"X-A: ", "drip"), Kind.TIMEOUT, "the answer did not end within 400ms"
    ),
    "drips a body": Row(
        Fault(CHUNKED, "drip", b"1\r\nx\r\n"), Kind.TIMEOUT, "the answer did not end within 400ms"
    ),
    "drips interim answers": Row(
        Fault(INTERIM, "drip", INTERIM), Kind.TIMEOUT, "the answer did not end within 400ms"
    ),
}
FLOODS = {
    name: row
    for rows in (DELIVERED, RETRIED)
    for name, row in rows.items()
    if row.fault.then == "flood"
}


async def attempt(sender: HttpSender, receiver: FaultyReceiver, within: int = 30_000) -> Outcome:
    timer = make_timer(f"http://{receiver.at}/hook", timeout=within)
    outcome = await sender.send(timer, mine)
    assert outcome.latency_ms is not None
    return outcome


@pytest.mark.parametrize("name", [*DELIVERED, *NOT_RETRIED, *RETRIED])
async def test_fault(sender: HttpSender, name: str):
    """It has its kind, its sentence and its consequence, and the next request is not hurt."""
    row = (DELIVERED | NOT_RETRIED | RETRIED)[name]
    async with FaultyReceiver(row.fault) as receiver:
        outcome = await attempt(sender, receiver)
        assert (outcome.kind, outcome.status_code) == (row.kind, row.status)
        assert outcome.error == (row.error and row.error.format(at=receiver.at))
        assert outcome.retryable is (name in RETRIED)
        assert len(receiver.requests) == row.fault.hears  # and not sent a second time
        outcome = await attempt(sender, receiver)
        assert (outcome.kind, outcome.status_code) == (Kind.OK, 200)
        assert receiver.connections == (1 if row.is_kept else 2)


@pytest.mark.parametrize("name", AWAITED)
async def test_fault_that_is_waited_for(sender: HttpSender, name: str):
    """It costs the timeout as a whole and no more, however often a byte comes."""
    row = AWAITED[name]
    async with FaultyReceiver(row.fault) as receiver:
        outcome = await attempt(sender, receiver, within=SOON)
        assert (outcome.kind, outcome.error, outcome.retryable) == (row.kind, row.error, True)
        await asyncio.wait_for(receiver.gone.wait(), 30)  # the connection is not kept
        assert (await attempt(sender, receiver)).kind is Kind.OK


@pytest.mark.promise("bounded-memory")
@pytest.mark.parametrize("name", FLOODS)
async def test_flood_is_not_kept(sender: HttpSender, name: str):
    """Of an answer without an end, a few hundred kilobytes are in memory at most, and then none."""
    async with FaultyReceiver(FLOODS[name].fault) as receiver:
        tracemalloc.start()
        try:
            await attempt(sender, receiver)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        await asyncio.wait_for(receiver.gone.wait(), 30)
        # The receiver's own buffer and its next piece are in this process, too.
        assert peak < 4 * len(MEBIBYTE)
        assert receiver.flooded < 64 * len(MEBIBYTE)  # what the buffers of the system hold
        assert sender._connections.at_rest == []


async def test_closes_when_it_is_called(sender: HttpSender):
    """Who closes before the request has come may reset it thereby; nothing came in either case."""
    async with FaultyReceiver(Fault(then="close", hears=False)) as receiver:
        outcome = await attempt(sender, receiver)
        how = f"no answer from {receiver.at}: the connection was "
        assert outcome.error in {f"{how}closed", f"{how}reset"}
        assert (outcome.kind, outcome.retryable) == (Kind.NETWORK, True)
        assert (await attempt(sender, receiver)).kind is Kind.OK


async def test_refused(sender: HttpSender):
    """A closed port is named with its address."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{unused.getsockname()[1]}"
        outcome = await sender.send(make_timer(f"http://{at}/"), mine)
    assert (outcome.kind, outcome.retryable) == (Kind.NETWORK, True)
    assert outcome.error == f"connection refused by {at}"


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (socket.EAI_NONAME, "Name or service not known"),
        (socket.EAI_AGAIN, "Temporary failure in name resolution"),
        (socket.EAI_FAIL, "Non-recoverable failure in name resolution"),
    ],
    ids=["unknown", "failing", "broken"],
)
async def test_no_name(make_sender: MakeSender, number: int, reason: str):
    """A name without an address is named, with what DNS says of it, and tried again."""

    def lookup(host: str) -> list[str]:
        raise socket.gaierror(number, reason)

    outcome = await make_sender(lookup=lookup).send(make_timer("http://nope.invalid/"), mine)
    assert (outcome.kind, outcome.retryable) == (Kind.DNS, True)
    assert outcome.error == f"cannot resolve host nope.invalid: {reason}"


async def test_no_answer_of_dns(make_sender: MakeSender):
    """Name servers that hang cost the callback's timeout, and no more."""
    release = threading.Event()
    try:
        sender = make_sender(lookup=lambda _: release.wait(10) and ["127.0.0.1"])
        outcome = await sender.send(make_timer("http://slow.example/", timeout=50), mine)
    finally:
        release.set()
    assert (outcome.kind, outcome.retryable) == (Kind.DNS, True)
    assert outcome.error == "cannot resolve host slow.example: no answer within 50ms"


async def test_tls_where_plain_http_was_meant(sender: HttpSender):
    """The sentence says what to change in the URL."""
    alert = Fault(b"\x15\x03\x01\x00\x02\x02\x16", "close")
    async with FaultyReceiver(alert) as receiver:
        outcome = await attempt(sender, receiver)
        problem = "it is TLS; the URL may have to begin with https"
        assert outcome.error == f"the answer of {receiver.at} is not valid HTTP: {problem}"
        assert (outcome.kind, outcome.retryable) == (Kind.NETWORK, True)
