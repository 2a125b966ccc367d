"""Through a proxy: to the address that was judged, and every way in which it fails is told."""

import asyncio
import logging
import socket
import threading
from base64 import b64encode
from collections.abc import AsyncIterator, Callable

import pytest

from duetime.delivery.http import HttpSender
from duetime.delivery.proxy import Proxy
from duetime.errors import ConfigurationError
from duetime.timer import Kind
from tests.delivery.conftest import MakeSender, make_timer, mine
from tests.delivery.proxy import OPENED, ConnectProxy
from tests.delivery.receiver import CERTIFICATES, Receiver
from tests.waiting import until

MakeProxied = Callable[..., HttpSender]
Fault = tuple[bytes, Kind, str]

WANTED = "HTTP 407 Proxy Authentication Required"


@pytest.fixture
async def proxy() -> AsyncIterator[ConnectProxy]:
    async with ConnectProxy(hosts={"named.example": "127.0.0.1"}) as proxy:
        yield proxy


@pytest.fixture
def proxied(make_sender: MakeSender, proxy: ConnectProxy) -> MakeProxied:
    """Makes senders that go through the proxy."""

    def make(*, resolves: bool = False, credentials: str = "", **options) -> HttpSender:
        through = Proxy(proxy.url(credentials), resolves=resolves)
        return make_sender(**{"lookup": lambda _: ["127.0.0.1"], "proxy": through, **options})

    return make


@pytest.mark.promise("permitted-addresses")
async def test_tunnel_to_the_judged_address(
    proxied: MakeProxied, proxy: ConnectProxy, receiver: Receiver
):
    """The proxy is told the address and no name, and the receiver gets the usual request."""
    outcome = await proxied().send(make_timer(receiver.url(host="receiver.example")), mine)
    assert outcome.kind is Kind.OK
    assert proxy.targets == [f"127.0.0.1:{receiver.port}"]
    [request] = receiver.requests
    assert request.path == "/status/200"
    assert request.headers["host"] == f"receiver.example:{receiver.port}"
    assert not [name for name in request.headers if name.startswith(("proxy", "via"))]


async def test_tls_is_with_the_receiver(
    proxied: MakeProxied, proxy: ConnectProxy, monkeypatch: pytest.MonkeyPatch
):
    """What is said inside the tunnel is checked against the receiver's own name."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "authority.pem"))
    sender = proxied()
    async with Receiver("valid.pem") as receiver:
        outcome = await sender.send(make_timer(receiver.url(host="receiver.example")), mine)
        assert outcome.kind is Kind.OK
        outcome = await sender.send(make_timer(receiver.url(host="other.example")), mine)
        assert outcome.error == "TLS: certificate is for another host"
        assert len(receiver.requests) == 1
    assert len(proxy.targets) == 2


async def test_tunnel_is_used_again(proxied: MakeProxied, proxy: ConnectProxy, receiver: Receiver):
    """A connection through the proxy is kept like any other, for its own receiver alone."""
    sender = proxied()
    for host in ("a.example", "b.example", "a.example", "b.example"):
        outcome = await sender.send(make_timer(receiver.url(host=host)), mine)
        assert outcome.kind is Kind.OK
    assert len(receiver.requests) == 4
    assert len(proxy.asked) == receiver.connections == 2


@pytest.mark.promise("permitted-addresses")
@pytest.mark.parametrize("resolves", [False, True])
async def test_guard_stands_before_the_proxy(
    proxied: MakeProxied, proxy: ConnectProxy, receiver: Receiver, *, resolves: bool
):
    """An address that may not be called is not asked for, though the proxy could reach it."""
    sender = proxied(resolves=resolves, loopback=False)
    for host in ("127.0.0.1", "2130706433", "[::ffff:7f00:1]"):
        outcome = await sender.send(make_timer(receiver.url(host=host)), mine)
        assert outcome.kind is Kind.EGRESS
    if not resolves:
        outcome = await sender.send(make_timer(receiver.url(host="named.example")), mine)
        assert outcome.kind is Kind.EGRESS
    assert proxy.asked == []


async def test_names_for_the_proxy(proxied: MakeProxied, proxy: ConnectProxy, receiver: Receiver):
    """A proxy that resolves is given the name, and nobody else is asked for it."""

    def lookup(host: str) -> list[str]:
        raise AssertionError(f"{host} was looked up here")

    sender = proxied(resolves=True, loopback=False, lookup=lookup)
    for _ in range(2):
        outcome = await sender.send(make_timer(receiver.url(host="named.example")), mine)
        assert outcome.kind is Kind.OK
    assert proxy.targets == [f"named.example:{receiver.port}"]
    assert len(receiver.requests) == 2


@pytest.mark.promise("permitted-addresses")
@pytest.mark.parametrize(
    ("lists", "words"),
    [
        ({"deny": "*.example"}, "the operator has denied it with EGRESS_DENY"),
        ({"public": "none"}, "the operator can permit it with EGRESS_PUBLIC"),
        ({"public": "8.8.8.0/24"}, "the operator can permit it with EGRESS_PUBLIC"),
        ({"public": "named.example"}, None),
        ({"public": "none", "allow": "named.example"}, None),
    ],
)
async def test_lists_hold_for_names_of_the_proxy(
    proxied: MakeProxied, proxy: ConnectProxy, receiver: Receiver, lists, words: str | None
):
    """What the lists say of hosts is kept to, also where the proxy finds their addresses."""
    sender = proxied(resolves=True, loopback=False, **lists)
    outcome = await sender.send(make_timer(receiver.url(host="named.example")), mine)
    assert outcome.error == (words and f"named.example may not be called; {words}")
    assert bool(proxy.asked) is (words is None)


async def test_proxy_of_the_environment_is_another_one(
    proxied: MakeProxied, proxy: ConnectProxy, receiver: Receiver, monkeypatch
):
    """Only the setting counts, and nothing is left out of it."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "*")
    assert (await proxied().send(make_timer(receiver.url()), mine)).kind is Kind.OK
    assert len(proxy.asked) == 1


