"""Callbacks that are begun, and not waited for: all is as if they had been sent by a task."""

import asyncio
import gc
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from msgspec import UNSET, Raw
from msgspec.structs import replace

from duetime.clock import Millis
from duetime.delivery import Courier, connections, headers
from duetime.delivery.connection import Connection
from duetime.delivery.http import HttpSender
from duetime.delivery.schema import compiled
from duetime.delivery.terms import Terms
from duetime.testing import FakeClock
from duetime.timer import Kind, NatsCallback, Outcome, Timer
from tests.delivery.authority import Authority
from tests.delivery.conftest import MakeSender, make_timer, mine
from tests.delivery.faulty import GOOD, FaultyReceiver
from tests.delivery.receiver import Receiver, Request
from tests.delivery.test_faults import AWAITED, DELIVERED, NOT_RETRIED, RETRIED, SOON
from tests.waiting import until

LARGE = Raw(b'"' + b"x" * 3_000_000 + b'"')
SECRETS = (bytes(range(24)), bytes(range(32)))
SPAN = re.compile(rb"(?<=-)[0-9a-f]{16}(?=-01\r\n)")


class Errand:
    """One that a test has; it minds each time that it is told to have ended."""

    def __init__(self, timer: Timer, is_mine: Callable[[], bool] = mine) -> None:
        self.timer = timer
        self.is_mine = is_mine
        self.outcomes: list[Outcome] = []
        self.has_ended = asyncio.Event()

    def ended(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.has_ended.set()


async def begun(sender: HttpSender, timer: Timer) -> Outcome:
    """Begin an attempt, which must be possible, and wait for its end: the only one."""
    errand = Errand(timer)
    assert sender.begin(errand)
    await asyncio.wait_for(errand.has_ended.wait(), 30)
    for _ in range(5):
        await asyncio.sleep(0)
    [outcome] = errand.outcomes
    return outcome


async def sent(sender: HttpSender, timer: Timer) -> Outcome:
    return await sender.send(timer, mine)


class Seen(NamedTuple):
    """All that can be seen of an attempt on a connection that was at rest."""

    outcome: Outcome
    request: bytes
    is_kept: bool
    afterwards: Outcome
    connections: int


def without_span(request: Request) -> bytes:
    return SPAN.sub(b"", request.head) + request.body


async def see(
    attempt: Callable[[HttpSender, Timer], Any],
    sender: HttpSender,
    receiver: Receiver,
    timer: Timer,
) -> Seen:
    before = receiver.connections
    assert (await sender.send(make_timer(receiver.url()), mine)).kind is Kind.OK
    assert len(sender._connections.at_rest) == 1
    sender.target(timer.spec.callback)  # as the engine asks of each: so its URL is known
    receiver.requests.clear()
    outcome = await attempt(sender, timer)
    [request] = receiver.requests
    is_kept = bool(sender._connections.at_rest)
    afterwards = await sender.send(make_timer(receiver.url()), mine)
    await sender.close()
    return Seen(outcome, without_span(request), is_kept, afterwards, receiver.connections - before)


def wire(body: bytes, *fields: bytes) -> str:
    lines = [b"HTTP/1.1 200 OK", *fields, b"Content-Length: %d" % len(body), b"", body]
    return "/say?hex=" + b"\r\n".join(lines).hex()


LOCATION = quote("http://user:secret@b.example/x?token=1")
ATTEMPTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{str(status): (f"/status/{status}", {}) for status in (200, 204, 299, 302, 404, 500, 999)},
    "redirect": (f"/status/307?Location={LOCATION}", {}),
    "retry after": ("/status/503?Retry-After=17", {}),
    "retry at": (f"/status/429?Retry-After={quote('Sun, 15 Jun 2025 16:00:00 GMT')}", {}),
    "no retry": ("/status/404?Retry-After=17", {}),
    "last answer": ("/status/200?Connection=close", {}),
    "hangs": ("/hang", {"timeout": 50}),
    "drips": ("/dripping", {"timeout": 50}),
    "reset": ("/reset", {}),
    "cut": (f"/raw?text={quote('HTTP/1.1 200 OK' + chr(13) + chr(10))}", {}),
    "cut in its body": (wire(b"abc", b"Content-Length: 20"), {"timeout": 50}),
    "closed": ("/raw?text=", {}),
    "no length": (f"/raw?text={quote('HTTP/1.1 200 OK' + 2 * (chr(13) + chr(10)) + 'ok')}", {}),
    "not HTTP": ("/say?text=SSH-2.0", {}),
    "byte by byte": (wire(b"abc") + "&by=1", {"response_bytes": 10}),
    "too long": ("/endless", {}),
    "too long to keep": ("/endless", {"response_bytes": 100}),
    "two answers": ("/say?hex=" + 2 * GOOD.hex(), {}),
    "HEAD": ("/status/200", {"method": "HEAD"}),
    "HEAD that fails": ("/status/500", {"method": "HEAD"}),
    **{method: ("/status/200", {"method": method}) for method in ("GET", "PUT", "DELETE")},
    "kept answer": ("/status/500", {"response_bytes": 1}),
    "kept headers": ("/status/200?Server=s", {"response_headers": ("server", "x-missing")}),
    "followed": (wire(b'{"ok": false, "error": "no"}'), {"follow_response": True}),
    "followed later": (wire(b'{"ok": true, "next": "PT1H"}'), {"follow_response": True}),
    "followed into nothing": (wire(b"{"), {"follow_response": True}),
    "payload": ("/status/200", {"payload": Raw(b'{"a": 1}')}),
    "large payload": ("/status/200", {"payload": LARGE}),
    "large payload that is refused": ("/status/413?Connection=close", {"payload": LARGE}),
    "own headers": ("/status/200", {"headers": {"x-own": "1", "accept": "a/b", "X-TIMER-ID": ""}}),
    "no signature": ("/status/200", {"signatures": ()}),
    "all signatures": ("/status/200", {"signatures": ("webhook", "timer"), "payload": Raw(b"1")}),
    "later attempt": ("/status/200", {"attempt": 7, "occurrence": 3, "correlation_id": "ü\n"}),
}


