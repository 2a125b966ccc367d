"""TLS: receivers must prove who they are, and the sentence says what their certificate lacks."""

from pathlib import Path
from typing import NamedTuple

import pytest

from duetime.delivery.http import HttpSender
from duetime.delivery.opening import tls_context
from duetime.timer import Kind, Outcome
from tests.delivery.authority import Authority
from tests.delivery.conftest import MakeSender, make_timer, mine
from tests.delivery.faulty import GOOD, Fault, FaultyReceiver

HOST = "receiver.example"
UNTRUSTED = "certificate is not from a trusted authority"
FOR_ANOTHER = "certificate is for another host"
CLOSED = "TLS: the receiver closed the connection during the handshake"
OLD = "TLS: the receiver speaks no version of it that is safe (1.2 or newer)"


class Tls(NamedTuple):
    """Authorities: one that is trusted and one that is not, and a sender that knows the one."""

    authority: Authority
    stranger: Authority
    sender: HttpSender


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_sender: MakeSender) -> Tls:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    return Tls(authority, stranger, make_sender(lookup=lambda _: ["127.0.0.1"]))


WRONG_TLS = {
    "expired": (lambda tls: tls.authority.server(HOST, days=(-2, -1)), "certificate has expired"),
    "not yet valid": (
        lambda tls: tls.authority.server(HOST, days=(1, 2)),
        "certificate is not valid yet",
    ),
    "another name": (
        lambda tls: tls.authority.server("a.example"),
        FOR_ANOTHER,
    ),
    "another address": (
        lambda tls: tls.authority.server("127.0.0.1"),
        FOR_ANOTHER,
    ),
    "a name under it": (
        lambda tls: tls.authority.server(f"*.{HOST}"),
        FOR_ANOTHER,
    ),
    "self-signed": (lambda tls: tls.authority.server(HOST, is_self_signed=True), UNTRUSTED),
    "unknown authority": (lambda tls: tls.stranger.server(HOST), UNTRUSTED),
}


async def attempt(
    tls: Tls, receiver: FaultyReceiver, host: str = HOST, within: int = 30_000
) -> Outcome:
    timer = make_timer(f"https://{host}:{receiver.port}/hook", timeout=within)
    return await tls.sender.send(timer, mine)


@pytest.mark.parametrize("host", [HOST, f"{HOST}.", "127.0.0.1"])
async def test_trusted(tls: Tls, host: str):
    """A certificate of a trusted authority for the name in the URL is accepted and pinned to."""
    async with FaultyReceiver(Fault(GOOD), tls=tls.authority.server(HOST, "127.0.0.1")) as receiver:
        for _ in range(3):
            assert (await attempt(tls, receiver, host)).kind is Kind.OK
        assert receiver.connections == 1


@pytest.mark.parametrize(("make", "problem"), WRONG_TLS.values(), ids=list(WRONG_TLS))
async def test_wrong_tls(tls: Tls, make, problem: str):
    """It is said what is wrong with a certificate, nothing is sent, and it may be mended."""
    async with FaultyReceiver(Fault(GOOD), tls=make(tls)) as receiver:
        outcome = await attempt(tls, receiver)
        assert (outcome.kind, outcome.retryable) == (Kind.TLS, True)
        assert outcome.error == f"TLS: {problem}"
        assert receiver.requests == []


@pytest.mark.parametrize(
    ("fault", "kind", "error"),
    [
        (
            Fault(b"HTTP/1.1 400 Bad Request\r\n\r\n", "close", hears=False),
            Kind.TLS,
            "TLS: the receiver does not speak it here",
        ),
        (
            Fault(b"\x15\x03\x01\x00\x02\x02\x46", "close", hears=False),  # "protocol version"
            Kind.TLS,
            OLD,
        ),
        (
            Fault(then="close", hears=False),
            Kind.TLS,
            CLOSED,
        ),
        (
            Fault(then="reset", hears=False),
            Kind.TLS,
            CLOSED,
        ),
        (
            Fault(then="drip", again=b"\x16", hears=False),
            Kind.TLS,
            "TLS: the receiver does not speak it here",
        ),
    ],
    ids=["plain HTTP", "too old", "closes", "resets", "drips nonsense"],
)
async def test_no_tls(tls: Tls, fault: Fault, kind: Kind, error: str):
    """A receiver that does not speak TLS is told apart from one that is away."""
    async with FaultyReceiver(fault) as receiver:
        outcome = await attempt(tls, receiver)
        assert (outcome.kind, outcome.error, outcome.retryable) == (kind, error, True)


async def test_handshake_that_hangs(tls: Tls):
    """It is given up in time, and told apart from a connection that was not made."""
    async with FaultyReceiver(Fault(then="drip", again=b"", hears=False)) as receiver:
        outcome = await attempt(tls, receiver, within=400)
        assert (outcome.kind, outcome.retryable) == (Kind.TIMEOUT, True)
        assert str(outcome.error).startswith(f"no TLS handshake with {receiver.at} within ")


def test_receivers_do_not_choose_how_long_a_handshake_takes():
    """With DHE the numbers are theirs: those of 10,000 bits take a second, in the event loop."""
    kinds = {cipher["kea"] for cipher in tls_context().get_ciphers()}
    assert kinds == {"kx-any", "kx-ecdhe"}  # those of TLS 1.3, and the others
