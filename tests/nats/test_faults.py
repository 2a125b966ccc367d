"""Servers that are away, killed, paused, full or no servers at all."""

import asyncio
from collections.abc import Callable

import pytest

from duetime.clock import SystemClock
from duetime.errors import NatsUnavailable
from duetime.nats import link
from duetime.nats.connection import KEEPALIVE, Connection
from duetime.testing import FakeClock
from tests.nats.conftest import Connected, Heard, Impostor, Stranger, answering, listening
from tests.ports import deaf_port, free_port
from tests.servers.fixtures import OwnServer
from tests.servers.nats import NatsServer
from tests.waiting import settle, until

WITHIN = 10.0
INFO = b'INFO {"server_id":"x","headers":true,"max_payload":1048576}\r\n'


async def test_nobody_is_there(connected: Connected):
    """The error names every server that was tried, and why each failed."""
    with deaf_port() as one, deaf_port() as other, pytest.raises(NatsUnavailable) as caught:
        await connected(*(f"nats://us:secret@127.0.0.1:{port}" for port in (one, other)))
    for port in (one, other):
        assert f"nats://127.0.0.1:{port}: Connection refused" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_name_that_leads_nowhere(connected: Connected):
    """That is told too."""
    with pytest.raises(NatsUnavailable, match=r"nats://nowhere\.invalid:4222: "):
        await connected("nats://nowhere.invalid")


async def test_one_of_several_is_enough(url: str, connected: Connected):
    """Those that are away are passed over, whatever their order."""
    with deaf_port() as deaf:
        for _ in range(4):
            ours = await connected(f"nats://127.0.0.1:{deaf}", url)
            await ours.flush(WITHIN)


async def test_a_lost_server_is_connected_to_again(
    own: NatsServer, connected: Connected, caplog: pytest.LogCaptureFixture
):
    """Killed and started again: what listens goes on listening, and it is told once each."""
    caplog.set_level("INFO", "duetime.nats")
    ours = await connected(own.url())
    heard, lost = Heard(), []
    ours.subscribe("a.*", heard.append, queue="some")
    ours.when_lost(lambda: lost.append(1))
    ended = ours.when_lost(lambda: lost.append(2))
    ended.end()
    own.crash()
    await until(lambda: not ours.is_connected)
    with pytest.raises(NatsUnavailable, match="there is no connection"):
        ours.publish("a.b", b"while it was away")
    with pytest.raises(NatsUnavailable, match="there is no connection"):
        await ours.request("a.b", b"", within=WITHIN)
    await until(lambda: "trying again and again" in caplog.text)
    own.start()
    await answering(ours)
    ours.publish("a.b", b"after it was away")
    assert (await heard.are(1)).data == [b"after it was away"]
    assert lost == [1]
    said = [record.message for record in caplog.records if record.name == "duetime.nats"]
    assert len(said) == 4, said
    assert said[1].endswith("; connecting again")
    assert said[2].endswith("; trying again and again")
    assert said[3].startswith("connected to NATS again")


async def test_who_waits_is_told_of_the_loss(own: NatsServer, connected: Connected):
    """Flushes and requests fail at once, and nothing is left behind."""
    ours = await connected(own.url())
    ours.subscribe("silent", lambda _: None)
    await ours.flush(WITHIN)
    own.pause()
    asked = asyncio.create_task(ours.request("silent", b"", within=600))
    flushed = asyncio.create_task(ours.flush(600))
    await settle()
    own.crash()
    for each in (asked, flushed):
        with pytest.raises(NatsUnavailable, match="the connection to the NATS server was lost"):
            await asyncio.wait_for(each, WITHIN)
    assert not ours._answers


@pytest.mark.promise("cancel-holds")
async def test_nothing_is_kept_for_later(own: NatsServer, connected: Connected, stranger: Stranger):
    """What a paused server has not taken does not leave when it goes on: its sender has been told
    that it failed, and may have canceled it since.
    """
    ours = await connected(own.url())
    theirs = await stranger(own.url(), ping_interval=3600)
    heard = await listening(theirs, "a", pending_bytes_limit=1 << 30)
    own.pause()
    # More than the sockets in between can hold, so that the last of it is still here.
    large = bytes(1024 * 1024)
    published = await publish_until_full(ours, large)
    with pytest.raises(NatsUnavailable, match="did not answer in time"):
        await ours.flush(0.2)
    assert not ours.is_connected
    own.resume()
    await answering(ours)
    ours.publish("a", b"the end")
    await until(lambda: heard and heard[-1].data == b"the end")
    assert len(heard) - 1 <= published - link.MOST_UNSENT // len(large)


async def test_a_server_that_does_not_read_fills_no_memory(own: NatsServer, connected: Connected):
    """So much is kept for it, and then publishing is refused."""
    ours = await connected(own.url())
    own.pause()
    assert await publish_until_full(ours, bytes(1024 * 1024)) < 100
    own.resume()
    await ours.flush(WITHIN)
    ours.publish("a", b"")
    await ours.flush(WITHIN)


