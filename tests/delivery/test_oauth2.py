"""OAuth2: a token is fetched once for many callbacks, kept while it is good, and fetched anew."""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest

from duetime.clock import SystemClock
from duetime.delivery.grant import Grant
from duetime.delivery.http import HttpSender
from duetime.delivery.oauth2 import AHEAD, FETCH_FOR, LONGEST, USUAL, YOUNG, Token
from duetime.timer import Kind, Outcome, Timer
from tests.delivery.conftest import MakeSender, make_timer, mine
from tests.delivery.receiver import Receiver
from tests.delivery.token_endpoint import TokenEndpoint
from tests.delivery.wallets import SECRET, Wallet, credential

FORBIDDEN = "may not be called; the operator can permit it with EGRESS_ALLOW"
NOT_TOKENS = "the credential 'bank' got no token from 127.0.0.1: "


class Ahead(SystemClock):
    """A clock that stands still, and can be set forward."""

    def __init__(self) -> None:
        self.by = 0.0
        self._since = super().monotonic()

    def monotonic(self) -> float:
        return self._since + self.by


@pytest.fixture
async def endpoint() -> AsyncIterator[TokenEndpoint]:
    async with TokenEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
def clock() -> Ahead:
    return Ahead()


def grant_at(url: str, id_: str = "1", **options: Any) -> Grant:
    options = {"client_id": "duetime", "client_secret": SECRET, **options}
    return Grant(id_, token_url=url, **options)


@pytest.fixture
def wallet(endpoint: TokenEndpoint) -> Wallet:
    return Wallet(credential(grant=grant_at(endpoint.url)))


@pytest.fixture
def sender(make_sender: MakeSender, wallet: Wallet, clock: Ahead) -> HttpSender:
    return make_sender(credentials=wallet, clock=clock)


def calling(receiver: Receiver, path: str = "/status/200", **fields: Any) -> Timer:
    return make_timer(receiver.url(path), credential="bank", **fields)


def shown(receiver: Receiver) -> list[str]:
    return [request.headers["authorization"] for request in receiver.requests]


# Asking ----------------------------------------------------------------------------------------


async def test_a_token_is_asked_for_and_shown(
    sender: HttpSender, endpoint: TokenEndpoint, receiver: Receiver
):
    """As RFC 6749 has it; the client's secret goes to the token endpoint, the token elsewhere."""
    assert (await sender.send(calling(receiver), mine)).ok
    [request] = endpoint.requests
    assert (request.method, request.path) == ("POST", "/token")
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    basic = base64.b64encode(f"duetime:{SECRET}".encode()).decode()
    assert request.headers["authorization"] == f"Basic {basic}"
    assert endpoint.form == {"grant_type": ["client_credentials"]}
    assert shown(receiver) == ["Bearer token-1"]
    assert SECRET.encode() not in receiver.requests[0].head


async def test_the_other_style(
    make_sender: MakeSender, endpoint: TokenEndpoint, receiver: Receiver
):
    """With the secret in the body, a scope and an audience, all of them encoded."""
    grant = grant_at(
        endpoint.url,
        client_id="a&b",
        client_secret="s&c=1",
        style="body",
        scope="a b",
        audience="https://x/",
    )
    sender = make_sender(credentials=Wallet(credential(grant=grant)))
    assert (await sender.send(calling(receiver), mine)).ok
    assert "authorization" not in endpoint.requests[0].headers
    assert endpoint.form == {
        "grant_type": ["client_credentials"],
        "client_id": ["a&b"],
        "client_secret": ["s&c=1"],
        "scope": ["a b"],
        "audience": ["https://x/"],
    }


async def test_basic_authentication_is_form_encoded():
    """So that a colon in a secret is not taken for the one between the two."""
    headers, _ = grant_at("https://x/", client_id="a:b", client_secret="c d:é").request()
    pair = base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode()
    assert pair == "a%3Ab:c+d%3A%C3%A9"


# Keeping ---------------------------------------------------------------------------------------


