"""The feed of the stream, on a real NATS server: what is relayed is heard, from any position on."""

import asyncio

import pytest

from duetime.clock import SystemClock
from duetime.errors import InvalidRequest, NatsError
from duetime.events import jetstream_feed
from duetime.events.feed import FIRST, family_of, place_of
from duetime.events.hub import Hub
from duetime.events.jetstream_feed import JetStreamFeed
from duetime.events.stream import EventStream
from duetime.events.view import encode
from duetime.events.wish import Wish
from duetime.nats.jetstream import JetStream, Outgoing
from tests.events.outboxes import event_of
from tests.factories import NOW, make_timer
from tests.waiting import eventually, until

pytestmark = pytest.mark.promise("events-heard")

MINE = Wish("default")


class Newsroom:
    """A stream of events, and a feed of it."""

    def __init__(self, connection, name: str) -> None:
        self.clock = SystemClock()
        self.nats = connection
        self.jetstream = JetStream(connection, self.clock)
        self.stream = EventStream(self.jetstream, name=name, prefix=name)
        self.feed = JetStreamFeed(self.jetstream, name, name)
        self.name = name

    async def some(self, count: int = 1, **fields) -> list[str]:
        """Publish events of as many timers."""
        return await self.publish(*(event_of(make_timer(**fields), NOW) for _ in range(count)))

    async def publish(self, *events) -> list[str]:
        assert await self.stream.publish(events) == [None] * len(events)
        return [event.id for event in events]

    async def delete(self) -> None:
        await self.nats.request(f"$JS.API.STREAM.DELETE.{self.name}", b"", within=5)

    async def consumers(self) -> int:
        return (await self.jetstream.stream_info(self.name))["state"]["consumer_count"]


async def heard(tail, count: int) -> list[str]:
    """So many events of a tail."""
    found = []
    while len(found) < count:
        found += [each.id for each in await tail.read()]
    return found


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """A tail waits for something new only briefly, so that tests see it end."""
    monkeypatch.setattr(jetstream_feed, "WAIT", 0.2)


@pytest.fixture
async def room(url, connected, subject):
    room = Newsroom(await connected(url), subject)
    await room.stream.make()
    yield room
    await room.delete()


async def test_only_what_is_new(room: Newsroom):
    """In the order of the stream, as it was published."""
    await room.some(3)
    tail = await room.feed.tail(None)
    new = await room.some(5)
    assert await heard(tail, 5) == new
    assert await tail.read() == []
    assert tail.is_level
    await tail.close()


async def test_an_event_as_it_was_published(room: Newsroom):
    """With all that filters ask."""
    event = event_of(make_timer(tenant="a", group="g.h"), NOW, tags=("x", "y"), type="due")
    await room.publish(event)
    [told] = await (await room.feed.tail(FIRST)).read()
    assert told.body == encode(event)
    assert told[1:7] == (event.id, "due", "a", "g.h", event.timer, ("x", "y"))


async def test_from_a_position_and_from_the_first(room: Newsroom, monkeypatch):
    """Exactly behind it, whoever gave it out; as far as the stream has it."""
    monkeypatch.setattr(jetstream_feed, "AT_ONCE", 4)
    written = await room.some(10)
    first = await room.feed.tail(FIRST)
    told = []
    while not first.is_level:
        told += await first.read()
    assert [each.id for each in told] == written
    second = await room.feed.tail(told[5].position)
    assert await heard(second, 4) == written[6:]
    assert second.is_level
    assert [second.has_told(each) for each in told] == [True] * 10


async def test_of_one_tenant(room: Newsroom):
    """The server leaves the others out."""
    await room.some(3, tenant="other")
    mine = await room.some(2, tenant="ten.ant")
    await room.some(3, tenant="other")
    tail = await room.feed.tail(FIRST, "ten.ant")
    assert await heard(tail, 2) == mine
    assert tail.is_level


async def test_positions_that_are_none(room: Newsroom):
    """Of the other feed, of what is gone, and of a stream that was made anew."""
    await room.some(5)
    family = family_of((await room.feed.tail(None)).position)
    with pytest.raises(InvalidRequest, match="NATS was switched on or off"):
        await room.feed.tail("outbox.ab-0198aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee")
    with pytest.raises(InvalidRequest, match="no longer kept"):
        await room.feed.tail(f"{family}-00000000000000000006")
    await room.nats.request(f"$JS.API.STREAM.PURGE.{room.name}", b'{"keep":2}', within=5)
    with pytest.raises(InvalidRequest, match="no longer kept"):
        await room.feed.tail(f"{family}-00000000000000000002")
    third = f"{family}-00000000000000000003"
    assert len(await heard(await room.feed.tail(third), 2)) == 2
    await room.delete()
    with pytest.raises(InvalidRequest, match="no longer kept"):
        await room.feed.tail(third)
    await room.stream.make()
    await room.some(5)
    with pytest.raises(InvalidRequest, match="no longer kept"):
        await room.feed.tail(third)


async def test_a_consumer_that_is_lost(room: Newsroom):
    """Another one goes on behind what was read."""
    tail = await room.feed.tail(None)
    first = await room.some(2)
    assert await heard(tail, 2) == first
    await room.jetstream.delete_consumer(room.name, tail._consumer)
    second = await room.some(2)
    with pytest.raises(NatsError):
        await tail.read()
    assert await heard(tail, 2) == second


