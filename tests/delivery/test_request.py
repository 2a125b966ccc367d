"""What reaches the receiver, byte by byte."""

import hmac
import re

import pytest
from msgspec import UNSET, Raw, UnsetType

from duetime import __version__, webhooks
from duetime.delivery.http import HttpSender
from duetime.delivery.signing import parse_secret, sign
from duetime.delivery.terms import Terms
from duetime.testing import FakeClock
from duetime.timer import Kind, Signature
from tests.delivery.conftest import MakeSender, make_timer, mine, the_same_for_all
from tests.delivery.receiver import Receiver, Request

ID = "0197734e-7000-7abc-8def-0123456789ab"
SECRETS = (parse_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), bytes(range(32)))


async def deliver(sender: HttpSender, receiver: Receiver, **timer) -> Request:
    outcome = await sender.send(make_timer(receiver.url("/status/200?a=b%20c"), **timer), mine)
    assert outcome.kind is Kind.OK, outcome
    assert outcome.status_code == 200
    assert outcome.error is None
    return receiver.requests[-1]


async def test_the_usual_request(make_sender: MakeSender, receiver: Receiver):
    """A plain callback is a POST with exactly these headers."""
    sender = make_sender(clock=FakeClock())
    request = await deliver(sender, receiver, payload=Raw(b'{"a": 1}'), attempt=3)
    assert request.head.startswith(b"POST /status/200?a=b%20c HTTP/1.1\r\n")
    traceparent = request.headers["traceparent"]
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", traceparent)
    assert sorted(request.fields) == [
        ("accept", "*/*"),
        ("content-length", "8"),
        ("content-type", "application/json"),
        ("host", f"127.0.0.1:{receiver.port}"),
        ("traceparent", traceparent),
        ("user-agent", f"duetime/{__version__}"),
        ("webhook-id", f"{ID}-1"),
        ("webhook-timestamp", "1750000000"),
        ("x-correlation-id", "order-4711"),
        ("x-timer-attempt", "3"),
        ("x-timer-due", "2025-06-15T15:06:40Z"),
        ("x-timer-id", ID),
    ]


@pytest.mark.promise("signatures-fit")
@pytest.mark.parametrize("body", [b'{ "a" :1.0,\n"b":"\\u00fc \xc3\xbc" }', b"null", b'""', b"0"])
async def test_body_is_sent_as_it_was_given(sender: HttpSender, receiver: Receiver, body: bytes):
    """Not a byte of the payload changes on the way, or its signature would not fit."""
    assert (await deliver(sender, receiver, payload=Raw(body))).body == body


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_no_payload_no_body(sender: HttpSender, receiver: Receiver, method: str):
    """Without a payload there is no body and no type of one, and the receiver is told so."""
    request = await deliver(sender, receiver, method=method)
    assert request.body == b""
    assert "content-type" not in request.headers
    assert [value for name, value in request.fields if name == "content-length"] == ["0"]


@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS", "HEAD"])
async def test_other_methods(sender: HttpSender, receiver: Receiver, method: str):
    """Methods that need no body are sent without a word about one; HEAD's answer has none."""
    request = await deliver(sender, receiver, method=method)
    assert request.method == method
    assert not {"content-length", "content-type", "transfer-encoding"} & set(request.headers)


@pytest.mark.promise("signatures-fit")
async def test_every_secret_signs(make_sender: MakeSender, receiver: Receiver):
    """The signature covers id, time and body, once per secret."""
    sender = make_sender(clock=FakeClock(), secrets=SECRETS)
    request = await deliver(sender, receiver, payload=Raw(b'{"a": 1}'))
    assert request.headers["webhook-signature"].split(" ") == [
        sign(secret, f"{ID}-1", 1_750_000_000, b'{"a": 1}') for secret in SECRETS
    ]


@pytest.mark.parametrize("payload", [Raw(b'{"a": 1}'), Raw(b" " * 5000), UNSET])
async def test_timer_signature(
    make_sender: MakeSender, receiver: Receiver, payload: Raw | UnsetType
):
    """It covers the body alone, once per secret, the newest first."""
    sender = make_sender(secrets=SECRETS)
    request = await deliver(sender, receiver, payload=payload, signatures=("timer",))
    assert request.headers["x-timer-signature"].split(",") == [
        hmac.new(secret, request.body, "sha256").hexdigest() for secret in SECRETS
    ]


@pytest.mark.parametrize(
    ("chosen", "sent"),
    [
        (("webhook",), {"webhook-signature"}),
        (("timer",), {"x-timer-signature"}),
        (("timer", "webhook"), {"webhook-signature", "x-timer-signature"}),
        ((), set()),
    ],
)
async def test_signatures_as_the_timer_has_them(
    make_sender: MakeSender, receiver: Receiver, chosen: tuple[Signature, ...], sent: set[str]
):
    """No others are sent, and none by a node without secrets; the id and the time always are."""
    for sender, expected in ((make_sender(secrets=SECRETS), sent), (make_sender(), set())):
        request = await deliver(sender, receiver, signatures=chosen)
        assert {name for name in request.headers if name.endswith("-signature")} == expected
        assert {"webhook-id", "webhook-timestamp"} <= set(request.headers)