@pytest.mark.parametrize("credentials", ["me:s3cret%40%C3%BC@", "me@", ":s3cret@"])
async def test_credentials(make_sender: MakeSender, receiver: Receiver, credentials: str):
    """User and password are sent to the proxy, percent-decoded, and to nobody else."""
    pairs = {"me:s3cret%40%C3%BC@": "me:s3cret@ü", "me@": "me:", ":s3cret@": ":s3cret"}
    expected = f"Basic {b64encode(pairs[credentials].encode()).decode()}"
    async with ConnectProxy(authorization=expected) as proxy:
        sender = make_sender(proxy=Proxy(proxy.url(credentials)))
        assert (await sender.send(make_timer(receiver.url()), mine)).kind is Kind.OK
    assert b"roxy" not in receiver.requests[0].head


# What it answers, the kind of outcome, and what is said of it.
FAULTS = {
    "forbids": (
        b"HTTP/1.1 403 Forbidden\r\n\r\n",
        Kind.EGRESS,
        "it does not permit it (HTTP 403 Forbidden)",
    ),
    "may not": (
        b"HTTP/1.0 451 \r\n\r\n",
        Kind.EGRESS,
        "it does not permit it (HTTP 451 Unavailable For Legal Reasons)",
    ),
    "wants a password": (
        b"HTTP/1.1 407 Authenticate\r\nProxy-Authenticate: Basic\r\n\r\n",
        Kind.NETWORK,
        f"it does not take the user and password of EGRESS_PROXY ({WANTED})",
    ),
    "cannot": (
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\nno",
        Kind.NETWORK,
        "it answered HTTP 502 Bad Gateway",
    ),
    "points elsewhere": (
        b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n",
        Kind.NETWORK,
        "it answered HTTP 302 Found",
    ),
    "does something else": (
        b"HTTP/1.1 101 Switching\r\n\r\n",
        Kind.NETWORK,
        "it answered HTTP 101 Switching Protocols",
    ),
    "odd status": (b"HTTP/1.1 599 \r\n\r\n", Kind.NETWORK, "it answered HTTP 599"),
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n\r\n", Kind.NETWORK, "its answer is not valid HTTP"),
    "no status": (b"HTTP/1.1 000 x\r\n\r\n", Kind.NETWORK, "its answer is not valid HTTP"),
    "closes": (b"", Kind.NETWORK, "it closed the connection"),
    "breaks off": (b"HTTP/1.1 200", Kind.NETWORK, "it closed the connection"),
    "never ends": (
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 50_000,
        Kind.NETWORK,
        "the headers of its answer do not end",
    ),
    "answers for the receiver": (
        OPENED + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        Kind.NETWORK,
        "it sent more than an answer",
    ),
}


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
async def test_proxy_that_opens_no_tunnel(
    proxied: MakeProxied, proxy: ConnectProxy, receiver: Receiver, caplog, fault: Fault
):
    """It is said that it was the proxy and what it said, without its password; nothing is sent."""
    proxy.answer, kind, reason = fault
    with caplog.at_level(logging.DEBUG, "duetime"):
        sender = proxied(credentials="me:s3cret@")
        outcome = await sender.send(make_timer(receiver.url()), mine)
    at = f"127.0.0.1:{receiver.port}"
    assert outcome.error == f"no connection to {at} through the proxy: {reason}"
    assert (outcome.kind, outcome.retryable) == (kind, kind is not Kind.EGRESS)
    assert "s3cret" not in caplog.text + repr(outcome)
    assert receiver.connections == 0


