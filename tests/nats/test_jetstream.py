"""JetStream over a connection of ours: streams, acknowledged messages, and pulled ones."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from duetime.clock import SystemClock
from duetime.errors import JetStreamError, NatsUnavailable, NoResponders, NotPermitted
from duetime.nats import headers
from duetime.nats.connection import Connection
from duetime.nats.jetstream import NO_STREAM, Ack, JetStream, Outgoing
from tests.nats.conftest import Connected, Stranger, answering, heard_of
from tests.servers.fixtures import OwnServer
from tests.servers.nats import NatsServer
from tests.waiting import eventually, until

WITHIN = 10.0


def config(stream: str, **more: object) -> dict[str, object]:
    return {"name": stream, "subjects": [f"{stream}.>"], "storage": "file", **more}


def with_id(name: str) -> bytes:
    return headers.written({"Nats-Msg-Id": name})


@pytest.fixture
async def ours(url: str, connected: Connected) -> Connection:
    return await connected(url)


@pytest.fixture
def jetstream(ours: Connection) -> JetStream:
    return JetStream(ours, SystemClock())


@pytest.fixture
async def stream(ours: Connection, jetstream: JetStream, subject: str) -> AsyncIterator[str]:
    """An empty stream, of all below its own name."""
    await jetstream.ensure_stream(config(subject))
    yield subject
    await ours.request(f"$JS.API.STREAM.DELETE.{subject}", b"", within=WITHIN)


async def test_a_stream_is_made_once(jetstream: JetStream, stream: str):
    """One that is there is left as it is, also where it differs from what is wanted."""
    await jetstream.ensure_stream(config(stream, max_msgs=5))
    info = await jetstream.stream_info(stream)
    assert info["config"]["max_msgs"] == -1
    assert info["config"]["subjects"] == [f"{stream}.>"]


async def test_those_who_make_it_at_once_all_have_it(jetstream: JetStream, stream: str):
    """Also if they differ: the first decides."""
    name = f"{stream}_2"
    await asyncio.gather(
        *(jetstream.ensure_stream(config(name, max_msgs=number + 1)) for number in range(8))
    )
    assert (await jetstream.stream_info(name))["config"]["name"] == name
    await jetstream._ask(f"STREAM.DELETE.{name}")


async def test_there_is_no_such_stream(jetstream: JetStream, subject: str):
    """The error has JetStream's own code and words."""
    with pytest.raises(JetStreamError, match="stream not found") as caught:
        await jetstream.stream_info(subject)
    assert caught.value.code == NO_STREAM


async def test_each_message_is_acknowledged(jetstream: JetStream, stream: str, stranger, url):
    """In the order in which they were given; a stranger finds them there in the same."""
    messages = [Outgoing(f"{stream}.{number}", b"%d" % number) for number in range(500)]
    acks = await jetstream.publish_all(messages, WITHIN)
    assert acks == [Ack(stream, number + 1) for number in range(500)]
    theirs = (await stranger(url)).jetstream()
    for number in (0, 250, 499):
        found = await theirs.get_msg(stream, number + 1)
        assert (found.subject, found.data) == (f"{stream}.{number}", b"%d" % number)
    assert await jetstream.publish_all([], WITHIN) == []


async def test_several_on_one_connection_do_not_take_each_others_answers(
    ours: Connection, jetstream: JetStream, stream: str
):
    """A node publishes callbacks and events over one."""
    other = JetStream(ours, SystemClock())
    one = [Outgoing(f"{stream}.a", b"%d" % number) for number in range(50)]
    two = [Outgoing(f"nobody.{stream}", b"") for _ in range(50)]
    stored, refused = await asyncio.gather(
        jetstream.publish_all(one, WITHIN), other.publish_all(two, WITHIN)
    )
    assert stored == [Ack(stream, number + 1) for number in range(50)]
    assert {type(answer) for answer in refused} == {NoResponders}


async def test_a_repeat_is_dropped_by_its_id(jetstream: JetStream, stream: str):
    """And acknowledged as what it is."""
    name = uuid.uuid4().hex
    message = Outgoing(f"{stream}.a", b"once", with_id(name))
    assert await jetstream.publish(message, WITHIN) == Ack(stream, 1)
    assert await jetstream.publish(message, WITHIN) == Ack(stream, 1, is_duplicate=True)
    assert (await jetstream.stream_info(stream))["state"]["messages"] == 1


