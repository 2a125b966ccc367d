"""What each answer, and each lack of one, means: the kind, the sentence, and whether to retry."""

import logging
import socket
import time
from email.utils import formatdate
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from duetime.delivery.http import HttpSender
from duetime.delivery.outcomes import LONGEST_WAIT, retry_at
from duetime.testing import FakeClock
from duetime.timer import Kind, NatsCallback, Outcome, Spec
from tests.delivery.conftest import MakeSender, make_timer, mine
from tests.delivery.receiver import Receiver

NOW = 1_750_000_000_000


async def outcome_of(sender: HttpSender, url: str, **callback) -> Outcome:
    outcome = await sender.send(make_timer(url, **callback), mine)
    assert outcome.latency_ms is not None
    assert 0 <= outcome.latency_ms < 5000
    return outcome


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_success(sender: HttpSender, receiver: Receiver, status: int):
    """Every 2xx is success."""
    outcome = await outcome_of(sender, receiver.url(f"/status/{status}"))
    assert (outcome.kind, outcome.status_code, outcome.error) == (Kind.OK, status, None)


@pytest.mark.parametrize(
    ("status", "error", "retryable"),
    [
        (500, "HTTP 500 Internal Server Error", True),
        (502, "HTTP 502 Bad Gateway", True),
        (503, "HTTP 503 Service Unavailable", True),
        (599, "HTTP 599", True),
        (408, "HTTP 408 Request Timeout", True),
        (425, "HTTP 425 Too Early", True),
        (429, "HTTP 429 Too Many Requests", True),
        (400, "HTTP 400 Bad Request", False),
        (401, "HTTP 401 Unauthorized", False),
        (404, "HTTP 404 Not Found", False),
        (410, "HTTP 410 Gone", False),
        (499, "HTTP 499", False),
        (304, "HTTP 304 Not Modified", False),
        (302, "HTTP 302 Found", False),
    ],
)
async def test_status(
    sender: HttpSender, receiver: Receiver, status: int, error: str, *, retryable: bool
):
    """An answer that is not 2xx is named; the server's own and the passing ones are retried."""
    outcome = await outcome_of(sender, receiver.url(f"/status/{status}"))
    assert outcome.kind is Kind.HTTP
    assert (outcome.status_code, outcome.error) == (status, error)
    assert outcome.retryable is retryable
    assert outcome.retry_at is None


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("https://other.example/a?token=s3cret#x", " to https://other.example/a"),
        ("/elsewhere", " to http://127.0.0.1:{port}/elsewhere"),
        ("https://me:s3cret@other.example/", " to https://other.example/"),
        ("http://[broken", ""),
        ("https://other.example/" + "x" * 300, " to https://other.example/" + "x" * 178 + "..."),
    ],
)
async def test_redirect(sender: HttpSender, receiver: Receiver, location: str, words: str):
    """A redirect is not followed, and the sentence says where it led, without any secret."""
    outcome = await outcome_of(sender, receiver.url(f"/status/302?Location={quote(location)}"))
    where = words.format(port=receiver.port)
    assert outcome.error == f"redirect{where} was not followed (HTTP 302)"
    assert not outcome.retryable
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("header", "millis"),
    [
        ("5", 5000),
        (" 120 ", 120_000),
        ("0", None),
        ("99999999999999999999", LONGEST_WAIT),
        (formatdate(NOW / 1000 + 90, usegmt=True), 90_000),
        (formatdate(NOW / 1000 - 90, usegmt=True), None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_WAIT),
        ("Sun, 15 Jun 2025 15:06:41 -0000", 1000),
        ("Sun, 99 Jun 2025 15:06:41 GMT", None),
        ("1.5", None),
        ("-5", None),
        ("soon", None),
        ("", None),
        ("\u0665", None),
    ],
)
def test_retry_after(header: str, millis: int | None):
    """Retry-After is obeyed in both of its forms, within reason."""
    assert retry_at(header, NOW) == (None if millis is None else NOW + millis)


