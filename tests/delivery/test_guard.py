"""The egress guard on the way to the socket: only an address that was judged is connected to."""

import socket

import pytest

from duetime.delivery.http import HttpSender
from duetime.delivery.lookups import Lookup
from duetime.delivery.receiver import MOST_ADDRESSES
from duetime.delivery.sockets import connect
from duetime.testing import FakeClock
from duetime.timer import Kind
from tests.delivery.conftest import MakeSender, make_timer, mine
from tests.delivery.receiver import Receiver
from tests.ports import free_port

HINT_FOR_PUBLIC = "the operator can permit it with EGRESS_PUBLIC"
HINT = "may not be called; the operator can permit it with EGRESS_ALLOW"


def answering(*answers: list[str]) -> Lookup:
    """A look-up that gives these answers in turn, and the last one for ever."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


@pytest.mark.promise("permitted-addresses")
@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("%31%32%37.0.0.1", "127.0.0.1"),
        ("①②⑦.0.0.1", "127.0.0.1"),
        ("\uff11\uff12\uff17.\uff10.\uff10.\uff11", "127.0.0.1"),
        ("\U0001d7cf\U0001d7d0\U0001d7d5.0.0.1", "127.0.0.1"),
        ("127。0。0。1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0177.1", "127.0.0.1"),
        ("0x7f.0x0.0x0.0x1", "127.0.0.1"),
        ("0x7F.0.1", "127.0.0.1"),
        ("10.1", "10.0.0.1"),
        ("0xa9fea9fe", "169.254.169.254"),
        ("[::1]", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("[::ffff:127.0.0.1]", "::ffff:7f00:1"),
        ("[::ffff:7f00:1]", "::ffff:7f00:1"),
        ("[::127.0.0.1]", "::7f00:1"),
        ("[64:ff9b::127.0.0.1]", "64:ff9b::7f00:1"),
        ("[64:ff9b:1::10.0.0.1]", "64:ff9b:1::a00:1"),
        ("[2002:7f00:1::]", "2002:7f00:1::"),
        ("[2001:0:102:304:0:ffff:80ff:fffe]", "2001:0:102:304:0:ffff:80ff:fffe"),
        ("[2a00:1450::5efe:10.0.0.1]", "2a00:1450::5efe:a00:1"),
        ("[2a00:1450::200:5efe:10.0.0.1]", "2a00:1450::200:5efe:a00:1"),
        ("169.254.169.254", "169.254.169.254"),
        ("[fd00:ec2::254]", "fd00:ec2::254"),
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("[::]", "::"),
    ],
)
async def test_disguised_address(
    make_sender: MakeSender, receiver: Receiver, host: str, address: str
):
    """An address is judged by what it is, however it is written, and nothing connects to it."""
    sender = make_sender(loopback=False)
    outcome = await sender.send(make_timer(receiver.url(host=host)), mine)
    assert (outcome.kind, outcome.retryable) == (Kind.EGRESS, False)
    assert outcome.error == f"{address} {HINT}"
    assert receiver.connections == 0


METADATA = {
    "aws": ["169.254.169.254", "fd00:ec2::254"],
    "ecs": ["169.254.170.2", "fd00:ec2::23"],
    "azure": ["169.254.169.254", "168.63.129.16"],
    "google": ["169.254.169.254", "fd20:ce::254"],
    "alibaba": ["100.100.100.200"],
    "oracle": ["169.254.169.254", "192.0.0.192"],
    "tencent": ["169.254.0.23"],
    "openstack": ["169.254.169.254", "fe80::a9fe:a9fe%eth0"],
    "scaleway": ["169.254.42.42", "fd00:42::42"],
    "linode": ["169.254.169.254", "fd00:a9fe:a9fe::1"],
}


@pytest.mark.promise("permitted-addresses")
@pytest.mark.parametrize("cloud", METADATA)
async def test_metadata_under_a_name(make_sender: MakeSender, cloud: str):
    """What a cloud tells its machines is told to no user, be it by a name of the cloud's or not."""
    names = {"metadata.google.internal": METADATA[cloud], "innocent.example": METADATA[cloud][::-1]}
    sender = make_sender(lookup=names.__getitem__)
    for host, addresses in names.items():
        outcome = await sender.send(make_timer(f"http://{host}/latest/"), mine)
        assert outcome.kind is Kind.EGRESS
        assert outcome.error == f"{addresses[0]}, the address of {host}, {HINT}"


