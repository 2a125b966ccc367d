"""Credentials: shown to their own hosts only, and to nobody who looks at what came of it."""

import asyncio
import logging
from itertools import product
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyreqwest.http import Url

from duetime.delivery.credential import Refusal
from duetime.delivery.hosts import Hosts, normal, where
from duetime.delivery.presenting import VEIL
from duetime.delivery.receiver import Receiver as Origin
from duetime.errors import StoreUnavailable
from duetime.timer import Kind, Outcome
from tests.delivery.conftest import MakeSender, make_timer, mine
from tests.delivery.receiver import Receiver
from tests.delivery.wallets import SECRET, Wallet, credential

pytestmark = pytest.mark.promise("no-secret")


async def test_a_credential_is_sent(make_sender: MakeSender, receiver: Receiver):
    """With timers that name it, and with no other."""
    sender = make_sender(credentials=Wallet(credential()))
    named = make_timer(receiver.url(), credential="bank", headers={"X-Mine": "1"})
    assert (await sender.send(named, mine)).ok
    assert (await sender.send(make_timer(receiver.url()), mine)).ok
    first, second = receiver.requests
    assert first.headers["authorization"] == f"Bearer {SECRET}"
    assert first.headers["x-mine"] == "1"
    assert "authorization" not in second.headers
    assert receiver.connections == 1


@pytest.mark.parametrize("spelled", ["authorization", "AUTHORIZATION", "Authorization"])
async def test_it_wins_over_what_the_timer_brings(
    make_sender: MakeSender, receiver: Receiver, spelled: str
):
    """However that is spelled: there is one header."""
    sender = make_sender(credentials=Wallet(credential()))
    timer = make_timer(receiver.url(), credential="bank", headers={spelled: "Bearer mine"})
    assert (await sender.send(timer, mine)).ok
    sent = [value for name, value in receiver.requests[0].fields if name == "authorization"]
    assert sent == [f"Bearer {SECRET}"]


async def test_the_newest_is_sent(make_sender: MakeSender, receiver: Receiver):
    """What a timer names is asked for at every attempt."""
    wallet = Wallet(credential())
    sender = make_sender(credentials=wallet)
    timer = make_timer(receiver.url(), credential="bank")
    await sender.send(timer, mine)
    wallet.shown = credential(headers={"X-Api-Key": "rotated"})
    await sender.send(timer, mine)
    assert receiver.requests[1].headers["x-api-key"] == "rotated"
    assert "authorization" not in receiver.requests[1].headers
    assert wallet.looks == 0


@pytest.mark.parametrize(
    ("shown", "error", "retryable"),
    [
        (Refusal("does not exist any more", retryable=False), "does not exist any more", False),
        (Refusal("cannot be opened: why", retryable=True), "cannot be opened: why", True),
        (credential(("api.bank.example",)), "may not be sent to 127.0.0.1", False),
        (credential(over_http=False), "is sent over https only", False),
    ],
)
async def test_nothing_is_sent_without_it(
    make_sender: MakeSender, receiver: Receiver, shown, error, *, retryable: bool
):
    """A callback that names a credential never goes without, and the outcome says why."""
    wallet = Wallet(shown)
    sender = make_sender(credentials=wallet)
    outcome = await sender.send(make_timer(receiver.url(), credential="bank"), mine)
    assert (outcome.kind, outcome.retryable) == (Kind.CREDENTIAL, retryable)
    assert outcome.error == f"the credential 'bank' {error}"
    assert receiver.connections == 0
    assert wallet.looks == 1


async def test_a_service_without_credentials(make_sender: MakeSender, receiver: Receiver):
    """Sends nothing that names one."""
    outcome = await make_sender().send(make_timer(receiver.url(), credential="bank"), mine)
    assert (outcome.kind, outcome.error) == (
        Kind.CREDENTIAL,
        "the credential 'bank' is not known",
    )
    assert receiver.requests == []


async def test_what_was_changed_elsewhere_is_looked_for(
    make_sender: MakeSender, receiver: Receiver
):
    """Before a callback fails for a credential that another node has just made or mended."""
    wallet = Wallet(Refusal("does not exist any more", retryable=False))
    wallet.on_look = lambda: setattr(wallet, "shown", credential())
    sender = make_sender(credentials=wallet)
    assert (await sender.send(make_timer(receiver.url(), credential="bank"), mine)).ok


async def test_a_store_that_fails_as_it_is_looked_for(make_sender: MakeSender, receiver: Receiver):
    """Is no reason to fail for good."""
    wallet = Wallet(Refusal("does not exist any more", retryable=False))

    def fail() -> None:
        raise StoreUnavailable("as told")

    wallet.on_look = fail
    sender = make_sender(credentials=wallet)
    outcome = await sender.send(make_timer(receiver.url(), credential="bank"), mine)
    assert (outcome.kind, outcome.retryable) == (Kind.CREDENTIAL, True)
    assert outcome.error == "the credential 'bank' cannot be looked up just now"