def test_retry_after_does_not_depend_on_the_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch):
    """A date is in UTC wherever the server stands."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert retry_at("Sun, 15 Jun 2025 15:06:41 -0000", NOW) == NOW + 1000
        assert retry_at("Sun, 15 Jun 2025 15:06:41 GMT", NOW) == NOW + 1000
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(("status", "millis"), [(429, 7000), (503, 7000), (404, None)])
async def test_retry_after_of_an_answer(
    make_sender: MakeSender, receiver: Receiver, status: int, millis: int | None
):
    """A receiver that may be tried again says when."""
    url = receiver.url(f"/status/{status}?Retry-After=7")
    outcome = await outcome_of(make_sender(clock=FakeClock(NOW)), url)
    assert outcome.retry_at == (None if millis is None else NOW + millis)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/reset", "no answer from {at}: the connection was closed"),
        ("/raw", "no answer from {at}: the connection was closed"),
        (
            "/raw?text=lol%20what%0D%0A%0D%0A",
            "the answer of {at} is not valid HTTP: Expected HTTP/, RTSP/ or ICE/",
        ),
        (
            "/raw?text=HTTP/1.1%20200%20OK%0D%0AContent-Length:%2020%0D%0A%0D%0Ashort",
            "the answer of {at} broke off: the connection was closed",
        ),
    ],
    ids=["reset", "closed", "garbage", "truncated"],
)
async def test_broken_answer(sender: HttpSender, receiver: Receiver, path: str, error: str):
    """An answer that breaks is a network error that says how, and the attempt is not repeated."""
    outcome = await outcome_of(sender, receiver.url(path))
    assert outcome.kind is Kind.NETWORK
    assert outcome.error == error.format(at=f"127.0.0.1:{receiver.port}")
    assert outcome.retryable
    assert len(receiver.requests) == 1


async def test_connection_refused(sender: HttpSender):
    """A closed port is named with its address."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{unused.getsockname()[1]}"
        outcome = await outcome_of(sender, f"http://{at}/")
    assert (outcome.kind, outcome.retryable) == (Kind.NETWORK, True)
    assert outcome.error == f"connection refused by {at}"


async def test_no_route(make_sender: MakeSender):
    """What else keeps a connection from being made is said in the system's words."""
    outcome = await outcome_of(make_sender("255.255.255.255"), "http://255.255.255.255:9/")
    assert (outcome.kind, outcome.retryable) == (Kind.NETWORK, True)
    assert outcome.error is not None
    assert outcome.error.startswith("cannot connect to 255.255.255.255:9: ")
    assert "os error" not in outcome.error


async def test_no_answer_in_time(sender: HttpSender, receiver: Receiver):
    """A receiver that says nothing is given up after the timeout."""
    outcome = await outcome_of(sender, receiver.url("/hang"), timeout=50)
    assert (outcome.kind, outcome.retryable) == (Kind.TIMEOUT, True)
    assert outcome.error == "no answer within 50ms"
    assert len(receiver.requests) == 1


async def test_dripping_answer(sender: HttpSender, receiver: Receiver):
    """An answer that never ends costs no more than the timeout."""
    outcome = await outcome_of(sender, receiver.url("/dripping"), timeout=100)
    assert (outcome.kind, outcome.error) == (Kind.TIMEOUT, "the answer did not end within 100ms")


async def test_unknown_host(make_sender: MakeSender):
    """A name without an address is named, and tried again."""

    def lookup(host: str) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    outcome = await outcome_of(make_sender(lookup=lookup), "http://nope.invalid/")
    assert (outcome.kind, outcome.retryable) == (Kind.DNS, True)
    assert outcome.error == "cannot resolve host nope.invalid: Name or service not known"


async def test_nats_timer(sender: HttpSender):
    """A timer for NATS that gets here all the same fails without being tried again."""
    timer = make_timer("http://unused.example/")
    spec = Spec(callback=NatsCallback(topic="orders"), correlation_id="x")
    outcome = await sender.send(replace(timer, spec=spec), mine)
    assert (outcome.kind, outcome.retryable) == (Kind.NATS, False)


@pytest.mark.promise("no-secret")
async def test_unforeseen_error(
    make_sender: MakeSender, receiver: Receiver, caplog: pytest.LogCaptureFixture
):
    """What nobody thought of becomes an outcome too, and one line in the log, without secrets."""

    def broken() -> bool:
        raise RuntimeError("the claim cannot be read")

    headers = {"Authorization": "Bearer s3cret"}
    with caplog.at_level(logging.DEBUG, "duetime"):
        timer = make_timer(receiver.url(), headers=headers)
        outcome = await make_sender().send(timer, broken)
    assert (outcome.kind, outcome.retryable) == (Kind.NETWORK, True)
    assert outcome.error == "cannot send: the claim cannot be read"
    assert len(caplog.records) == 1
    assert "s3cret" not in caplog.text
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("callback", "error"),
    [
        ({"headers": {"X-A": "s3cret\r\n"}}, "callback.headers: the value of X-A must be"),
        ({"url": "http://s3cret:0/"}, "callback.url: must be an http or https URL"),
    ],
    ids=["header", "url"],
)
async def test_callback_stored_past_the_check(
    sender: HttpSender, receiver: Receiver, caplog, callback: dict[str, Any], error: str
):
    """What cannot be sent is not tried again, and its value is not shown."""
    timer = make_timer(**{"url": receiver.url(), **callback})
    outcome = await sender.send(timer, mine)
    assert (outcome.kind, outcome.retryable) == (Kind.NETWORK, False)
    assert str(outcome.error).startswith(f"cannot send: {error}")
    assert "s3cret" not in str(outcome.error) + caplog.text
    assert receiver.requests == []