async def test_one_that_fails_fails_alone(jetstream: JetStream, stream: str):
    """No stream, too large, and refused by the stream: each has its own error in its own place."""
    expecting = headers.written({"Nats-Expected-Last-Sequence": "77"})
    answers = await jetstream.publish_all(
        [
            Outgoing(f"{stream}.a", b"1"),
            Outgoing(f"nobody.{stream}", b"2"),
            Outgoing(f"{stream}.b", b"3", expecting),
            Outgoing(f"{stream}.c", b"4"),
        ],
        WITHIN,
    )
    assert answers[0] == Ack(stream, 1)
    assert isinstance(answers[1], NoResponders)
    assert isinstance(answers[2], JetStreamError)
    assert "wrong last sequence" in str(answers[2])
    assert answers[3] == Ack(stream, 2)


async def test_who_is_no_stream_is_not_taken_for_one(
    jetstream: JetStream, subject: str, stranger: Stranger, url: str
):
    """Whatever it answers."""
    theirs = await stranger(url)

    async def answer(message):
        await message.respond(message.data)

    await theirs.subscribe(subject, cb=answer)
    await heard_of(theirs)
    answers = await jetstream.publish_all(
        [Outgoing(subject, each) for each in (b"thanks", b"{}", b"[]", b"")], WITHIN
    )
    assert [str(each) for each in answers] == ["what answered is no stream"] * 4


async def test_what_is_not_acknowledged_is_unknown(
    jetstream: JetStream, subject: str, stranger: Stranger, url: str
):
    """Nobody waits for ever, and the connection stays."""
    theirs = await stranger(url)
    await theirs.subscribe(subject)
    await heard_of(theirs)
    [answer] = await jetstream.publish_all([Outgoing(subject, b"")], 0.1)
    assert isinstance(answer, NatsUnavailable)
    assert str(answer) == "JetStream did not acknowledge it in time"
    await jetstream._nats.flush(WITHIN)


async def test_what_is_not_permitted_is_told_at_once(own_server: OwnServer, connected: Connected):
    """Nobody waits for an acknowledgement that cannot come."""
    server = own_server(
        "nats",
        configuration='authorization { users: [ { user: "a", password: "b", '
        'permissions: { publish: { deny: "closed" } } } ] }',
    )
    ours = await connected(f"nats://a:b@127.0.0.1:{server.port}")
    jetstream = JetStream(ours, SystemClock())
    [answer] = await jetstream.publish_all([Outgoing("closed", b"")], 600)
    assert isinstance(answer, NotPermitted)


async def test_without_jetstream(own_server: OwnServer, connected: Connected):
    """A server that has none says so."""
    ours = await connected(own_server("nats", jetstream=False).url())
    with pytest.raises(NoResponders, match="has no JetStream"):
        await JetStream(ours, SystemClock()).ensure_stream(config("any"))


async def test_a_lost_connection_fails_what_waits(own: NatsServer, connected: Connected):
    """At once, and not when the time is up."""
    ours = await connected(own.url())
    jetstream = JetStream(ours, SystemClock())
    heard: list[object] = []
    ours.subscribe("silent", heard.append)
    await ours.flush(WITHIN)
    waiting = asyncio.create_task(jetstream.publish_all([Outgoing("silent", b"")], 600))
    await until(lambda: heard, "the message to arrive", every=0.005)
    own.crash()
    [answer] = await asyncio.wait_for(waiting, WITHIN)
    assert isinstance(answer, NatsUnavailable)


async def test_messages_are_pulled(jetstream: JetStream, stream: str):
    """As many as were asked for, in their order, and the rest by the next pull."""
    await jetstream.ensure_consumer(stream, {"durable_name": "reader", "ack_policy": "explicit"})
    await jetstream.publish_all([Outgoing(f"{stream}.a", b"%d" % n) for n in range(7)], WITHIN)
    first = await jetstream.fetch(stream, "reader", 5, WITHIN)
    second = await jetstream.fetch(stream, "reader", 5, WITHIN)
    assert [each.message.data for each in first + second] == [b"%d" % n for n in range(7)]
    assert [each.sequence for each in first + second] == [*range(1, 8)]
    assert {each.deliveries for each in first + second} == {1}
    assert await jetstream.fetch(stream, "reader", 5, 0) == []
    assert await jetstream.fetch(stream, "reader", 5, 0.05) == []