async def test_a_look_that_takes_too_long(make_sender: MakeSender, receiver: Receiver):
    """An attempt has its timeout, whatever it waits for."""

    class Slow(Wallet):
        async def look(self) -> None:
            await asyncio.Event().wait()

    sender = make_sender(credentials=Slow(Refusal("is gone", retryable=False)))
    timer = make_timer(receiver.url(), credential="bank", timeout=20)
    outcome = await sender.send(timer, mine)
    assert (outcome.kind, outcome.retryable) == (Kind.CREDENTIAL, True)


# To no other host ------------------------------------------------------------------------------

USERS = ("", "api.bank.example@", "api.bank.example:x@", "u%40api.bank.example@")
HOSTS_LISTED = (
    "api.bank.example",
    "API.Bank.Example",
    "api.bank.example.",
    "%61pi.bank.example",
    "ａpi.bank.example",  # noqa: RUF001 - the first letter is of full width
    "a.pay.example",
    "A.B.PAY.example.",
)
HOSTS_NOT_LISTED = (
    "bank.example",
    "xapi.bank.example",
    "api.bank.example.evil.example",
    "api.bank.examplex",
    "pay.example",
    "evilpay.example",
    "api-bank.example",
    "api.bank.example%2eevil.example",
    "api。bank。example。evil",
    "аpi.bank.example",  # noqa: RUF001 - the first letter is Cyrillic
    "127.0.0.1",
    "0x7f.1",
    "2130706433",
)
PATHS = (
    "/",
    "?api.bank.example",
    "#api.bank.example",
    "/@api.bank.example/",
    "\\@api.bank.example/",
)


async def test_a_credential_goes_to_its_hosts_only(make_sender: MakeSender, receiver: Receiver):
    """Whatever the URL looks like: what has the secret came to a host that is listed."""
    listed = ("api.bank.example", "*.pay.example")
    sender = make_sender("*.example,*.evil", credentials=Wallet(credential(listed)), lookup=here)
    sent = []
    for user, host, path in product(USERS, HOSTS_LISTED + HOSTS_NOT_LISTED, PATHS):
        receiver.requests.clear()
        url = f"http://{user}{host}:{receiver.port}{path}"
        outcome = await sender.send(make_timer(url, credential="bank"), mine)
        assert SECRET not in repr(outcome)
        for request in receiver.requests:
            name = request.headers["host"].partition(":")[0].lower().removesuffix(".")
            assert name == listed[0] or name.endswith(".pay.example"), url
            assert SECRET in request.headers["authorization"]
            sent.append(url)
    assert len(sent) >= len(HOSTS_LISTED) * len(PATHS)


def here(_: str) -> list[str]:
    return ["127.0.0.1"]


@given(st.text(max_size=40))
@example("EXAMPLE.com.")
@example("u@h")
@example("[::ffff:1.2.3.4]")
@example("0x7f.1")
@example("a\tb")
def test_the_host_that_is_judged_is_the_one_that_is_called(text: str):
    """When a timer is made as when it is sent: of every URL that can be sent."""
    url = f"https://{text}"
    try:
        called = Origin(Url(url)).host
    except ValueError:
        return
    assert where(url)[0] == called.removesuffix(".")


@given(st.from_regex(r"(\*\.)?[a-zA-Z0-9.äß_-]{1,20}", fullmatch=True), st.text(max_size=20))
def test_patterns_mean_what_they_say(pattern: str, text: str):
    """An exact host is that one, and a star is one label or more in front."""
    try:
        written = normal(pattern)
        host, _ = where(f"https://{text}/")
    except ValueError:
        return
    assert normal(written) == written
    hosts = Hosts([written])
    domain = written.removeprefix("*.")
    if written.startswith("*."):
        assert (host in hosts) == (host.endswith(f".{domain}"))
        assert domain not in hosts
        assert f"x.{domain}" in hosts
        assert f"x{domain}" not in hosts
    else:
        assert (host in hosts) == (host == domain)


async def test_a_redirect_leads_nowhere(make_sender: MakeSender, receiver: Receiver):
    """It is not followed, so that a credential cannot be taken along."""
    async with Receiver() as other:
        sender = make_sender(credentials=Wallet(credential()))
        for status in (301, 302, 303, 307, 308):
            location = quote(other.url(f"/{SECRET}"), safe="")
            url = receiver.url(f"/status/{status}?Location={location}")
            outcome = await sender.send(make_timer(url, credential="bank"), mine)
            assert (outcome.kind, outcome.retryable) == (Kind.HTTP, False)
            assert outcome.error == (
                f"redirect to {other.url(f'/{VEIL}')} was not followed (HTTP {status})"
            )
        assert other.connections == 0


