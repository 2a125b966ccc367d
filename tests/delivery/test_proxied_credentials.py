"""Credentials through a proxy: it carries all that is asked for them, and reads nothing of it."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from duetime.delivery.credential import Refusal
from duetime.delivery.grant import Grant
from duetime.delivery.http import HttpSender
from duetime.delivery.proxy import Proxy
from duetime.timer import Kind
from tests import certificates
from tests.delivery.conftest import MakeSender, make_timer, mine
from tests.delivery.proxy import ConnectProxy
from tests.delivery.receiver import Receiver
from tests.delivery.test_mtls import AUTHORITY, NEXT, OURS, server
from tests.delivery.token_endpoint import TokenEndpoint
from tests.delivery.wallets import SECRET, Wallet, client, credential

HOST = "named.example"


@pytest.fixture
async def proxy() -> AsyncIterator[ConnectProxy]:
    async with ConnectProxy(hosts={HOST: "127.0.0.1"}) as proxy:
        yield proxy


def through(
    proxy: ConnectProxy, make_sender: MakeSender, wallet: Wallet, *, resolves: bool, **options: bool
) -> HttpSender:
    by = Proxy(proxy.url(), resolves=resolves)
    return make_sender(proxy=by, credentials=wallet, lookup=lambda _: ["127.0.0.1"], **options)


def granted(token_url: str) -> Wallet:
    grant = Grant("1", token_url=token_url, client_id="duetime", client_secret=SECRET)
    return Wallet(credential((HOST,), grant=grant))


@pytest.mark.parametrize("resolves", [False, True])
async def test_tokens_are_fetched_through_it(
    proxy: ConnectProxy, make_sender: MakeSender, receiver: Receiver, *, resolves: bool
):
    """The token endpoint is called as receivers are: by its name only if the proxy resolves."""
    async with TokenEndpoint() as endpoint:
        wallet = granted(endpoint.url.replace("127.0.0.1", HOST))
        sender = through(proxy, make_sender, wallet, resolves=resolves)
        timer = make_timer(receiver.url(host=HOST), credential="bank")
        assert (await sender.send(timer, mine)).ok
    asked_for = HOST if resolves else "127.0.0.1"
    assert proxy.targets == [f"{asked_for}:{endpoint.port}", f"{asked_for}:{receiver.port}"]
    assert receiver.requests[0].headers["authorization"] == "Bearer token-1"


@pytest.mark.promise("permitted-addresses")
async def test_the_guard_holds_for_token_endpoints_too(
    proxy: ConnectProxy, make_sender: MakeSender, receiver: Receiver
):
    """An address that may not be called is not asked for, though the names are the proxy's."""
    async with TokenEndpoint() as endpoint:
        wallet = granted(endpoint.url)
        sender = through(proxy, make_sender, wallet, resolves=True, loopback=False)
        timer = make_timer(receiver.url(host=HOST), credential="bank")
        outcome = await sender.send(timer, mine)
    assert outcome.kind is Kind.CREDENTIAL
    assert "127.0.0.1 may not be called" in (outcome.error or "")
    assert proxy.asked == []


@pytest.mark.parametrize("resolves", [False, True])
async def test_client_certificates_are_shown_inside_the_tunnel(
    proxy: ConnectProxy, make_sender: MakeSender, tmp_path: Path, *, resolves: bool
):
    """And a tunnel is used again with the same one, but not with another, or with none."""
    made = certificates.make(HOST, AUTHORITY)
    wallet = Wallet(Refusal("is not known", retryable=False))
    sender = through(proxy, make_sender, wallet, resolves=resolves)
    async with Receiver(tls=server(tmp_path, made, ssl.CERT_REQUIRED)) as receiver:
        timer = make_timer(receiver.url(host=HOST), credential="bank")
        for number, shown in enumerate((OURS, NEXT), start=1):
            certificate = client(shown, AUTHORITY, str(number))
            wallet.shown = credential((HOST,), certificate=certificate, over_http=False)
            for _ in range(2):
                assert (await sender.send(timer, mine)).ok
            assert len(proxy.targets) == receiver.connections == number
        assert not (await sender.send(make_timer(receiver.url(host=HOST)), mine)).ok
    assert len(receiver.requests) == 4
