"""Connections: used again where possible, given up where not, and never more than needed."""

import asyncio
import gc
import socket
import sys
import threading
from urllib.parse import quote

import pytest
from msgspec import Raw
from pyreqwest.http import Url

from duetime.clock import SystemClock
from duetime.delivery import connections
from duetime.delivery.connection import Connection
from duetime.delivery.http import HttpSender
from duetime.delivery.receiver import Receiver as Origin
from duetime.timer import Kind
from tests.delivery.conftest import MakeSender, make_timer, mine
from tests.delivery.receiver import Receiver
from tests.ports import free_port
from tests.waiting import until


async def test_connection_is_used_again(sender: HttpSender, receiver: Receiver):
    """Attempts one after the other share a connection, whatever their path and outcome."""
    for status in (200, 500, 404, 204, 302) * 4:
        await sender.send(make_timer(receiver.url(f"/status/{status}?x={status}")), mine)
    assert len(receiver.requests) == 20
    assert receiver.connections == 1


async def test_connection_is_used_again_after_head(sender: HttpSender, receiver: Receiver):
    """An answer that has a length and no body does not confuse the next one."""
    for method in ("HEAD", "GET", "HEAD", "POST"):
        outcome = await sender.send(make_timer(receiver.url(), method=method), mine)
        assert outcome.kind is Kind.OK
    assert receiver.connections == 1


async def test_timeout_is_each_attempts_own(sender: HttpSender, receiver: Receiver):
    """Attempts that share a connection do not share timeouts, be the next one shorter or longer."""
    patient = make_timer(receiver.url(), timeout=600_000)
    assert (await sender.send(patient, mine)).kind is Kind.OK
    hanging = make_timer(receiver.url("/hang"), timeout=50)
    assert (await sender.send(hanging, mine)).kind is Kind.TIMEOUT
    assert receiver.connections == 1
    hasty = make_timer(receiver.url(), timeout=100)
    await sender.send(hasty, mine)
    slow = make_timer(receiver.url("/later?after=0.2"), timeout=600_000)
    assert (await sender.send(slow, mine)).kind is Kind.OK


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/status/200", "/status/500", "/reset", "/hang", "/say?text=no"])
async def test_nothing_is_kept_of_an_attempt(sender: HttpSender, receiver: Receiver, path: str):
    """However it ended, its payload and its connection do not wait for a collection."""
    payload = Raw(b'{"much": "of it"}')
    references = sys.getrefcount(payload)
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            timer = make_timer(receiver.url(path), payload=payload, timeout=100)
            await sender.send(timer, mine)
            del timer
        await until(lambda: sys.getrefcount(payload) == references)
        await sender.close()
        # By its type: others leave proxies of what is gone, which cannot be asked for their class.
        await until(
            lambda: not any(issubclass(type(kept), Connection) for kept in gc.get_objects())
        )
    finally:
        gc.enable()


async def test_nothing_is_kept_of_an_attempt_that_was_refused(sender: HttpSender):
    """Nor if there never was a connection."""
    payload = Raw(b'{"much": "of it"}')
    references = sys.getrefcount(payload)
    gc.collect()
    gc.disable()
    try:
        url = f"http://127.0.0.1:{free_port()}/"
        outcome = await sender.send(make_timer(url, payload=payload), mine)
        assert outcome.kind is Kind.NETWORK
        await until(lambda: sys.getrefcount(payload) == references)
    finally:
        gc.enable()


async def test_concurrent_attempts(sender: HttpSender, receiver: Receiver):
    """Attempts at once have a connection each, which later ones use again."""
    for _ in range(2):
        sends = [sender.send(make_timer(receiver.url()), mine) for _ in range(20)]
        outcomes = await asyncio.gather(*sends)
        assert {outcome.kind for outcome in outcomes} == {Kind.OK}
    assert receiver.connections == 20


async def test_nothing_is_unpacked(sender: HttpSender, receiver: Receiver):
    """A compressed answer is not asked for, and not unpacked: no small one becomes a large one."""
    outcome = await sender.send(make_timer(receiver.url("/status/200?Content-Encoding=gzip")), mine)
    assert outcome.kind is Kind.OK  # though "ok" is not gzip
    assert "accept-encoding" not in receiver.requests[0].headers


async def test_no_cookies(sender: HttpSender, receiver: Receiver):
    """Attempts do not remember what earlier ones were told."""
    for _ in range(2):
        await sender.send(make_timer(receiver.url("/status/200?Set-Cookie=a=b")), mine)
    assert "cookie" not in receiver.requests[1].headers