async def test_one_fetch_for_many(sender: HttpSender, endpoint: TokenEndpoint, receiver: Receiver):
    """A hundred callbacks at once wait for one token, and those after them have it."""
    endpoint.gate = asyncio.Event()
    sends = [asyncio.create_task(sender.send(calling(receiver), mine)) for _ in range(100)]
    await endpoint.asked.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    assert receiver.requests == []
    endpoint.gate.set()
    assert all(outcome.ok for outcome in await asyncio.gather(*sends))
    await sender.send(calling(receiver), mine)
    assert len(endpoint.requests) == 1
    assert shown(receiver) == ["Bearer token-1"] * 101


async def test_who_waited_first_may_give_up(
    sender: HttpSender, endpoint: TokenEndpoint, receiver: Receiver
):
    """The fetch goes on for the others."""
    endpoint.gate = asyncio.Event()
    first = asyncio.create_task(sender.send(calling(receiver), mine))
    await endpoint.asked.wait()
    second = asyncio.create_task(sender.send(calling(receiver), mine))
    await asyncio.sleep(0)
    first.cancel()
    endpoint.gate.set()
    assert (await second).ok
    assert len(endpoint.requests) == 1


async def test_a_token_is_fetched_anew_before_it_ends(
    sender: HttpSender, endpoint: TokenEndpoint, receiver: Receiver, clock: Ahead
):
    """Shortly before: what is under way then still arrives in time."""
    await sender.send(calling(receiver), mine)
    clock.by += 3600 - AHEAD - 10
    await sender.send(calling(receiver), mine)
    clock.by += 10
    await sender.send(calling(receiver), mine)
    assert shown(receiver) == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


async def test_its_last_seconds_bridge_an_outage(
    sender: HttpSender, endpoint: TokenEndpoint, receiver: Receiver, clock: Ahead
):
    """A token that has not ended is used while there is no new one."""
    await sender.send(calling(receiver), mine)
    clock.by += 3600 - AHEAD / 2
    endpoint.answers = [(500, b""), (500, b"")]
    assert (await sender.send(calling(receiver), mine)).ok
    clock.by += AHEAD
    assert (await sender.send(calling(receiver), mine)).kind is Kind.CREDENTIAL


async def test_a_changed_credential_has_a_token_of_its_own(
    sender: HttpSender, endpoint: TokenEndpoint, receiver: Receiver, wallet: Wallet
):
    """What was fetched for the one before is not shown for it."""
    await sender.send(calling(receiver), mine)
    wallet.shown = credential(grant=grant_at(endpoint.url, "2"))
    await sender.send(calling(receiver), mine)
    assert shown(receiver) == ["Bearer token-1", "Bearer token-2"]


@pytest.mark.parametrize(
    ("lasts", "seconds"),
    [
        (3600, 3600 - AHEAD),
        ("3600", 3600 - AHEAD),
        (10, 5),
        (0.5, 0.25),
        (1e30, LONGEST - AHEAD),
        (10**30, LONGEST - AHEAD),
        (10**400, LONGEST - AHEAD),
        (None, USUAL - AHEAD),
        (0, USUAL - AHEAD),
        (-5, USUAL - AHEAD),
        (True, USUAL - AHEAD),
        ("soon", USUAL - AHEAD),
        ("9" * 400, USUAL - AHEAD),
        ([], USUAL - AHEAD),
    ],
)
async def test_however_long_it_is_said_to_last(
    sender: HttpSender, endpoint: TokenEndpoint, receiver: Receiver, lasts: Any, seconds: float
):
    """Nonsense counts for nothing, and too much for a day."""
    endpoint.lasts = lasts
    assert (await sender.send(calling(receiver), mine)).ok
    token = sender._tokens._known["1"].token
    assert isinstance(token, Token)
    assert token.until - token.fetched_at == pytest.approx(seconds)


# Refused tokens --------------------------------------------------------------------------------


async def test_a_refused_token_is_fetched_anew_once(
    sender: HttpSender, endpoint: TokenEndpoint, receiver: Receiver, clock: Ahead
):
    """Within the same attempt: the receiver has done nothing with the first request."""
    await sender.send(calling(receiver), mine)
    clock.by += YOUNG
    outcome = await sender.send(calling(receiver, "/status/401"), mine)
    assert (outcome.kind, outcome.status_code) == (Kind.HTTP, 401)
    assert shown(receiver) == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]
    assert len(endpoint.requests) == 2