async def test_proxy_cannot_reach_the_receiver(proxied: MakeProxied, proxy: ConnectProxy):
    """Where it fails at one address of a receiver, the next one is asked for."""
    async with Receiver(host="127.0.0.2") as receiver:
        sender = proxied(lookup=lambda _: ["127.0.0.9", "127.0.0.2"])
        outcome = await sender.send(make_timer(receiver.url(host="two.example")), mine)
    assert outcome.kind is Kind.OK
    assert proxy.targets == [f"127.0.0.9:{receiver.port}", f"127.0.0.2:{receiver.port}"]


async def test_proxy_that_hangs(proxied: MakeProxied, proxy: ConnectProxy, receiver: Receiver):
    """It costs no more than the callback's timeout, and is told as the one that was too slow."""
    proxy.hangs = True
    outcome = await proxied().send(make_timer(receiver.url(), timeout=500), mine)
    at = f"127.0.0.1:{receiver.port}"
    assert (outcome.kind, outcome.retryable) == (Kind.TIMEOUT, True)
    assert outcome.error == f"no connection to {at} through the proxy: it did not answer in time"
    await asyncio.wait_for(proxy.gone.wait(), 10)


async def test_cancelled_while_the_proxy_hangs(
    proxied: MakeProxied, proxy: ConnectProxy, receiver: Receiver
):
    """The proxy sees at once that nobody waits any more."""
    proxy.hangs = True
    attempt = asyncio.create_task(proxied().send(make_timer(receiver.url()), mine))
    await asyncio.wait_for(proxy.arrived.wait(), 10)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    await asyncio.wait_for(proxy.gone.wait(), 10)


async def test_proxy_is_away(make_sender: MakeSender, receiver: Receiver):
    """A proxy that is not there is no fault of the receiver's."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        sender = make_sender(proxy=Proxy(f"http://127.0.0.1:{unused.getsockname()[1]}"))
        outcome = await sender.send(make_timer(receiver.url()), mine)
    assert (outcome.kind, outcome.retryable) == (Kind.NETWORK, True)
    assert str(outcome.error).endswith("the proxy: it cannot be reached: Connection refused")
    assert receiver.connections == 0


async def test_proxy_that_takes_no_connection(make_sender: MakeSender, receiver: Receiver):
    """Nor is one that swallows connections."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        clogs = [socket.socket() for _ in range(4)]
        for clog in clogs:
            clog.setblocking(False)
            clog.connect_ex(full.getsockname())
        through = Proxy(f"http://127.0.0.1:{full.getsockname()[1]}")
        sender = make_sender(proxy=through, connect_timeout=50)
        outcome = await sender.send(make_timer(receiver.url()), mine)
        for clog in clogs:
            clog.close()
    assert outcome.kind is Kind.TIMEOUT
    assert str(outcome.error).endswith("the proxy: it cannot be reached in time")