async def test_a_message_that_was_given_out_and_did_not_arrive(room: Newsroom):
    """It is missed by its number, and read again."""
    tail = await room.feed.tail(None)
    written = await room.some(2)
    assert await heard(tail, 2) == written
    written = await room.some(6)
    lost = await room.jetstream.fetch(room.name, tail._consumer, 3, 0)  # as if by somebody else
    assert len(lost) == 3
    with pytest.raises(NatsError, match="did not arrive"):
        await tail.read()
    assert await heard(tail, 6) == written


CREATED = encode(event_of(make_timer(), NOW))


@pytest.mark.parametrize(
    ("type_", "body"),
    [
        ("created", b"no event"),
        ("updated", CREATED),
        ("created", CREATED.replace(b'"default"', b'"another"')),
        ("created%0Adata", CREATED.replace(b"created", b"created\\ndata")),
        ("created", CREATED.replace(b'","', b'",\n\n"')),
        ("created", CREATED.replace(b'","', b'",\r"')),
    ],
    ids=["no event", "type", "tenant", "lines in its type", "lines", "returns"],
)
async def test_what_is_no_event(room: Newsroom, type_, body):
    """Somebody else published it, and may say what they like: it is passed over."""
    tail = await room.feed.tail(None)
    subject = f"{room.name}.events.default.default.{type_}"
    await room.jetstream.publish(Outgoing(subject, body), 5)
    written = await room.some()
    assert await heard(tail, 1) == written


async def test_an_event_on_the_subject_of_another_tenant(room: Newsroom):
    """Whoever may publish for one tenant tells nothing to another."""
    tail = await room.feed.tail(None)
    subject = f"{room.name}.events.mallory.default.created"
    await room.jetstream.publish(Outgoing(subject, encode(event_of(make_timer(), NOW))), 5)
    written = await room.some()
    assert await heard(tail, 1) == written


async def test_it_leaves_nothing_behind(room: Newsroom):
    """A consumer goes with its tail."""
    tail = await room.feed.tail(None)
    await tail.read()
    assert await room.consumers() == 1
    await tail.close()
    await tail.close()
    assert await room.consumers() == 0


async def test_a_stream_that_is_not_there_yet(url, connected, subject):
    """Who listens hears of what comes when it is."""
    room = Newsroom(await connected(url), subject)
    tail = await room.feed.tail(None)
    with pytest.raises(NatsError):
        await tail.read()
    await room.stream.make()
    written = await room.some(2)
    assert await heard(tail, 2) == written
    await room.delete()


async def all_of(reader, count: int) -> list[str]:
    """What a reader hears."""
    found = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += [each.id for each in await reader.next(1.0)]
    return found


async def test_through_the_hub(room: Newsroom):
    """Live, by who goes on, and at another node: exactly, since all of them see one stream."""
    here, there = Hub(room.feed, room.clock), Hub(room.feed, room.clock)
    reader = await here.listen(MINE, None)
    await room.some(2, tenant="other")
    first = await room.some(3)
    assert await all_of(reader, 3) == first
    await reader.close()
    second = await room.some(3)
    for hub in (here, there):
        again = await hub.listen(MINE, reader.position)
        assert await all_of(again, 3) == second
        third = await room.some(1)
        assert await all_of(again, 1) == third
        second += third
    everything = await here.listen(MINE, None, follow=False)
    assert await all_of(everything, 8) == first + second
    assert await everything.next(5.0) is None
    await here.close()
    await there.close()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["crash", "stop", "pause"])
async def test_a_server_that_goes_and_comes_back(own, connected, subject, how, monkeypatch):
    """Readers wait, and then hear all of it, each once, in order."""
    room = Newsroom(await connected(own.url()), subject)
    await room.stream.make()
    hub = Hub(room.feed, room.clock)
    reader = await hub.listen(MINE, None)
    written = await room.some(50)
    found = await all_of(reader, 50)
    getattr(own, how)()
    if how == "pause":
        assert await reader.next(0.5) == []
        own.resume()
    else:
        await until(lambda: not room.nats.is_connected)
        assert await reader.next(0.5) == []
        own.start()

    async def publish() -> bool:
        try:
            written.extend(await room.some(50))
        except (NatsError, AssertionError):
            return False
        return True

    await eventually(publish, "a server that takes events")
    found += await all_of(reader, len(written) - len(found))
    assert len(found) == len(set(found))
    assert set(written) <= set(found)
    await hub.close()


async def test_a_stream_that_is_made_anew(room: Newsroom):
    """Its numbers begin again, and those who listen hear all of it."""
    hub = Hub(room.feed, room.clock)
    reader = await hub.listen(MINE, None)
    before = await room.some(5)
    assert await all_of(reader, 5) == before
    await room.delete()
    await room.stream.make()
    written = await room.some(3)
    assert await all_of(reader, 3) == written
    late = await hub.listen(MINE, reader.position)
    await room.some(2, tenant="other")
    written = await room.some(1)
    assert await all_of(late, 1) == written
    assert await all_of(reader, 1) == written
    await hub.close()


async def test_positions_sort(room: Newsroom):
    """As texts, also where numbers get longer."""
    await room.some(12)
    told = await (await room.feed.tail(FIRST)).read()
    positions = [each.position for each in told]
    assert positions == sorted(positions)
    assert len({len(place_of(each)) for each in positions}) == 1