async def test_cancelled_attempt(sender: HttpSender, receiver: Receiver):
    """Cancellation is not swallowed, and the receiver sees at once that nobody waits any more."""
    timer = make_timer(receiver.url("/hang"), timeout=600_000)
    attempt = asyncio.create_task(sender.send(timer, mine))
    await asyncio.wait_for(receiver.arrived.wait(), 10)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    await asyncio.wait_for(receiver.gone.wait(), 10)


async def test_attempt_cancelled_in_the_name_lookup(make_sender: MakeSender, receiver: Receiver):
    """An attempt that is cancelled before it was handed over sends nothing."""
    asked, release = threading.Event(), threading.Event()

    def lookup(_: str) -> list[str]:
        asked.set()
        release.wait(10)
        return ["127.0.0.1"]

    sender = make_sender(lookup=lookup)
    timer = make_timer(receiver.url(host="slow.example"))
    attempt = asyncio.create_task(sender.send(timer, mine))
    await asyncio.to_thread(asked.wait, 10)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    release.set()
    assert (await sender.send(timer, mine)).kind is Kind.OK
    assert len(receiver.requests) == 1


async def test_closing_ends_what_is_under_way(sender: HttpSender, receiver: Receiver):
    """An attempt that the node's end cuts short is lost: nobody knows what became of it."""
    timer = make_timer(receiver.url("/hang"), timeout=600_000)
    attempt = asyncio.create_task(sender.send(timer, mine))
    await asyncio.wait_for(receiver.arrived.wait(), 10)
    await sender.close()
    outcome = await attempt
    await asyncio.wait_for(receiver.gone.wait(), 10)
    assert (outcome.kind, outcome.error) == (Kind.LOST, "this node stopped before the answer came")


async def test_closing_while_a_name_is_looked_up(make_sender: MakeSender, receiver: Receiver):
    """An attempt that had not got as far as sending is not counted as a failure."""
    asked, release = threading.Event(), threading.Event()

    def lookup(_: str) -> list[str]:
        asked.set()
        release.wait(10)
        raise OSError("interrupted")

    sender = make_sender(lookup=lookup)
    attempt = asyncio.create_task(sender.send(make_timer("http://slow.example/"), mine))
    await asyncio.to_thread(asked.wait, 10)
    await sender.close()
    release.set()
    assert (await attempt).kind is Kind.UNSENT


async def test_closed_sender_sends_nothing(sender: HttpSender, receiver: Receiver):
    """After closing, which may happen twice, nothing leaves."""
    await sender.close()
    await sender.close()
    outcome = await sender.send(make_timer(receiver.url()), mine)
    assert outcome.kind is Kind.UNSENT
    outcome = await sender.send(make_timer("http://named.example/"), mine)
    assert outcome.kind is Kind.UNSENT
    assert receiver.connections == 0


@pytest.mark.promise("bounded-memory")
async def test_connections_at_rest_are_bounded(make_sender: MakeSender, receiver: Receiver):
    """So many connections are kept at rest, and the one that has rested longest goes."""
    sender = make_sender(most_at_rest=2, most_receivers=2, lookup=lambda _: ["127.0.0.1"])
    for host in ("a.example", "b.example", "a.example", "c.example", "a.example"):
        outcome = await sender.send(make_timer(receiver.url(host=host)), mine)
        assert outcome.kind is Kind.OK
    assert [origin for origin, _ in sender._connections.at_rest] == [
        f"http://c.example:{receiver.port}",
        f"http://a.example:{receiver.port}",
    ]
    assert receiver.connections == 3
    await asyncio.wait_for(receiver.gone.wait(), 10)
    assert len(sender._receivers) == 2