async def test_name_of_the_proxy(make_sender: MakeSender, proxy: ConnectProxy, receiver: Receiver):
    """The proxy's own name is resolved and called without the guard, at the first good address."""
    asked = []

    def lookup(host: str) -> list[str]:
        asked.append(host)
        return ["127.0.0.9", "127.0.0.1"]

    through = Proxy(f"http://proxy.corp:{proxy.port}")
    sender = make_sender("127.0.0.1", loopback=False, lookup=lookup, proxy=through)
    for _ in range(2):
        outcome = await sender.send(make_timer(receiver.url()), mine)
        assert outcome.kind is Kind.OK
    assert asked == ["proxy.corp"]
    outcome = await sender.send(make_timer(receiver.url(host="127.0.0.9")), mine)
    assert outcome.kind is Kind.EGRESS


@pytest.mark.promise("permitted-addresses")
async def test_proxy_as_the_receiver(
    make_sender: MakeSender, proxy: ConnectProxy, receiver: Receiver
):
    """That the proxy's address is known does not make it a receiver that may be called."""
    through = Proxy(f"http://proxy.corp:{proxy.port}", resolves=True)
    sender = make_sender("127.0.0.1", loopback=False, lookup=lambda _: ["127.0.0.1"], proxy=through)
    assert (await sender.send(make_timer(receiver.url()), mine)).kind is Kind.OK
    await sender.send(make_timer(receiver.url(host="proxy.corp")), mine)
    assert proxy.targets[-1] == f"proxy.corp:{receiver.port}"


async def test_name_of_the_proxy_is_unknown(make_sender: MakeSender, receiver: Receiver):
    """It is said whose name it was."""

    def lookup(host: str) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    sender = make_sender(lookup=lookup, proxy=Proxy("http://proxy.corp:3128"))
    outcome = await sender.send(make_timer(receiver.url()), mine)
    reason = "its host cannot be resolved: Name or service not known"
    assert str(outcome.error).endswith(f"the proxy: {reason}")
    assert (outcome.kind, outcome.retryable) == (Kind.NETWORK, True)


async def test_name_of_the_proxy_is_looked_up_for_too_long(
    make_sender: MakeSender, receiver: Receiver
):
    """That too is within the callback's timeout."""
    release = threading.Event()
    sender = make_sender(
        lookup=lambda _: release.wait(10) and ["127.0.0.1"], proxy=Proxy("http://proxy.corp:3128")
    )
    try:
        outcome = await sender.send(make_timer(receiver.url(), timeout=50), mine)
    finally:
        release.set()
    assert outcome.kind is Kind.TIMEOUT
    assert str(outcome.error).endswith("the proxy: its host was not resolved in time")


async def test_tunnel_that_was_not_used(
    proxied: MakeProxied, proxy: ConnectProxy, receiver: Receiver
):
    """A claim that ran out while the tunnel was made: nothing is sent, and the tunnel is kept."""
    sender, claims = proxied(), [False, True]
    timer = make_timer(receiver.url())
    assert (await sender.send(timer, claims.pop)).kind is Kind.UNSENT
    assert receiver.requests == []
    assert (await sender.send(timer, mine)).kind is Kind.OK
    assert len(proxy.asked) == 1


async def test_closing_ends_tunnels(proxied: MakeProxied, proxy: ConnectProxy, receiver: Receiver):
    """A sender that is closed leaves none open."""
    sender = proxied()
    await sender.send(make_timer(receiver.url()), mine)
    await sender.close()
    await asyncio.wait_for(receiver.gone.wait(), 10)
    await until(lambda: not sender._connections._open)


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize(
    "url",
    [
        *("https://s3cret@proxy:3128", "socks5://s3cret@proxy:1080", "proxy:3128", "http://"),
        *("http://me:s3cret@proxy:0", "http://me:s3cret@proxy:99999", "http://proxy/s3cret"),
        *("http://proxy:3128?s3cret", "http://proxy:3128#s3cret", "http://me:s3cret\\@proxy:3128"),
    ],
)
def test_bad_proxy(url: str):
    """What is no such URL is refused when the server starts, and not repeated."""
    with pytest.raises(ConfigurationError, match="EGRESS_PROXY: must be http://host:port") as told:
        Proxy(url)
    assert "s3cret" not in str(told.value)