async def test_a_server_that_hangs_is_noticed(own: NatsServer):
    """When two PINGs stay unanswered; another one is looked for, until it is back."""
    clock = FakeClock()
    ours = Connection([own.url()], clock)
    await ours.connect()
    for _ in range(5):  # while it answers, it is kept
        clock.advance(int(KEEPALIVE * 1000))
        await settle()
        await ours.flush(600)
    own.pause()
    for expected in (True, True, False):
        assert ours.is_connected
        clock.advance(int(KEEPALIVE * 1000))
        await settle()
        assert ours.is_connected is expected
    own.resume()
    await _advance_until(clock, lambda: ours.is_connected)
    await ours.flush(600)
    await ours.close()


async def test_pauses_grow(own: NatsServer):
    """A server that is away is not asked without end, and as soon as it is back it is used."""
    clock = FakeClock()
    ours = Connection([own.url()], clock)
    await ours.connect()
    tries = 0
    opened = ours._open_any

    async def count(within: float) -> link.Link:
        nonlocal tries
        tries += 1
        return await opened(within)

    ours._open_any = count
    own.crash()
    await until(lambda: not ours.is_connected, every=0.01)
    for _ in range(600):  # a minute
        clock.advance(100)
        await asyncio.sleep(0.001)
    assert 10 <= tries <= 40
    own.start()
    await _advance_until(clock, lambda: ours.is_connected)
    await ours.close()


async def test_another_server_of_the_cluster_takes_over(own_server: OwnServer, stranger):
    """One that only the first server told of."""
    routes = [free_port(), free_port()]
    cluster = "cluster {{ name: c, listen: 127.0.0.1:{}, routes: [ nats://127.0.0.1:{} ] }}"
    first = own_server("nats", jetstream=False, configuration=cluster.format(*routes))
    second = own_server("nats", jetstream=False, configuration=cluster.format(*routes[::-1]))
    ours = Connection([first.url()], SystemClock())
    await ours.connect()
    await until(lambda: ours._others)
    first.crash()
    await answering(ours)
    assert ours.server == second.url()
    await ours.close()


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it sent what no NATS server says"),
        (b"\x00\x01\x02" * 50_000, "it sent a line that is too long"),
        (b"INFO {not json}\r\n", "it sent what no NATS server says"),
        (b"INFO []\r\n", "it sent what no NATS server says"),
        (b'INFO {"headers":false}\r\n', "its version is too old"),
        (INFO + b"MSG a 1 99999999999\r\n", "it sent a message that is too large"),
        (INFO + b"-ERR 'maximum connections exceeded'\r\n" + b"x\r\n", "it sent what no NATS"),
    ],
)
async def test_what_is_no_server(
    says: bytes, reason: str, impostor: Impostor, connected: Connected
):
    """Is not spoken to, with a reason."""
    with pytest.raises(NatsUnavailable, match=reason):
        await connected(f"nats://{await impostor(says)}")


async def test_one_who_says_nothing(impostor: Impostor):
    """Is not waited for for ever."""
    address = await impostor(b"")
    ours = Connection([f"nats://{address}"], SystemClock())
    with pytest.raises(NatsUnavailable, match="it did not answer in time"):
        await ours.connect(0.1)


async def test_one_who_asks_and_does_not_listen(
    own: NatsServer, connected: Connected, monkeypatch: pytest.MonkeyPatch
):
    """A server that wants answers without end, and reads none, is given up."""
    ours = await connected(own.url())
    held = ours._link
    assert held is not None
    own.pause()
    await publish_until_full(ours, bytes(1024 * 1024))
    held.data_received(b"PING\r\n")
    await settle()
    assert not held.is_lost
    monkeypatch.setattr(link, "MOST_UNSENT", link.MOST_UNSENT // 2)  # as if twice as much waited
    held.data_received(b"PING\r\n")
    await settle()
    assert held._why == "it does not read what is sent to it"


async def test_garbage_in_mid_conversation(
    impostor: Impostor, connected: Connected, caplog: pytest.LogCaptureFixture
):
    """The link is dropped, the reason is logged, and those who wait are told."""
    address = await impostor(INFO, b"PONG\r\n")
    ours = await connected(f"nats://{address}")
    assert ours.is_connected
    assert ours._link is not None
    waiting = asyncio.create_task(ours.flush(WITHIN))
    await settle(2)
    ours._link.data_received(b"rubbish\r\n")
    with pytest.raises(NatsUnavailable, match="it sent what no NATS server says"):
        await waiting
    assert "was lost: it sent what no NATS server says" in caplog.text


async def publish_until_full(ours: Connection, data: bytes) -> int:
    """Publish until that is refused, and tell how many were not."""
    for published in range(1000):
        try:
            ours.publish("a", data)
        except NatsUnavailable as error:
            assert str(error) == "the NATS server does not keep up with what is published"  # noqa: PT017
            return published
        await asyncio.sleep(0)
    pytest.fail("it is never full")


async def _advance_until(clock: FakeClock, is_so: Callable[[], bool]) -> None:
    def look() -> bool:
        clock.advance(1000)
        return is_so()

    await until(look, every=0.01)