# Nobody reads it -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "kept", "expected"),
    [
        (f"you sent {SECRET}, twice {SECRET}", 200, f"you sent {VEIL}, twice {VEIL}"),
        (f"you sent {SECRET}", 9 + 10, f"you sent {VEIL}"),
        ("nothing of it", 200, "nothing of it"),
    ],
    ids=["whole", "cut off", "none"],
)
async def test_what_a_receiver_repeats_is_veiled(
    make_sender: MakeSender, receiver: Receiver, said: str, kept: int, expected: str
):
    """Whoever may see answers still does not see the secret, nor how it begins."""
    head = f"HTTP/1.1 500 E\r\nContent-Length: {len(said)}\r\n\r\n"
    url = receiver.url(f"/say?text={quote(head + said)}")
    sender = make_sender(credentials=Wallet(credential()))
    timer = make_timer(url, credential="bank", response_bytes=kept)
    outcome = await sender.send(timer, mine)
    assert outcome.response == expected


@pytest.mark.parametrize("before", [0, 150, 160, 170])
@pytest.mark.parametrize("secret", [SECRET, "wh?t-is", "a#b{c}-d"])
async def test_a_redirect_that_repeats_it_is_veiled(
    make_sender: MakeSender, receiver: Receiver, before: int, secret: str
):
    """Wherever a long one is cut off, and whatever means something in a URL."""
    shown = credential(headers={"X-Api-Key": secret}, hidden=(secret,))
    sender = make_sender(credentials=Wallet(shown))
    path = "/" + "p" * before + "/" + secret
    head = f"HTTP/1.1 302 F\r\nLocation: {path}\r\nContent-Length: 0\r\n\r\n"
    timer = make_timer(receiver.url(f"/say?text={quote(head)}"), credential="bank")
    outcome = await sender.send(timer, mine)
    assert outcome.error is not None
    told = outcome.error.partition("//")[2].partition(" ")[0]
    assert secret[:4] not in told
    assert secret.partition("?")[0].partition("#")[0] not in told.rpartition("/")[2]


async def test_a_receiver_that_repeats_a_long_secret(make_sender: MakeSender, receiver: Receiver):
    """Of the places where it could begin, the first is taken: nothing of it is left."""
    secret = "aaab" * 300
    shown = credential(headers={"X-Api-Key": secret}, hidden=(secret,))
    sender = make_sender(credentials=Wallet(shown))
    head = "HTTP/1.1 500 E\r\nContent-Length: 2000\r\n\r\n"
    url = receiver.url(f"/say?text={quote(head + 'x' + secret * 2)}")
    for kept in (2, 5, 6, 700, 1200, 1201, 1202, 1300):
        timer = make_timer(url, credential="bank", response_bytes=kept)
        response = (await sender.send(timer, mine)).response
        whole, rest = divmod(kept - 1, len(secret))
        assert response == "x" + VEIL * whole + (VEIL if rest > 3 else "a" * rest), kept


async def test_no_log_shows_it(
    make_sender: MakeSender, receiver: Receiver, caplog: pytest.LogCaptureFixture
):
    """Nor any representation, also where something goes wrong that nobody has thought of."""
    caplog.set_level(logging.DEBUG)
    shown = credential(headers={"Authorization": f"Bearer {SECRET}\nX: y"})
    sender = make_sender(credentials=Wallet(shown))
    outcome = await sender.send(make_timer(receiver.url(), credential="bank"), mine)
    assert (outcome.kind, outcome.retryable) == (Kind.NETWORK, True)
    assert receiver.requests == []
    assert SECRET not in repr(shown) + repr(outcome) + str(shown) + caplog.text


async def test_a_request_shows_nothing_of_it(
    make_sender: MakeSender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    """Whoever prints what is being sent prints no header of it."""
    printed: list[str] = []
    sender = make_sender(credentials=Wallet(credential()))
    attempt = sender._try_addresses

    async def printing(request: Any, *rest: Any) -> Any:
        printed.append(repr(request))
        return await attempt(request, *rest)

    monkeypatch.setattr(sender, "_try_addresses", printing)
    assert (await sender.send(make_timer(receiver.url(), credential="bank"), mine)).ok
    assert printed == ["_Request(...)"]


async def test_a_claim_that_ran_out(make_sender: MakeSender, receiver: Receiver):
    """Nothing is shown to anybody then."""
    sender = make_sender(credentials=Wallet(credential()))
    timer = make_timer(receiver.url(), credential="bank")
    assert await sender.send(timer, lambda: False) == Outcome(kind=Kind.UNSENT)
    assert receiver.requests == []