@pytest.mark.promise("permitted-addresses")
async def test_alias_of_a_denied_address(
    make_sender: MakeSender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    """Where a name is an alias (CNAME), what counts is the address in the end."""
    end = (socket.AF_INET, socket.SOCK_STREAM, 6, "inside.corp", ("127.0.0.1", 0))
    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", lambda *_, **__: [end])
        sender = make_sender(loopback=False)
        outcome = await sender.send(make_timer(receiver.url(host="alias.example")), mine)
    assert outcome.error == f"127.0.0.1, the address of alias.example, {HINT}"
    assert receiver.connections == 0


@pytest.mark.promise("permitted-addresses")
@pytest.mark.parametrize("name", ["localhost", "localhost.", "example.com", ""])
async def test_name_is_never_connected_to(name: str):
    """What makes connections takes addresses alone, so that nothing is looked up a second time."""
    with pytest.raises(socket.gaierror):
        await connect(name or " ", 80)


@pytest.mark.promise("permitted-addresses")
async def test_name_of_a_denied_address(make_sender: MakeSender, receiver: Receiver):
    """A name is judged by what it resolves to."""
    sender = make_sender(loopback=False, lookup=answering(["127.0.0.1", "::1"]))
    outcome = await sender.send(make_timer(receiver.url(host="innocent.example")), mine)
    assert outcome.kind is Kind.EGRESS
    assert outcome.error == f"127.0.0.1, the address of innocent.example, {HINT}"
    assert receiver.connections == 0


@pytest.mark.promise("permitted-addresses")
async def test_rebinding(make_sender: MakeSender, receiver: Receiver):
    """What the name resolves to later does not matter: the judged address is the one called."""
    async with Receiver(host="127.0.0.2") as inside:
        lookup = answering(["127.0.0.1"], ["127.0.0.2"])
        sender = make_sender("127.0.0.1", loopback=False, lookup=lookup)
        for _ in range(3):
            outcome = await sender.send(make_timer(receiver.url(host="rebind.example")), mine)
            assert outcome.kind is Kind.OK
        assert len(receiver.requests) == 3
        assert inside.connections == 0


@pytest.mark.promise("permitted-addresses")
async def test_rebinding_after_the_answer_has_aged(make_sender: MakeSender, receiver: Receiver):
    """A later answer is judged anew."""
    clock = FakeClock()
    lookup = answering(["127.0.0.1"], ["127.0.0.2"])
    sender = make_sender("127.0.0.1", loopback=False, lookup=lookup, clock=clock)
    timer = make_timer(receiver.url(host="rebind.example"))
    assert (await sender.send(timer, mine)).kind is Kind.OK
    clock.advance(31_000)
    outcome = await sender.send(timer, mine)
    assert outcome.error == f"127.0.0.2, the address of rebind.example, {HINT}"
    assert len(receiver.requests) == 1


@pytest.mark.promise("permitted-addresses")
async def test_only_the_permitted_of_several_addresses(make_sender: MakeSender, receiver: Receiver):
    """Where only some addresses of a name are permitted, only those are connected to."""
    lookup = answering(["127.0.0.3", "10.0.0.1", "127.0.0.1", "169.254.169.254"])
    sender = make_sender("127.0.0.1", loopback=False, lookup=lookup)
    outcome = await sender.send(make_timer(receiver.url(host="mixed.example")), mine)
    assert outcome.kind is Kind.OK
    assert receiver.requests[0].headers["host"] == f"mixed.example:{receiver.port}"


@pytest.mark.promise("permitted-addresses")
@pytest.mark.parametrize(
    "host", ["hooks.internal", "hooks.internal.", "HOOKS.internal", "h_k-s.1a"]
)
async def test_pinned_under_any_name(make_sender: MakeSender, receiver: Receiver, host: str):
    """The client is pinned under the very name that it looks up, or it would ask DNS itself."""
    sender = make_sender("127.0.0.1", loopback=False, lookup=answering(["127.0.0.1"]))
    outcome = await sender.send(make_timer(receiver.url(host=host)), mine)
    assert outcome.kind is Kind.OK


async def test_permitted_host(make_sender: MakeSender, receiver: Receiver):
    """A host on the list is called whatever it resolves to; another at the same address is not."""
    sender = make_sender("hooks.internal", loopback=False, lookup=answering(["127.0.0.1"]))
    outcome = await sender.send(make_timer(receiver.url(host="hooks.internal")), mine)
    assert outcome.kind is Kind.OK
    outcome = await sender.send(make_timer(receiver.url(host="other.internal")), mine)
    assert outcome.kind is Kind.EGRESS


@pytest.mark.promise("permitted-addresses")
@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 305, 306, 307, 308, 399])
@pytest.mark.parametrize("allow", ["127.0.0.1", "127.0.0.0/8"], ids=["inside", "permitted"])
async def test_redirect_is_not_followed(
    make_sender: MakeSender, receiver: Receiver, status: int, allow: str
):
    """A receiver sends Duetime nowhere: neither where it may not go, nor where it may."""
    async with Receiver(host="127.0.0.2") as other:
        sender = make_sender(allow, loopback=False)
        location = other.url(host="127.0.0.2")
        timer = make_timer(receiver.url(f"/status/{status}?Location={location}"))
        outcome = await sender.send(timer, mine)
        assert outcome.error == f"redirect to {location} was not followed (HTTP {status})"
        assert (outcome.kind, outcome.retryable) == (Kind.HTTP, False)
        assert other.connections == 0