@pytest.mark.promise("no-secret")
async def test_a_receiver_that_repeats_tokens(sender: HttpSender, receiver: Receiver, clock: Ahead):
    """Neither the refused one can be read in its answer, nor the one after it."""
    await sender.send(calling(receiver), mine)
    clock.by += YOUNG
    said = "not token-1, and not token-2"
    head = f"HTTP/1.1 401 No\r\nContent-Length: {len(said)}\r\n\r\n"
    timer = calling(receiver, f"/say?text={quote(head + said)}", response_bytes=100)
    outcome = await sender.send(timer, mine)
    assert shown(receiver)[-1] == "Bearer token-2"
    assert outcome.response == "not ***, and not ***"


async def test_a_receiver_that_refuses_every_token(
    sender: HttpSender, endpoint: TokenEndpoint, receiver: Receiver, clock: Ahead
):
    """Does not have one fetched for each callback: at most one in a second."""
    for seconds in range(1, 4):
        for _ in range(20):
            outcome = await sender.send(calling(receiver, "/status/401"), mine)
            assert outcome.status_code == 401
        assert len(endpoint.requests) == seconds
        clock.by += YOUNG


async def test_a_claim_that_ran_out_in_between(
    sender: HttpSender, receiver: Receiver, clock: Ahead
):
    """The request is not sent again by a node that may not any more."""
    await sender.send(calling(receiver), mine)
    clock.by += YOUNG
    asked = []

    def is_mine() -> bool:
        asked.append(1)
        return len(receiver.requests) < 2

    outcome = await sender.send(calling(receiver, "/status/401"), is_mine)
    assert outcome == Outcome(kind=Kind.UNSENT)
    assert len(receiver.requests) == 2


async def test_no_new_token_after_a_refusal(
    sender: HttpSender, endpoint: TokenEndpoint, receiver: Receiver, clock: Ahead
):
    """That may be tried again: the refused one is not shown once more."""
    await sender.send(calling(receiver), mine)
    clock.by += YOUNG
    endpoint.answers = [(503, b"")]
    outcome = await sender.send(calling(receiver, "/status/401"), mine)
    assert (outcome.kind, outcome.retryable) == (Kind.CREDENTIAL, True)
    assert len(receiver.requests) == 2


# Faults ----------------------------------------------------------------------------------------

FAULTS = {
    "500": ((500, SECRET.encode()), "HTTP 500 Internal Server Error"),
    "429": ((429, b""), "HTTP 429 Too Many Requests"),
    "strange": ((799, b""), "HTTP 799"),
    "invalid client": (
        (401, {"error": "invalid_client", "error_description": SECRET}),
        "HTTP 401 Unauthorized (invalid_client)",
    ),
    "another error": ((400, {"error": SECRET}), "HTTP 400 Bad Request"),
    "redirect": ((302, b""), "HTTP 302 Found"),
    "no token": ((200, {}), "the answer has no access_token that could be sent"),
    "a number": (
        (200, {"access_token": 5}),
        "the answer has no access_token that could be sent",
    ),
    "two lines": (
        (200, {"access_token": "a\r\nX-Evil: 1"}),
        "the answer has no access_token that could be sent",
    ),
    "a long one": (
        (200, {"access_token": "a" * 20_000}),
        "the answer has no access_token that could be sent",
    ),
    "mac": (
        (200, {"access_token": "a", "token_type": "mac"}),
        "the answer has a token_type that is not bearer",
    ),
    "no type": (
        (200, {"access_token": "a", "token_type": None}),
        "the answer has a token_type that is not bearer",
    ),
    "no JSON": ((200, b"<html>"), "the answer is not JSON, or too long"),
    "a list": ((200, b"[1]"), "the answer is not JSON, or too long"),
    "deep": ((200, b"[" * 30_000), "the answer is not JSON, or too long"),
    "10 MB": (
        (200, b'{"access_token": "' + b"a" * 10_000_000),
        "the answer is not JSON, or too long",
    ),
    "empty": ((200, b""), "the answer is not JSON, or too long"),
}


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_token_endpoint_that_fails(
    sender: HttpSender,
    endpoint: TokenEndpoint,
    receiver: Receiver,
    fault: str,
    caplog: pytest.LogCaptureFixture,
):
    """Is a failed attempt that may be tried again; it names the credential, and quotes nothing."""
    caplog.set_level(logging.DEBUG)
    answer, error = FAULTS[fault]
    endpoint.answers = [answer]
    outcome = await sender.send(calling(receiver), mine)
    assert (outcome.kind, outcome.retryable) == (Kind.CREDENTIAL, True)
    assert outcome.error == NOT_TOKENS + error
    assert SECRET not in repr(outcome) + caplog.text
    assert receiver.requests == []


