"""The resolver: asks once for many, remembers for a while, forgets in time."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from duetime.delivery.lookups import MOST_OF_A_DOMAIN
from duetime.delivery.resolver import Resolver, system_lookup
from duetime.testing import FakeClock


class Zone:
    """A look-up that counts, and answers as it was told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.addresses: list[str] | Exception = ["192.0.2.1", "2001:db8::1"]
        self.open = threading.Event()
        self.open.set()

    def lookup(self, host: str) -> list[str]:
        self.asked.append(host)
        self.open.wait(10)
        if isinstance(self.addresses, Exception):
            raise self.addresses
        return self.addresses


@pytest.fixture
def zone() -> Zone:
    return Zone()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def resolver(clock: FakeClock, zone: Zone) -> Iterator[Resolver]:
    resolver = Resolver(clock, zone.lookup, size=3)
    yield resolver
    resolver.close()


async def test_answer_is_remembered(resolver: Resolver, zone: Zone, clock: FakeClock):
    """A name is looked up once, and again when the answer is 30 s old."""
    answer = await resolver.resolve("a.example", 5)
    assert answer
    assert answer.addresses == ("192.0.2.1", "2001:db8::1")
    clock.advance(29_999)
    assert await resolver.resolve("a.example", 5) is answer
    clock.advance(1)
    assert resolver.remembered("a.example") is None
    assert await resolver.resolve("a.example", 5) is not answer
    assert zone.asked == ["a.example"] * 2


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (UnicodeError("label too long"), "label too long"),
        ([], "it has no address"),
    ],
)
async def test_failure_is_remembered_briefly(
    resolver: Resolver, zone: Zone, clock: FakeClock, failure, error: str
):
    """A name that cannot be resolved is not asked for again and again, but soon enough."""
    zone.addresses = failure
    answer = await resolver.resolve("a.example", 5)
    assert answer
    assert (answer.addresses, answer.error) == ((), error)
    clock.advance(1999)
    assert await resolver.resolve("a.example", 5) is answer
    zone.addresses = ["192.0.2.1"]
    clock.advance(1)
    again = await resolver.resolve("a.example", 5)
    assert again
    assert again.error is None