@pytest.mark.promise("permitted-addresses")
@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://127.0.0.1:{port}#@8.8.8.8/", "127.0.0.1"),
        ("http://127.0.0.1:{port}?@8.8.8.8/", "127.0.0.1"),
        ("http://127.0.0.1:{port}\\@8.8.8.8/", "127.0.0.1"),
        ("http://127.0.0.1:{port}/\\8.8.8.8/..", "127.0.0.1"),
        ("http://127.0.0.1:{port}/@8.8.8.8", "127.0.0.1"),
        ("HTTP://127.0.0.1:0{port}//8.8.8.8/", "127.0.0.1"),
    ],
)
async def test_what_is_judged_is_what_would_be_called(
    make_sender: MakeSender, receiver: Receiver, url: str, host: str
):
    """However a URL is to be misread, the guard and the connection read the same host in it."""
    timer = make_timer(url.format(port=receiver.port))
    outcome = await make_sender(loopback=False).send(timer, mine)
    assert outcome.error == f"{host} {HINT}"
    assert receiver.connections == 0
    await make_sender("127.0.0.1").send(timer, mine)
    assert receiver.requests[0].headers["host"] == f"{host}:{receiver.port}"


@pytest.mark.promise("permitted-addresses")
@pytest.mark.parametrize(("port_of_the_rule", "is_sent"), [(0, True), (1, False)])
async def test_port_of_a_rule(
    make_sender: MakeSender, receiver: Receiver, port_of_the_rule: int, *, is_sent: bool
):
    """A rule with a port opens that port, and not the one beside it."""
    allow = f"127.0.0.1:{receiver.port - port_of_the_rule}"
    outcome = await make_sender(allow, loopback=False).send(make_timer(receiver.url()), mine)
    assert outcome.kind is (Kind.OK if is_sent else Kind.EGRESS)
    assert bool(receiver.connections) is is_sent


@pytest.mark.promise("permitted-addresses")
async def test_denied_though_it_is_permitted(make_sender: MakeSender, receiver: Receiver):
    """What the operator has denied is denied under each of its names, and says so."""
    sender = make_sender("127.0.0.0/8", deny="127.0.0.1", lookup=answering(["127.0.0.1"]))
    said = "may not be called; the operator has denied it with EGRESS_DENY"
    outcome = await sender.send(make_timer(receiver.url()), mine)
    assert (outcome.kind, outcome.error) == (Kind.EGRESS, f"127.0.0.1 {said}")
    outcome = await sender.send(make_timer(receiver.url(host="a.example")), mine)
    assert outcome.error == f"127.0.0.1, the address of a.example, {said}"
    outcome = await sender.send(make_timer(receiver.url(host="[::ffff:127.0.0.1]")), mine)
    assert outcome.error == f"::ffff:7f00:1 {said}"
    assert receiver.connections == 0