async def test_a_token_endpoint_that_asks_to_wait(
    sender: HttpSender, endpoint: TokenEndpoint, receiver: Receiver, clock: Ahead
):
    """Its Retry-After holds for the timer."""
    endpoint.answers, endpoint.headers = [(503, b"")], "Retry-After: 120\r\n"
    now = clock.now()
    outcome = await sender.send(calling(receiver), mine)
    assert outcome.retry_at is not None
    assert 119_000 <= outcome.retry_at - now <= 130_000


async def test_a_token_endpoint_that_hangs(
    sender: HttpSender, endpoint: TokenEndpoint, receiver: Receiver
):
    """An attempt waits for it as long as its timeout, and no longer."""
    endpoint.answers = [None]
    outcome = await sender.send(calling(receiver, timeout=50), mine)
    assert (outcome.kind, outcome.retryable) == (Kind.CREDENTIAL, True)
    assert outcome.error is not None
    assert outcome.error.startswith(f"{NOT_TOKENS}no answer within ")
    assert receiver.requests == []


async def test_a_fetch_has_an_end(
    sender: HttpSender,
    endpoint: TokenEndpoint,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
):
    """Also where callbacks would wait for longer."""
    assert FETCH_FOR == 10
    monkeypatch.setattr("duetime.delivery.oauth2.FETCH_FOR", 0.05)
    endpoint.answers = [None]
    outcome = await sender.send(calling(receiver), mine)
    assert outcome.error == f"{NOT_TOKENS}no answer within 50ms"


async def test_a_token_endpoint_that_is_down_is_not_asked_by_everybody(
    sender: HttpSender, endpoint: TokenEndpoint, receiver: Receiver, clock: Ahead
):
    """Its failure is believed for a moment."""
    endpoint.answers = [(500, b""), (500, b"")]
    for _ in range(20):
        assert not (await sender.send(calling(receiver), mine)).ok
    assert len(endpoint.requests) == 1
    clock.by += YOUNG
    await sender.send(calling(receiver), mine)
    clock.by += YOUNG
    assert (await sender.send(calling(receiver), mine)).ok


@pytest.mark.parametrize(
    ("url", "error"),
    [
        (
            "http://169.254.169.254/token",
            f"169.254.169.254 {FORBIDDEN}",
        ),
        (
            "http://metadata.example/token",
            f"10.0.0.1, the address of metadata.example, {FORBIDDEN}",
        ),
        ("http://[::ffff:10.0.0.1]/token", None),
        ("http://0xa.0.0.1/token", None),
    ],
)
async def test_the_guard_holds_for_token_endpoints(
    make_sender: MakeSender, receiver: Receiver, url: str, error: str | None
):
    """They are called at permitted addresses only, like receivers."""
    sender = make_sender(
        credentials=Wallet(credential(grant=grant_at(url))), lookup=lambda _: ["10.0.0.1"]
    )
    outcome = await sender.send(calling(receiver), mine)
    assert (outcome.kind, outcome.retryable) == (Kind.CREDENTIAL, True)
    assert outcome.error is not None
    assert "may not be called" in outcome.error
    if error is not None:
        assert outcome.error.endswith(f": {error}")
    assert receiver.requests == []


async def test_a_forbidden_receiver_has_no_token_fetched(
    sender: HttpSender, endpoint: TokenEndpoint
):
    """Nothing is asked for what cannot be sent."""
    outcome = await sender.send(make_timer("http://10.0.0.1/", credential="bank"), mine)
    assert outcome.kind is Kind.EGRESS
    assert endpoint.requests == []


async def test_a_node_that_stops_gives_a_fetch_up(
    sender: HttpSender, endpoint: TokenEndpoint, receiver: Receiver
):
    """Nothing was sent by then, and its timer is handed back."""
    endpoint.answers = [None]
    sending = asyncio.create_task(sender.send(calling(receiver), mine))
    await endpoint.asked.wait()
    await sender.close()
    assert await sending == Outcome(kind=Kind.UNSENT)