async def test_connections_do_not_rest_for_long(
    make_sender: MakeSender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    """They are closed from this side before the receiver does it, in the middle of a request."""
    monkeypatch.setattr(connections, "IDLE", 0.02)
    sender = make_sender()
    await sender.send(make_timer(receiver.url()), mine)
    await asyncio.wait_for(receiver.gone.wait(), 10)
    assert sender._connections.at_rest == []
    await sender.send(make_timer(receiver.url()), mine)
    assert receiver.connections == 2


async def test_connection_that_rested_too_long_is_not_used(
    sender: HttpSender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    """Not even if the process was paused, and the sweep with it."""
    await sender.send(make_timer(receiver.url()), mine)
    monkeypatch.setattr(connections, "IDLE", 0.0)
    assert (await sender.send(make_timer(receiver.url()), mine)).kind is Kind.OK
    assert receiver.connections == 2


async def test_receiver_closes_a_connection_at_rest(sender: HttpSender, receiver: Receiver):
    """The next attempt has a new one, and does not fail for it."""
    farewell = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    for count in (1, 2):
        outcome = await sender.send(make_timer(receiver.url(f"/raw?text={quote(farewell)}")), mine)
        assert outcome.kind is Kind.OK
        await until(lambda: not sender._connections.at_rest)
        assert receiver.connections == count


async def test_dead_connection_is_not_used(sender: HttpSender, receiver: Receiver):
    """One whose end was announced is not used again, though it is not gone yet."""
    await sender.send(make_timer(receiver.url()), mine)
    [connection] = sender._connections._at_rest
    connection.eof_received()
    assert (await sender.send(make_timer(receiver.url()), mine)).kind is Kind.OK
    assert receiver.connections == 2


async def test_receiver_that_closes_without_saying_so(sender: HttpSender, receiver: Receiver):
    """One that closes after each answer has a connection for each, and no request is lost."""
    farewell = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    url = receiver.url(f"/raw?text={quote(farewell)}")
    for _ in range(30):
        assert (await sender.send(make_timer(url), mine)).kind is Kind.OK
    assert receiver.connections == 30


async def test_nothing_is_kept_after_the_end(receiver: Receiver):
    """A connection that is given back after all were closed is closed too."""
    kept = connections.Connections(SystemClock(), most_at_rest=10, read_at_most=1000)
    connection = await kept.open(Origin(Url(receiver.url())), "127.0.0.1", 5)
    await asyncio.sleep(0)
    late = await kept.open(Origin(Url(receiver.url())), "127.0.0.1", 5)
    kept.close()
    kept.give_back(connection)
    kept.give_back(late)
    assert kept.at_rest == []
    await until(lambda: not kept._open)


LARGE = Raw(b'"' + b"x" * 8_000_000 + b'"')


async def test_answer_to_a_request_that_is_not_read(sender: HttpSender):
    """A receiver may refuse a large request by its head, and close its side of the connection."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\n\r\nno")
        writer.write_eof()
        await over.wait()
        writer.close()

    over = asyncio.Event()
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        outcome = await sender.send(make_timer(url, payload=LARGE, timeout=10_000), mine)
        over.set()
    assert (outcome.kind, outcome.status_code) == (Kind.HTTP, 413)


async def test_answer_before_the_request_is_out(sender: HttpSender):
    """It counts; but the next request does not queue up behind the rest of that one."""
    made = []

    async def hurry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await over.wait()
        writer.close()

    over = asyncio.Event()
    async with await asyncio.start_server(hurry, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        for payload in (LARGE, Raw(b"1")):
            outcome = await sender.send(make_timer(url, payload=payload, timeout=10_000), mine)
            assert outcome.kind is Kind.OK
        over.set()
    assert len(made) == 2


async def test_large_request(sender: HttpSender, receiver: Receiver):
    """It arrives whole, and its connection is used again."""
    for _ in range(2):
        outcome = await sender.send(make_timer(receiver.url(), payload=LARGE), mine)
        assert outcome.kind is Kind.OK
    assert receiver.requests[1].body == bytes(LARGE)
    assert receiver.connections == 1


async def test_connecting_takes_too_long(make_sender: MakeSender):
    """An address that swallows connections gives way to the next one, nothing having been sent."""
    async with Receiver(host="127.0.0.2", port=free_port()) as alive:
        with socket.socket() as full:
            full.bind(("127.0.0.1", alive.port))
            full.listen(0)
            clogs = [socket.socket() for _ in range(4)]
            for clog in clogs:
                clog.setblocking(False)
                clog.connect_ex(full.getsockname())
            sender = make_sender(lookup=lambda _: ["127.0.0.1"], connect_timeout=50)
            outcome = await sender.send(make_timer(alive.url(host="full.example")), mine)
            assert (outcome.kind, outcome.retryable) == (Kind.TIMEOUT, True)
            assert outcome.error == f"no connection to 127.0.0.1:{alive.port} within 50ms"
            sender = make_sender(lookup=lambda _: ["127.0.0.1", "127.0.0.2"], connect_timeout=50)
            outcome = await sender.send(make_timer(alive.url(host="full.example")), mine)
            assert outcome.kind is Kind.OK
            for clog in clogs:
                clog.close()