@pytest.mark.promise("permitted-addresses")
async def test_public_address_that_is_not_listed(make_sender: MakeSender):
    """Where only some of what is public may be called, the sentence says which list is meant."""
    sender = make_sender(public="partner.example", lookup=answering(["8.8.8.8"]))
    outcome = await sender.send(make_timer("https://other.example/"), mine)
    where = "8.8.8.8, the address of other.example,"
    assert outcome.error == f"{where} may not be called; {HINT_FOR_PUBLIC}"


async def test_next_permitted_address_after_a_refused_connection(
    make_sender: MakeSender, receiver: Receiver
):
    """Nothing was sent to an address that refused, so the next one is tried, and remembered."""
    asked = []

    def is_mine() -> bool:
        asked.append(len(receiver.requests))
        return True

    sender = make_sender(lookup=answering(["::1", "127.0.0.9", "127.0.0.1"]))
    timer = make_timer(receiver.url(host="localhost"))
    assert (await sender.send(timer, is_mine)).kind is Kind.OK
    assert asked == [0, 0, 0, 0]  # before each connection, and before the request
    assert (await sender.send(timer, is_mine)).kind is Kind.OK
    assert asked == [0, 0, 0, 0, 1]  # at once at the one that worked
    assert receiver.connections == 1


async def test_localhost_as_the_system_resolves_it(sender: HttpSender, receiver: Receiver):
    """Whether the machine puts ::1 or 127.0.0.1 first, localhost is reached."""
    outcome = await sender.send(make_timer(receiver.url(host="localhost")), mine)
    assert outcome.kind is Kind.OK


async def test_every_address_refuses(sender: HttpSender, make_sender: MakeSender):
    """If all refuse, the last refusal is told."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        sender = make_sender(lookup=answering(["127.0.0.1", "127.0.0.9"]))
        outcome = await sender.send(make_timer(f"http://two.example:{port}/"), mine)
    assert outcome.error == f"connection refused by 127.0.0.9:{port}"


async def test_name_with_very_many_addresses(make_sender: MakeSender):
    """Who owns a name cannot have Duetime knock at every door of a network."""
    port, asked = free_port(), []
    sender = make_sender(lookup=lambda _: [f"127.0.9.{n}" for n in range(1, 255)])
    timer = make_timer(f"http://many.example:{port}/")
    outcome = await sender.send(timer, lambda: asked.append(1) or True)
    assert outcome.kind is Kind.NETWORK
    assert len(asked) == MOST_ADDRESSES


async def test_no_second_address_once_something_was_sent(
    make_sender: MakeSender, receiver: Receiver
):
    """A connection that broke after the request was written is not tried elsewhere."""
    asked = []
    sender = make_sender(lookup=answering(["127.0.0.1", "127.0.0.2"]))
    timer = make_timer(receiver.url("/reset", host="two.example"))
    outcome = await sender.send(timer, lambda: asked.append(1) or True)
    assert outcome.kind is Kind.NETWORK
    assert len(receiver.requests) == 1
    assert len(asked) == 2  # before the connection, and before the request


@pytest.mark.promise("stalled-sends-nothing")
async def test_lost_claim_between_two_addresses(make_sender: MakeSender, receiver: Receiver):
    """The claim is asked for again before the second address is tried."""
    claims = [False, True]
    sender = make_sender(lookup=answering(["127.0.0.9", "127.0.0.1"]))
    timer = make_timer(receiver.url(host="two.example"))
    assert (await sender.send(timer, claims.pop)).kind is Kind.UNSENT
    assert receiver.connections == 0


@pytest.mark.promise("stalled-sends-nothing")
async def test_claim_lost_while_connecting(sender: HttpSender, receiver: Receiver):
    """A claim that ran out while the connection was made: nothing is sent on it."""
    claims = [False, True]
    timer = make_timer(receiver.url())
    assert (await sender.send(timer, claims.pop)).kind is Kind.UNSENT
    assert receiver.requests == []
    assert (await sender.send(timer, mine)).kind is Kind.OK
    assert receiver.connections == 1


async def test_lost_claim(sender: HttpSender, receiver: Receiver):
    """Without a claim nothing reaches the socket."""
    outcome = await sender.send(make_timer(receiver.url()), lambda: False)
    assert outcome.kind is Kind.UNSENT
    assert not outcome.retryable
    assert receiver.connections == 0