async def test_concurrent_callers_share_a_lookup(resolver: Resolver, zone: Zone):
    """Many who ask at once wait for one look-up, even if the first of them gives up."""
    zone.open.clear()
    waiting = [asyncio.create_task(resolver.resolve("a.example", 5)) for _ in range(10)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    zone.open.set()
    answers = await asyncio.gather(*waiting[1:])
    assert len({id(answer) for answer in answers}) == 1
    assert zone.asked == ["a.example"]


@pytest.mark.promise("bounded-memory")
async def test_memory_is_bounded(resolver: Resolver):
    """The resolver remembers so many names, and the oldest answer goes first."""
    for host in ("a", "b", "c", "d"):
        await resolver.resolve(host, 5)
    assert resolver.remembered("a") is None
    assert all(map(resolver.remembered, "bcd"))


async def test_late_answer_is_kept(resolver: Resolver, zone: Zone, clock: FakeClock):
    """One who cannot wait any longer goes without; the answer serves the next."""
    zone.open.clear()
    impatient = asyncio.create_task(resolver.resolve("a.example", 5))
    await asyncio.sleep(0)
    patient = asyncio.create_task(resolver.resolve("a.example", 50))
    await asyncio.sleep(0)
    clock.advance(5000)
    assert await impatient is None
    zone.open.set()
    assert await patient is resolver.remembered("a.example") is not None
    assert zone.asked == ["a.example"]


async def test_old_answer_while_the_name_servers_are_slow(
    resolver: Resolver, zone: Zone, clock: FakeClock
):
    """Who asks again waits for a second, and then goes by the answer from before."""
    known = await resolver.resolve("a.example", 5)
    clock.advance(31_000)
    zone.open.clear()
    asking = asyncio.create_task(resolver.resolve("a.example", 5))
    await asyncio.sleep(0)
    clock.advance(1000)
    assert await asking is known
    zone.addresses = ["192.0.2.7"]
    zone.open.set()
    later = await resolver.resolve("a.example", 5)
    assert later
    assert later.addresses == ("192.0.2.7",)


async def test_old_answer_while_the_name_servers_are_away(
    resolver: Resolver, zone: Zone, clock: FakeClock
):
    """A failure that says nothing about the name does not replace what is known, for a while."""
    known = await resolver.resolve("a.example", 5)
    clock.advance(31_000)
    zone.addresses = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    assert await resolver.resolve("a.example", 5) is known
    assert resolver.remembered("a.example") is known  # nobody waits for the next failure
    clock.advance(2000)
    assert resolver.remembered("a.example") is None
    clock.advance(600_000)
    answer = await resolver.resolve("a.example", 5)
    assert answer
    assert answer.error == "Temporary failure in name resolution"


async def test_name_that_is_gone(resolver: Resolver, zone: Zone, clock: FakeClock):
    """Where the name servers say that there is no such name, what was known counts no more."""
    await resolver.resolve("a.example", 5)
    clock.advance(31_000)
    zone.addresses = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    answer = await resolver.resolve("a.example", 5)
    assert answer
    assert answer.error == "Name or service not known"


@pytest.mark.parametrize(("took", "believed"), [(500, 2_000), (12_000, 12_000), (90_000, 30_000)])
async def test_slow_failure_is_remembered_for_as_long_as_it_took(
    resolver: Resolver, zone: Zone, clock: FakeClock, took: int, believed: int
):
    """So names that are dead do not keep every thread busy."""
    zone.addresses = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    zone.open.clear()
    asking = asyncio.create_task(resolver.resolve("dead.example", 100))
    await asyncio.sleep(0)
    clock.advance(took)
    zone.open.set()
    await asking
    clock.advance(believed - 1)
    assert resolver.remembered("dead.example")
    clock.advance(1)
    assert resolver.remembered("dead.example") is None


async def crowd(resolver: Resolver, count: int, seconds: float = 5) -> list[asyncio.Task[Any]]:
    """Ask for so many names of one domain at once."""
    resolver._size = count  # the answers to all of them are remembered
    names = [f"n{number}.dead.example" for number in range(count)]
    asking = [asyncio.create_task(resolver.resolve(name, seconds)) for name in names]
    await asyncio.sleep(0)
    return asking


@pytest.mark.promise("only-itself")
async def test_domain_whose_name_servers_hang(clock: FakeClock):
    """However many names of it are asked for, those of others are found at once."""
    release = threading.Event()

    def lookup(host: str) -> list[str]:
        if host.endswith("dead.example"):
            release.wait(10)
        return ["192.0.2.1"]

    resolver = Resolver(clock, lookup)
    asking = await crowd(resolver, 1000)
    answer = await resolver.resolve("alive.example.org", 5)
    assert answer
    assert answer.addresses == ("192.0.2.1",)
    release.set()
    assert {found.addresses for found in await asyncio.gather(*asking)} == {("192.0.2.1",)}
    assert not resolver._pending
    assert not resolver._lookups._under_way
    resolver.close()


@pytest.mark.promise("bounded-memory")
async def test_who_no_longer_waits_is_not_looked_up(
    resolver: Resolver, zone: Zone, clock: FakeClock
):
    """What is in line when nobody is left to hear of it is dropped, and can be asked for again."""
    zone.open.clear()
    asking = await crowd(resolver, 100)
    asking[50].cancel()
    clock.advance(5000)
    await asyncio.gather(*asking, return_exceptions=True)
    assert len(resolver._pending) == MOST_OF_A_DOMAIN
    assert not resolver._lookups._lines
    zone.open.set()
    assert await resolver.resolve("n99.dead.example", 5)
    assert len(zone.asked) == MOST_OF_A_DOMAIN + 1


async def test_closing_ends_the_line(resolver: Resolver, zone: Zone):
    """Whoever waits in it hears that the look-up was given up."""
    zone.open.clear()
    asking = await crowd(resolver, MOST_OF_A_DOMAIN + 3)
    resolver.close()
    zone.open.set()
    answers = await asyncio.gather(*asking)
    given_up = [answer for answer in answers if answer.error == "the look-up was given up"]
    assert len(given_up) >= 3


async def test_no_thread_for_the_next_in_line(
    resolver: Resolver, zone: Zone, monkeypatch: pytest.MonkeyPatch
):
    """It is told so, and is asked for anew a little later."""
    zone.open.clear()
    asking = await crowd(resolver, MOST_OF_A_DOMAIN + 1)
    monkeypatch.setattr(resolver._lookups._threads, "submit", _no_thread)
    zone.open.set()
    answers = await asyncio.gather(*asking)
    assert [answer.error for answer in answers if answer.error] == ["the look-up was given up"]
    assert not resolver._pending


async def test_no_thread_to_be_had(resolver: Resolver, zone: Zone, monkeypatch: pytest.MonkeyPatch):
    """A look-up that could not even begin is not waited for by the next one."""
    with monkeypatch.context() as patched:
        patched.setattr(resolver._lookups._threads, "submit", _no_thread)
        with pytest.raises(RuntimeError):
            await resolver.resolve("a.example", 5)
    answer = await resolver.resolve("a.example", 5)
    assert answer
    assert answer.error is None


def _no_thread(*_: object) -> None:
    raise RuntimeError("can't start new thread")


def test_the_system_resolves_localhost():
    """The machine's own resolver is asked, and each address is named once."""
    found = system_lookup("localhost")
    assert {"127.0.0.1", "::1"} & set(found)
    assert len(found) == len(set(found))


@pytest.mark.parametrize("host", ["nope.invalid", "a" * 253, "a..b"])
def test_the_system_does_not_know(host: str):
    """What does not exist is a look-up error, not a crash."""
    with pytest.raises(socket.gaierror):
        system_lookup(host)
