"""Connections: used again where possible, given up where not, and never more than needed."""

import asyncio
import socket
import threading

import pytest

from duetime.delivery.http import HttpSender
from duetime.model import Kind
from tests.delivery.conftest import MakeSender, make_timer, mine
from tests.delivery.receiver import Receiver


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


async def test_concurrent_attempts_share_one_client(sender: HttpSender, receiver: Receiver):
    """Many first attempts at once make one client between them, and no more connections."""
    sends = [sender.send(make_timer(receiver.url()), mine) for _ in range(20)]
    outcomes = await asyncio.gather(*sends)
    assert {outcome.kind for outcome in outcomes} == {Kind.OK}
    assert len(sender._clients._clients) == 1
    assert receiver.connections <= 20


async def test_endless_answer(sender: HttpSender, receiver: Receiver):
    """Of a long answer only the beginning is read; its status counts, and the rest is refused."""
    outcome = await sender.send(make_timer(receiver.url("/endless")), mine)
    assert (outcome.kind, outcome.status_code) == (Kind.OK, 200)
    await asyncio.wait_for(receiver.gone.wait(), 10)
    assert receiver.sent < 32 * 1024 * 1024  # what the socket's buffers hold, no more


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
    """Cancellation is not swallowed; what is on the wire ends with its timeout at the latest."""
    timer = make_timer(receiver.url("/hang"), timeout=400)
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
    timer = make_timer(receiver.url("/hang"), timeout=400)
    attempt = asyncio.create_task(sender.send(timer, mine))
    await asyncio.wait_for(receiver.arrived.wait(), 10)
    await sender.close()
    outcome = await attempt
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


async def test_clients_are_bounded(make_sender: MakeSender, receiver: Receiver):
    """The least recently used client goes; those in use stay."""
    sender = make_sender(most_clients=2, most_receivers=2, lookup=lambda _: ["127.0.0.1"])
    for host in ("a.example", "b.example", "a.example", "c.example", "a.example"):
        outcome = await sender.send(make_timer(receiver.url(host=host)), mine)
        assert outcome.kind is Kind.OK
    assert {key[0] for key in sender._clients._clients} == {
        f"http://a.example:{receiver.port}",
        f"http://c.example:{receiver.port}",
    }
    assert receiver.connections == 3
    assert len(sender._receivers) == 2


async def test_evicted_client_finishes_its_request(make_sender: MakeSender, receiver: Receiver):
    """A request under way on a client that goes is not cut short."""
    sender = make_sender(most_clients=1, lookup=lambda _: ["127.0.0.1"])
    timer = make_timer(receiver.url("/hang", host="a.example"), timeout=400)
    attempt = asyncio.create_task(sender.send(timer, mine))
    await asyncio.wait_for(receiver.arrived.wait(), 10)
    await sender.send(make_timer(receiver.url(host="b.example")), mine)
    assert (await attempt).error == "no answer within 400ms"


async def test_connecting_takes_too_long(make_sender: MakeSender):
    """An address that swallows connections gives way to the next one, nothing having been sent."""
    async with Receiver(host="127.0.0.2") as alive:
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


async def test_timeout_covers_the_name_lookup(make_sender: MakeSender):
    """The callback's timeout runs from the look-up on."""
    release = threading.Event()
    try:
        sender = make_sender(lookup=lambda _: release.wait(10) and ["127.0.0.1"])
        outcome = await sender.send(make_timer("http://slow.example/", timeout=50), mine)
    finally:
        release.set()
    assert (outcome.kind, outcome.retryable) == (Kind.DNS, True)
    assert outcome.error == "cannot resolve host slow.example: no answer within 50ms"