async def test_one_that_comes_meanwhile_is_pulled(jetstream: JetStream, stream: str):
    """Who waits has it as soon as it is there."""
    info = await jetstream.ensure_consumer(stream, {"ack_policy": "explicit"})
    waiting = asyncio.create_task(jetstream.fetch(stream, info["name"], 5, WITHIN))
    await jetstream.publish(Outgoing(f"{stream}.a", b"late"), WITHIN)
    assert [each.message.data for each in await waiting] == [b"late"]


async def test_what_is_said_of_a_pulled_message_counts(jetstream: JetStream, stream: str):
    """Acknowledged and terminated ones are gone, others come again, and say how often."""
    order = {"durable_name": "reader", "ack_policy": "explicit", "ack_wait": 30_000_000_000}
    await jetstream.ensure_consumer(stream, order)
    await jetstream.ensure_consumer(stream, order)
    await jetstream.publish_all([Outgoing(f"{stream}.a", b"%d" % n) for n in range(4)], WITHIN)
    slow, done, poison, again = await jetstream.fetch(stream, "reader", 4, WITHIN)
    slow.in_progress()
    slow.ack()
    done.ack()
    poison.term("it cannot be read")
    again.nak()
    [repeated] = await jetstream.fetch(stream, "reader", 4, WITHIN)
    assert (repeated.message.data, repeated.deliveries) == (b"3", 2)
    repeated.nak(0.05)
    [repeated] = await jetstream.fetch(stream, "reader", 4, WITHIN)
    assert repeated.deliveries == 3
    repeated.ack()

    async def is_nothing_left() -> bool:
        info = await jetstream._ask(f"CONSUMER.INFO.{stream}.reader")
        return (info["num_ack_pending"], info["num_pending"]) == (0, 0)

    await eventually(is_nothing_left, "all to be done with")


async def test_headers_of_pulled_messages(jetstream: JetStream, stream: str):
    """They come along."""
    await jetstream.ensure_consumer(stream, {"durable_name": "reader", "ack_policy": "explicit"})
    await jetstream.publish(Outgoing(f"{stream}.a", b"", with_id("one")), WITHIN)
    [pulled] = await jetstream.fetch(stream, "reader", 1, WITHIN)
    assert pulled.message.headers == {"Nats-Msg-Id": "one"}


async def test_a_consumer_that_is_gone(jetstream: JetStream, stream: str):
    """Who pulls from it is told; to delete it twice does no harm."""
    await jetstream.ensure_consumer(stream, {"durable_name": "reader", "ack_policy": "explicit"})
    waiting = asyncio.create_task(jetstream.fetch(stream, "reader", 5, WITHIN))

    async def is_waiting() -> bool:
        return (await jetstream._ask(f"CONSUMER.INFO.{stream}.reader"))["num_waiting"] > 0

    await eventually(is_waiting, "the pull to wait", every=0.005)
    await jetstream.delete_consumer(stream, "reader")
    await jetstream.delete_consumer(stream, "reader")
    with pytest.raises(JetStreamError, match="Consumer Deleted"):
        await waiting
    with pytest.raises(JetStreamError, match="no such consumer"):
        await jetstream.fetch(stream, "reader", 5, WITHIN)


async def test_acknowledged_messages_survive_a_crash(own: NatsServer, connected: Connected):
    """And the connection, its subscription for answers included, comes back by itself."""
    ours = await connected(own.url())
    jetstream = JetStream(ours, SystemClock())
    await jetstream.ensure_stream(config("kept"))
    acks = await jetstream.publish_all([Outgoing("kept.a", b"") for _ in range(100)], WITHIN)
    assert all(isinstance(each, Ack) for each in acks)
    own.crash()
    own.start()
    await answering(ours)
    assert (await jetstream.stream_info("kept"))["state"]["messages"] == 100
    assert await jetstream.publish(Outgoing("kept.a", b""), WITHIN) == Ack("kept", 101)
