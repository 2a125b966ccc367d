"""TLS: receivers must prove who they are, and the sentence says what their certificate lacks.

The certificates in certificates/ were made with openssl: an authority, and two certificates of
one key for localhost, receiver.example and 127.0.0.1: valid until 2120, and expired in 2020.
"""

import asyncio

import pytest

from duetime.delivery.http import HttpSender
from duetime.timer import Kind
from tests.delivery.conftest import MakeSender, make_timer, mine
from tests.delivery.receiver import CERTIFICATES, Receiver


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch, make_sender: MakeSender) -> HttpSender:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "authority.pem"))
    return make_sender(lookup=lambda _: ["127.0.0.1"])


@pytest.mark.parametrize("host", ["receiver.example", "127.0.0.1"])
async def test_trusted(trusting: HttpSender, host: str):
    """A certificate of a trusted authority for the name in the URL is accepted and pinned to."""
    async with Receiver("valid.pem") as receiver:
        for _ in range(3):
            outcome = await trusting.send(make_timer(receiver.url(host=host)), mine)
            assert outcome.kind is Kind.OK, outcome
        assert receiver.connections == 1


async def test_authority_is_unknown(make_sender: MakeSender):
    """A certificate of nobody's is refused before anything is sent."""
    await refused(make_sender(), "valid.pem", "certificate is not from a trusted authority")


async def test_expired(trusting: HttpSender):
    """An old certificate is refused."""
    await refused(trusting, "expired.pem", "certificate has expired")


async def test_another_host(trusting: HttpSender):
    """A certificate for another name is refused, though the address is the same."""
    await refused(trusting, "valid.pem", "certificate is for another host", host="other.example")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the receiver does not speak it here"),
        (b"", "the receiver closed the connection during the handshake"),
    ],
    ids=["plain HTTP", "closed"],
)
async def test_no_tls_on_the_port(sender: HttpSender, answer: bytes, error: str):
    """A receiver that does not speak TLS is told apart from one that is away."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65_536)
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        outcome = await sender.send(make_timer(url), mine)
    assert (outcome.kind, outcome.error) == (Kind.TLS, f"TLS: {error}")


async def refused(sender: HttpSender, certificate: str, error: str, host: str = "127.0.0.1"):
    async with Receiver(certificate) as receiver:
        outcome = await sender.send(make_timer(receiver.url(host=host)), mine)
        assert (outcome.kind, outcome.error) == (Kind.TLS, f"TLS: {error}")
        assert outcome.retryable
        assert receiver.requests == []