def test_it_is_a_courier(sender: HttpSender):
    """The engine finds out by this that it may begin callbacks."""
    assert isinstance(sender, Courier)


@pytest.mark.parametrize("name", ATTEMPTS)
async def test_it_is_all_the_same(make_sender: MakeSender, receiver: Receiver, name: str):
    """The outcome, the bytes at the receiver, and what becomes of the connection."""
    path, fields = ATTEMPTS[name]
    timer = make_timer(receiver.url(path), **fields)
    one, other = (make_sender(clock=FakeClock(), secrets=SECRETS) for _ in range(2))
    expected = await see(sent, one, receiver, timer)
    assert await see(begun, other, receiver, timer) == expected
    assert expected.afterwards.kind is Kind.OK


OVER_TLS = ["200", "500", "last answer", "hangs", "reset", "closed", "no length", "not HTTP"]


@pytest.mark.parametrize("name", [*OVER_TLS, "too long", "HEAD", "payload", "large payload"])
async def test_it_is_all_the_same_over_tls(
    make_sender: MakeSender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    """Where connections end and are written to in another way."""
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    path, fields = ATTEMPTS[name]
    async with Receiver(tls=authority.server("127.0.0.1")) as receiver:
        timer = make_timer(receiver.url(path), **fields)
        one, other = (make_sender(clock=FakeClock()) for _ in range(2))
        assert await see(begun, one, receiver, timer) == await see(sent, other, receiver, timer)


@pytest.mark.parametrize("body", [b'{"ok": true}', b'{"ok": 1}', b"{"])
async def test_answers_are_held_to_the_same(
    make_sender: MakeSender, receiver: Receiver, body: bytes
):
    """What a group asks of answers is asked of these."""
    checked = Terms(check=compiled('{"properties": {"ok": {"const": true}}}'))
    timer = make_timer(receiver.url(wire(body)))

    def terms(each: Timer) -> Terms:
        return checked if each is timer else Terms()

    one, other = (make_sender(clock=FakeClock(), terms=terms) for _ in range(2))
    assert await see(begun, one, receiver, timer) == await see(sent, other, receiver, timer)


class GoodAtFirst(FaultyReceiver):
    """Has its fault with the second request."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.fault is not None:
            await self._hear(reader)
            writer.write(GOOD)
        await super()._serve(reader, writer)


@pytest.mark.parametrize("name", [*DELIVERED, *NOT_RETRIED, *RETRIED, *AWAITED])
async def test_fault(make_sender: MakeSender, name: str):
    """Every fault has its kind, its sentence and its consequence, and does not hurt what follows.

    Of a connection that was cut right after an answer nobody can say more than that it was closed.
    """
    row = (DELIVERED | NOT_RETRIED | RETRIED | AWAITED)[name]
    sender, within = make_sender(clock=FakeClock()), SOON if name in AWAITED else 30_000
    async with GoodAtFirst(row.fault) as receiver:
        timer = make_timer(f"http://{receiver.at}/hook", timeout=within)
        assert (await sender.send(timer, mine)).kind is Kind.OK
        outcome = await begun(sender, timer)
        assert (outcome.kind, outcome.status_code) == (row.kind, row.status)
        assert outcome.error == (row.error and row.error.format(at=receiver.at))
        assert outcome.retryable is (name in RETRIED or name in AWAITED)
        assert outcome.latency_ms == 0  # on a clock that stands still
        assert len(receiver.requests) == 2
        assert bool(sender._connections.at_rest) is row.is_kept
        assert (await sender.send(timer, mine)).kind is Kind.OK
        assert receiver.connections == (1 if row.is_kept else 2)


@pytest.mark.parametrize("way", [begun, sent])
async def test_headers_of_what_else_came(
    sender: HttpSender, receiver: Receiver, way: Callable[[HttpSender, Timer], Any]
):
    """What follows an answer that nobody asked for is not taken for a part of it."""
    await rested(sender, receiver.url())
    url = receiver.url(wire(b"", b"Server: a") + wire(b"", b"Server: b").removeprefix("/say?hex="))
    timer = make_timer(url, response_headers=("server",))
    sender.target(timer.spec.callback)
    assert (await way(sender, timer)).response_headers == {"server": "a"}
    assert not sender._connections.at_rest


# What has to be waited for ----------------------------------------------------------------------


async def rested(sender: HttpSender, url: str) -> None:
    assert (await sender.send(make_timer(url), mine)).kind is Kind.OK
    assert sender._connections.at_rest


def refuses(sender: HttpSender, timer: Timer, is_mine: Callable[[], bool] = mine) -> bool:
    """Tell whether nothing was done: no end, and no connection less."""
    errand, at_rest = Errand(timer, is_mine), sender._connections.at_rest
    has_begun = sender.begin(errand)
    assert errand.outcomes == []
    assert sender._connections.at_rest == at_rest
    return not has_begun


async def test_what_must_be_waited_for_is_not_begun(sender: HttpSender, receiver: Receiver):
    """A URL that was never seen, a connection that is to be made, or a credential to be shown."""
    url = receiver.url()
    assert refuses(sender, make_timer(url))
    await rested(sender, url)
    assert refuses(sender, make_timer(receiver.url("/status/201")))  # never seen
    assert refuses(sender, make_timer(url, credential="key"))
    assert sender.begin(Errand(make_timer(url)))
    assert refuses(sender, make_timer(url))  # the one connection is in use
    assert len(receiver.requests) == 1


async def test_what_is_no_http_is_not_begun(sender: HttpSender, receiver: Receiver):
    """It is not its business."""
    timer = make_timer(receiver.url())
    spec = replace(timer.spec, callback=NatsCallback(topic="a"))
    assert refuses(sender, replace(timer, spec=spec))


async def test_name_that_has_to_be_looked_up_again(make_sender: MakeSender, receiver: Receiver):
    """Its address is remembered for a while only."""
    clock = FakeClock()
    sender = make_sender(clock=clock, lookup=lambda _: ["127.0.0.1"])
    url = receiver.url(host="named.example")
    await rested(sender, url)
    assert await begun(sender, make_timer(url)) == await sent(sender, make_timer(url))
    sender._resolver._answers["named.example"].until = clock.monotonic()
    assert refuses(sender, make_timer(url))


async def test_receiver_that_may_not_be_called(make_sender: MakeSender, receiver: Receiver):
    """The addresses that a name has by now are judged first, and those that cannot be are not."""
    addresses = ["127.0.0.1"]
    sender = make_sender(lookup=lambda _: list(addresses))
    url = receiver.url(host="named.example")
    await rested(sender, url)
    for addresses[:] in (["10.0.0.1"], ["no address"]):
        sender._resolver._answers.clear()
        await sender._resolver.resolve("named.example", 10)
        assert refuses(sender, make_timer(url))
        assert (await sender.send(make_timer(url), mine)).kind is not Kind.OK
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("value", ["a\r\nb: c", "ü"])
async def test_headers_that_cannot_be_written(sender: HttpSender, receiver: Receiver, value: str):
    """Whoever sends it says what is wrong; the connection is kept."""
    await rested(sender, receiver.url())
    timer = make_timer(receiver.url(), headers={"x-a": value})
    assert refuses(sender, timer)
    assert (await sender.send(timer, mine)).error is not None
    assert len(receiver.requests) == receiver.connections == 1


async def test_what_cannot_be_signed_is_not_begun(make_sender: MakeSender, receiver: Receiver):
    """Likewise."""
    terms = [Terms(), Terms(unsignable="no secret")]
    sender = make_sender(terms=lambda _: terms[0])
    await rested(sender, receiver.url())
    terms.reverse()
    assert refuses(sender, make_timer(receiver.url()))
    outcome = await sender.send(make_timer(receiver.url()), mine)
    assert outcome.kind is Kind.SIGNING


async def test_claim_that_cannot_be_asked_for(sender: HttpSender, receiver: Receiver):
    """What goes wrong there is for whoever sends it; nothing is raised."""
    await rested(sender, receiver.url())

    def break_down() -> bool:
        raise RuntimeError("a bug")

    assert refuses(sender, make_timer(receiver.url()), break_down)
    assert len(receiver.requests) == 1


async def test_closed_sender_begins_nothing(sender: HttpSender, receiver: Receiver):
    """Nor a second time."""
    await rested(sender, receiver.url())
    await sender.close()
    assert not sender.begin(Errand(make_timer(receiver.url())))
    assert len(receiver.requests) == 1


async def test_what_is_not_ours_any_more_is_not_sent(sender: HttpSender, receiver: Receiver):
    """It is unsent, and its connection serves the next one."""
    await rested(sender, receiver.url())
    errand = Errand(make_timer(receiver.url()), lambda: False)
    assert sender.begin(errand)
    assert [outcome.kind for outcome in errand.outcomes] == [Kind.UNSENT]
    assert errand.outcomes == [await sender.send(errand.timer, errand.is_mine)]
    assert (await begun(sender, make_timer(receiver.url()))).kind is Kind.OK
    assert (len(receiver.requests), receiver.connections) == (2, 1)


async def test_connection_that_was_not_used_goes_on_resting(
    make_sender: MakeSender, receiver: Receiver
):
    """Its receiver, who saw nothing of it, may be about to close it."""
    clock = FakeClock()
    sender = make_sender(clock=clock)
    await rested(sender, receiver.url())
    for way in ("begin", "send", "begin"):
        clock.advance(round(400 * connections.IDLE))
        timer = make_timer(receiver.url())
        if way == "send":
            await sender.send(timer, lambda: False)
        else:
            sender.begin(Errand(timer, lambda: False))
    assert refuses_after_all(sender, make_timer(receiver.url()))
    assert len(receiver.requests) == 1


def refuses_after_all(sender: HttpSender, timer: Timer) -> bool:
    return not sender.begin(Errand(timer)) and not sender._connections.at_rest


# The ends ---------------------------------------------------------------------------------------


async def test_closing_ends_what_was_begun(sender: HttpSender, receiver: Receiver):
    """Each is lost, as one that is sent is, and once: nobody knows what became of it."""
    await asyncio.gather(*(sender.send(make_timer(receiver.url()), mine) for _ in range(3)))
    sender.target(make_timer(receiver.url("/hang")).spec.callback)
    count = len(sender._connections.at_rest)
    assert count > 1
    errands = [Errand(make_timer(receiver.url("/hang"), timeout=600_000)) for _ in range(count)]
    assert all(sender.begin(errand) for errand in errands)
    await sender.close()
    assert all(errand.has_ended.is_set() for errand in errands)
    await asyncio.wait_for(receiver.gone.wait(), 10)
    await until(lambda: not sender._connections._open)
    for errand in errands:
        [outcome] = errand.outcomes
        assert outcome.kind is Kind.LOST
        assert outcome.error == "this node stopped before the answer came"
        assert outcome.latency_ms is not None


async def test_the_next_one_is_begun_as_one_ends(sender: HttpSender, receiver: Receiver):
    """On the same connection, from within: the answers are not mixed up."""
    await rested(sender, receiver.url())
    statuses = [200, 404, 204, 500, 201]
    for status in statuses:
        await sender.send(make_timer(receiver.url(f"/status/{status}")), mine)
    outcomes: list[Outcome] = []
    over = asyncio.Event()

    class Chain(Errand):
        def ended(self, outcome: Outcome) -> None:
            outcomes.append(outcome)
            if len(outcomes) == 50:
                over.set()
            else:
                start(len(outcomes))

    def start(number: int) -> None:
        url = receiver.url(f"/status/{statuses[number % len(statuses)]}")
        assert sender.begin(Chain(make_timer(url)))

    start(0)
    await asyncio.wait_for(over.wait(), 30)
    assert [outcome.status_code for outcome in outcomes] == statuses * 10
    assert receiver.connections == 1


async def test_answer_before_the_request_is_out(sender: HttpSender):
    """It counts, once; but the next request does not queue up behind the rest of that one."""
    made: list[asyncio.StreamWriter] = []

    async def hurry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.append(writer)
        for _ in range(2 if len(made) == 1 else 1):  # the second is read no further than that
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await over.wait()
        writer.transport.abort()

    over = asyncio.Event()
    async with await asyncio.start_server(hurry, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        await rested(sender, url)
        large = Raw(b'"' + b"x" * 8_000_000 + b'"')
        outcome = await begun(sender, make_timer(url, payload=large, timeout=10_000))
        assert outcome.kind is Kind.OK
        assert not sender._connections.at_rest
        assert (await sender.send(make_timer(url), mine)).kind is Kind.OK
        over.set()
        await until(lambda: all(writer.is_closing() for writer in made))
    assert len(made) == 2


async def test_what_comes_after_an_answer_ends_the_connection(sender: HttpSender):
    """Nobody asked for it: the next attempt has another connection, and its own answer."""
    made: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(GOOD)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        await rested(sender, url)
        assert (await begun(sender, make_timer(url))).kind is Kind.OK
        made[0].write(GOOD.replace(b"200", b"500"))
        await until(lambda: not sender._connections.at_rest)
        assert not sender.begin(Errand(make_timer(url)))
        assert (await sender.send(make_timer(url), mine)).status_code == 200
        await sender.close()
        await until(lambda: all(writer.is_closing() for writer in made))
    assert len(made) == 2


async def test_connection_that_closes_as_it_is_used(sender: HttpSender, receiver: Receiver):
    """The end is told at once, and the next attempt has another connection."""
    await rested(sender, receiver.url())
    [connection] = sender._connections._at_rest
    connection._transport.abort()
    errand = Errand(make_timer(receiver.url()))
    assert sender.begin(errand)
    [outcome] = errand.outcomes
    assert (outcome.kind, outcome.retryable) == (Kind.NETWORK, True)
    assert (await sender.send(make_timer(receiver.url()), mine)).kind is Kind.OK
    assert len(errand.outcomes) == 1


@pytest.mark.parametrize("way", [begun, sent])
async def test_receiver_that_cuts_connections(
    sender: HttpSender, receiver: Receiver, way: Callable[[HttpSender, Timer], Any]
):
    """One that closed a connection without a word has a new one for each request for a while."""
    await rested(sender, receiver.url())
    timer = make_timer(receiver.url("/reset"))
    sender.target(timer.spec.callback)
    assert (await way(sender, timer)).kind is Kind.NETWORK
    assert (await sender.send(make_timer(receiver.url()), mine)).kind is Kind.OK
    assert not sender._connections.at_rest


async def test_connection_at_rest_keeps_no_answer(sender: HttpSender, receiver: Receiver):
    """What was wanted of one is given away, and not held until the next comes."""
    await rested(sender, receiver.url())
    outcome = await begun(sender, make_timer(receiver.url(), response_bytes=10))
    assert outcome.response == "ok"
    [connection] = sender._connections._at_rest
    answers = connection._answers
    assert (answers.answer, answers._excerpt, connection._on_end) == (None, None, None)


@pytest.mark.parametrize("way", [begun, sent])
async def test_request_that_cannot_be_written(
    sender: HttpSender,
    receiver: Receiver,
    way: Callable[[HttpSender, Timer], Any],
    monkeypatch: pytest.MonkeyPatch,
):
    """The attempt has an outcome, whatever it was, and its connection is not used again."""
    await rested(sender, receiver.url())

    def break_down(*_: object) -> bool:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "_write", break_down)
        outcome = await way(sender, make_timer(receiver.url()))
    assert (outcome.kind, outcome.error) == (Kind.NETWORK, "cannot send: a bug")
    assert outcome.retryable
    assert not sender._connections.at_rest
    assert (await sender.send(make_timer(receiver.url()), mine)).kind is Kind.OK


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["/status/200", "/status/500", "/reset", "/hang", "/say?text=no", "/raw?text=", "mine"]
)
async def test_nothing_is_kept_of_an_attempt(sender: HttpSender, receiver: Receiver, path: str):
    """However it ended, its payload and its connection do not wait for a collection."""
    payload = Raw(b'{"much": "of it"}')
    is_mine = path != "mine"
    url = receiver.url(path if is_mine else "/status/200")
    references = sys.getrefcount(payload)
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            sender._connections._cutting.clear()  # or none would be at rest after the first
            await rested(sender, receiver.url())
            errand = Errand(make_timer(url, payload=payload, timeout=100), lambda: is_mine)
            sender.target(errand.timer.spec.callback)
            assert sender.begin(errand)
            await asyncio.wait_for(errand.has_ended.wait(), 30)
            del errand
        await until(lambda: sys.getrefcount(payload) == references)
        await sender.close()
        await until(
            lambda: not any(issubclass(type(kept), Connection) for kept in gc.get_objects())
        )
    finally:
        gc.enable()


# The head ---------------------------------------------------------------------------------------

NOW: Millis = 1_750_000_000_123


@pytest.mark.parametrize("own", [UNSET, {}, {"accept": "a/b", "x-own": "1", "content-type": "c"}])
@pytest.mark.parametrize("payload", [UNSET, Raw(b""), Raw(b'{"a": 1}')])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_head_is_the_same_at_once_and_one_by_one(own: Any, payload: Any, method: str):
    """Byte for byte, but for the span, whatever there is to be said."""
    wanted = [(), ("webhook",), ("timer",), ("webhook", "timer"), ("timer", "webhook")]
    for signatures, secrets, occurrence in product(wanted, [(), SECRETS[:1], SECRETS], [1, 2]):
        fields = {} if own is UNSET else {"headers": own}
        timer = make_timer(
            "https://a.example/x?y",
            method=method,
            payload=payload,
            signatures=signatures,
            occurrence=occurrence,
            attempt=12,
            correlation_id="grüße",
            **fields,
        )
        callback = timer.spec.callback
        at_once = headers.head(timer, callback, NOW, secrets, path="/x?y", host="a.example:81")
        one_by_one = headers.written(
            method, "/x?y", "a.example:81", headers.build(timer, callback, NOW, secrets)
        )
        assert SPAN.search(at_once)
        assert SPAN.sub(b"", at_once) == SPAN.sub(b"", one_by_one)
        assert at_once.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("place", ["path", "host"])
@pytest.mark.parametrize("value", ["/a\r\nb: c", "/a\nb", "/a\rb", "/ü"])
def test_head_has_no_line_too_many(place: str, value: str):
    """What could be read as another header, or a second request, is not written."""
    timer = make_timer("https://a.example/")
    where = {"path": "/", "host": "a.example", place: value}
    with pytest.raises(ValueError, match=r"more than one line|ascii"):
        headers.head(timer, timer.spec.callback, NOW, (), **where)
