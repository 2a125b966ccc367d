"""What each answer, and each lack of one, means: the kind, the sentence, and whether to retry."""

import logging
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


async def test_no_route(make_sender: MakeSender):
    """What else keeps a connection from being made is said in the system's words."""
    outcome = await outcome_of(make_sender("255.255.255.255"), "http://255.255.255.255:9/")
    assert (outcome.kind, outcome.retryable) == (Kind.NETWORK, True)
    assert outcome.error is not None
    assert outcome.error.startswith("cannot connect to 255.255.255.255:9: ")
    assert "os error" not in outcome.error


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