@pytest.mark.promise("signatures-fit")
@pytest.mark.parametrize("chosen", [("webhook",), ("timer",), ()])
async def test_what_cannot_be_signed_is_not_sent(
    make_sender: MakeSender, receiver: Receiver, chosen: tuple[Signature, ...]
):
    """It may be tried again, and says why; a timer that is to have no signature is sent."""
    sender = make_sender(terms=the_same_for_all(Terms(unsignable="the secret 00aa is locked")))
    timer = make_timer(receiver.url("/status/200"), signatures=chosen)
    outcome = await sender.send(timer, mine)
    if not chosen:
        assert outcome.kind is Kind.OK
        return
    assert (outcome.kind, outcome.retryable) == (Kind.SIGNING, True)
    assert outcome.error == "not sent, as it cannot be signed: the secret 00aa is locked"
    assert receiver.requests == []
    await sender.close()
    assert (await sender.send(timer, mine)).kind is Kind.UNSENT


@pytest.mark.promise("signatures-fit")
async def test_terms_are_asked_at_every_attempt(make_sender: MakeSender, receiver: Receiver):
    """What a timer is signed with is not fixed when it is made."""
    asked: list[Terms] = [Terms(secrets=SECRETS[:1]), Terms(secrets=SECRETS[1:]), Terms()]
    sender = make_sender(clock=FakeClock(), terms=lambda _: asked.pop(0))
    both: tuple[Signature, ...] = ("webhook", "timer")
    for secret in SECRETS:
        request = await deliver(sender, receiver, payload=Raw(b"{}"), signatures=both)
        text = webhooks.encode_secret(secret)
        assert (
            webhooks.verify(request.body, request.fields, text, now=1_750_000_000)[0] == f"{ID}-1"
        )
        webhooks.verify_body_signature(request.body, request.fields, text)
    request = await deliver(sender, receiver, payload=Raw(b"{}"), signatures=both)
    assert not {"webhook-signature", "x-timer-signature"} & set(request.headers)


async def test_own_headers_come_last(sender: HttpSender, receiver: Receiver):
    """The timer's headers replace Duetime's, in any spelling, and each is sent once."""
    own = {"CONTENT-TYPE": "text/plain", "user-Agent": "me", "X-Timer-Id": "7", "Accept": "a/b"}
    request = await deliver(sender, receiver, payload=Raw(b"{}"), headers=own | {"X-Own": "yes"})
    names = [name for name, _ in request.fields]
    assert len(names) == len(set(names))
    assert {name: request.headers[name.lower()] for name in own} == own
    assert request.headers["x-own"] == "yes"


@pytest.mark.promise("signatures-fit")
async def test_signed_headers_cannot_be_replaced(make_sender: MakeSender, receiver: Receiver):
    """Not even a timer that was stored past the check can forge what a signature vouches for."""
    sender = make_sender(clock=FakeClock(), secrets=SECRETS)
    forged = {"Webhook-Id": "x", "webhook-timestamp": "0", "WEBHOOK-SIGNATURE": "v1,x"}
    request = await deliver(sender, receiver, headers=forged)
    assert request.headers["webhook-id"] == f"{ID}-1"
    assert request.headers["webhook-timestamp"] == "1750000000"
    assert request.headers["webhook-signature"].startswith("v1,") is True
    assert "v1,x" not in request.headers["webhook-signature"]


@pytest.mark.parametrize("chosen", [(), ("webhook",), ("timer",)])
@pytest.mark.parametrize("secrets", [(), SECRETS], ids=["no secret", "secrets"])
async def test_signatures_cannot_be_forged(
    make_sender: MakeSender,
    receiver: Receiver,
    secrets: tuple[bytes, ...],
    chosen: tuple[Signature, ...],
):
    """Not even where Duetime sends none does a timer's own take the place."""
    forged = {"x-timer-SIGNATURE": "forged", "webhook-signature": "forged"}
    sender = make_sender(secrets=secrets)
    request = await deliver(sender, receiver, headers=forged, signatures=chosen)
    assert b"forged" not in request.head


async def test_trace_is_the_occurrence(sender: HttpSender, receiver: Receiver):
    """All attempts of an occurrence share a trace, each with a span of its own."""
    traces = []
    for occurrence, attempt in ((1, 1), (1, 2), (2, 1)):
        request = await deliver(sender, receiver, occurrence=occurrence, attempt=attempt)
        traces.append(request.headers["traceparent"].split("-"))
    first, repeat, next_one = traces
    assert first[1] == repeat[1] != next_one[1]
    assert len({first[2], repeat[2], next_one[2]}) == 3


@pytest.mark.parametrize(
    ("correlation_id", "header"),
    [
        ("order 47/11 50%", "order 47/11 50%"),
        ("bücher", "b%C3%BCcher"),
        ("a\r\nX-Evil: 1", "a%0D%0AX-Evil:%201"),
        (" padded ", "%20padded%20"),
        ("50%ü", "50%25%C3%BC"),
        ("", ""),
    ],
)
async def test_correlation_id(
    sender: HttpSender, receiver: Receiver, correlation_id: str, header: str
):
    """A correlation id that a header cannot carry is percent-encoded."""
    request = await deliver(sender, receiver, correlation_id=correlation_id)
    assert request.headers["x-correlation-id"] == header
    assert "x-evil" not in request.headers


@pytest.mark.promise("permitted-addresses")
async def test_no_proxy_of_the_environment(
    make_sender: MakeSender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    """Proxy variables are not honoured: a proxy would connect to what nobody judged."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY"):
        for spelled in (name, name.lower()):
            monkeypatch.setenv(spelled, "http://127.0.0.1:1")
    for spelled in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(spelled, raising=False)
    assert (await deliver(make_sender(), receiver)).path == "/status/200?a=b%20c"
