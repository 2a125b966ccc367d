"""The relay: what is in the outbox is published in order, and forgotten when the stream has it."""

import logging

import pytest
from msgspec.structs import replace
from nats.js import api

from duetime import ids, model
from duetime.errors import NoResponders, StoreUnavailable
from duetime.events import relay as relays
from duetime.events import round as rounds
from duetime.events.relay import FIRST_PAUSE, LONGEST_PAUSE, Relay
from duetime.events.stream import EventStream
from duetime.events.view import encode
from duetime.outbox import Outbox
from duetime.stores import Change, Insert
from duetime.testing import FlakyStore
from tests.events.conftest import Post, waiting
from tests.events.lives import MANY, live
from tests.events.reading import check_published
from tests.factories import NOW, make_spec, make_timer
from tests.waiting import settle

pytestmark = pytest.mark.promise("events-arrive")


async def test_events_arrive(post):
    """Each on the subject of its tenant, group and type, as everybody sees it; then they go."""
    spec = make_spec(correlation_id="ä 1")
    await live(post.outbox, tenant="acme", group="in-voices", spec=spec)
    written = await waiting(post.outbox)
    assert await post.relay.step() == 1.0
    found = await post.read()
    assert [each.data for each in found] == [encode(event) for event in written]
    assert [each.subject.split(".")[1:] for each in found] == [
        ["events", "acme", "in-voices", type_] for type_ in MANY
    ]
    assert [each.headers["Nats-Msg-Id"] for each in found] == [event.id for event in written]
    assert {each.headers["X-Correlation-ID"] for each in found} == {"ä 1"}
    assert await waiting(post.outbox) == []
    assert post.relay.published == 4


async def test_names_are_one_part_of_a_subject_each(post):
    """Whatever somebody calls a group, it is no wildcard and no two parts."""
    await post.outbox.insert([Insert(make_timer(tenant="a.b", group="> *"))])
    await post.relay.step()
    [found] = await post.read()
    assert found.subject.endswith(".events.a%2Eb.%3E%20%2A.created")


async def test_the_stream_is_made(post):
    """In files, for all events, and such that it knows a message again."""
    await live(post.outbox)
    await post.relay.step()
    await live(post.outbox)
    post.clock.advance(1_000)
    await post.relay.step()
    assert post.tap.made == 1
    info = await post.theirs.stream_info(post.stream.name)
    assert info.config.subjects == [post.stream.subjects]
    assert info.config.storage == api.StorageType.FILE
    assert info.config.duplicate_window == 120
    assert info.config.max_age == 0
    assert info.state.messages == 8


async def test_the_stream_is_there_before_the_first_event(post):
    """So that whoever wants to read it finds it as soon as a node runs."""
    assert await post.relay.step() == 1.0
    assert (await post.theirs.stream_info(post.stream.name)).state.messages == 0
    await post.relay.step()
    assert post.tap.made == 1


async def test_what_is_wrong_with_the_stream_is_told_before_the_first_event(post, caplog):
    """Once; and once that it is mended, though nothing has happened meanwhile."""
    caplog.set_level(logging.INFO)
    make = post.tap.make

    async def fail():
        raise NoResponders("nobody answered")

    post.tap.make = fail
    assert await post.relay.step() == FIRST_PAUSE
    post.clock.advance(100)
    await post.relay.step()
    post.tap.make = make
    post.clock.advance(1_000)
    await post.relay.step()
    assert [record.getMessage() for record in caplog.records] == [
        "events cannot be published: nobody answered; they wait, and nothing is lost",
        "events can be published again after 1.1 s; none has waited",
    ]
    assert not post.relay.is_failing


async def test_a_stream_that_nobody_needed_is_not_missed_at_the_end(post, caplog):
    """A node that stops without an event to publish has nothing to complain of."""

    async def fail():
        raise NoResponders("nobody answered")

    post.tap.make = fail
    await post.relay.step()
    caplog.clear()
    caplog.set_level(logging.INFO)
    await post.relay.finish(1.0)
    assert not caplog.records


@pytest.mark.parametrize(("max_age", "seconds", "window"), [(None, 0, 120), (60_000, 60, 60)])
def test_how_long_a_stream_keeps_events(max_age, seconds, window):
    """For ever, or as long as the settings say; it knows none again that it has dropped."""
    config = EventStream(None, name="n", prefix="p", max_age=max_age, replicas=3).config
    assert config["max_age"] == seconds * 10**9
    assert config["duplicate_window"] == window * 10**9
    assert config["num_replicas"] == 3


async def test_a_stream_that_is_there_is_left_as_it_is(post):
    """Its owner has said how large it may be, and how long it keeps what."""
    await post.limit(max_msgs=2)
    await live(post.outbox)
    await post.relay.step()
    assert [each.event["type"] for each in await post.read()] == MANY[2:]
    assert await waiting(post.outbox) == []


async def test_no_two_events_of_a_timer_are_under_way_at_once(post):
    """The next is published when the one before is acknowledged."""
    await live(post.outbox, 3)
    await post.outbox.insert([Insert(make_timer())])
    written = await waiting(post.outbox)
    await post.relay.step()
    assert [len(wave) for wave in post.tap.waves] == [4, 3, 3, 3]
    for wave in post.tap.waves:
        assert len({event.timer for event in wave}) == len(wave)
    assert check_published(await post.read(), written) == 0


@pytest.mark.parametrize("failing", ["before", "after"])
async def test_a_wave_that_is_not_acknowledged_is_published_again(post, failing):
    """Also if the stream has it already: it knows it again; and nothing overtakes it."""
    await live(post.outbox, 3)
    written = await waiting(post.outbox)
    post.tap.failing = failing
    assert await post.relay.step() == FIRST_PAUSE
    assert len(post.tap.waves) == 1
    assert await waiting(post.outbox) == written
    post.tap.failing = None
    post.clock.advance(1_000)
    await post.relay.step()
    assert check_published(await post.read(), written) == 0
    assert await waiting(post.outbox) == []


async def test_whatever_is_acknowledged_is_forgotten_once(post):
    """A wave in the middle that fails does not bring back the one before."""
    await live(post.outbox, 2)
    written = await waiting(post.outbox)
    publish = post.tap.publish

    async def fail_later(events):
        post.tap.failing = "before" if len(post.tap.waves) == 2 else None
        return await publish(events)

    post.tap.publish = fail_later
    await post.relay.step()
    assert len(await waiting(post.outbox)) == 4
    post.clock.advance(1_000)
    await post.relay.step()
    assert [len(wave) for wave in post.tap.waves] == [2, 2, 2, 2, 2]
    assert check_published(await post.read(), written) == 0


async def test_what_a_stream_refuses_holds_up_its_timer_alone(post, caplog):
    """The other events go on; the log has the stream's own words, once."""
    await post.limit(max_msg_size=1_000)
    heavy = make_timer(spec=make_spec(tags=("x" * 1_000,)), created_at=NOW - 1)
    await post.outbox.insert([Insert(heavy)])
    await post.outbox.apply([Change(heavy, model.cancel(heavy, NOW))])
    await live(post.outbox, 2)
    written = await waiting(post.outbox)
    for _ in range(3):
        await post.relay.step()
        post.clock.advance(10_000)
    assert [event.timer for event in await waiting(post.outbox)] == [heavy.id] * 2
    assert len(await post.read()) == 8
    [said] = [record.message for record in caplog.records]
    assert said.startswith("events cannot be published: message size exceeds maximum allowed;")
    await post.limit(is_new=False, max_msg_size=10_000)
    caplog.set_level(logging.INFO)
    await post.relay.step()
    assert check_published(await post.read(), written) == 0
    assert "events are published again after 30.0 s" in caplog.text


HEAVY = {"spec": make_spec(tags=("x" * 1_000,))}


async def test_more_than_a_batch_that_is_refused_for_good(post, monkeypatch):
    """The relay goes past it, to what is behind; and when it may, it publishes that, too."""
    monkeypatch.setattr(relays, "BATCH", 10)
    await post.limit(max_msg_size=1_000)
    heavy = await live(post.outbox, 8, now=NOW - 60_000, **HEAVY)
    await live(post.outbox, 5, now=NOW - 30_000)
    more = await live(post.outbox, 7, now=NOW - 20_000, **HEAVY)
    await live(post.outbox, 5, now=NOW - 10_000)
    written = await waiting(post.outbox)
    while await post.relay.step() == 0:
        pass
    left = await waiting(post.outbox)
    assert {event.timer for event in left} == {timer.id for timer in (*heavy, *more)}
    assert len(left) == 4 * 15
    assert len(await post.read()) == 4 * 10
    assert post.relay.is_failing
    await post.limit(is_new=False, max_msg_size=10_000)
    post.clock.advance(1_000)
    while await post.relay.step() == 0:
        pass
    assert check_published(await post.read(), written) == 0
    assert not post.relay.is_failing


async def test_what_is_refused_does_not_hold_up_others_for_long(post):
    """As long as others are published, the pauses do not grow."""
    await post.limit(max_msg_size=1_000)
    await post.outbox.insert([Insert(make_timer(**HEAVY))])
    for _ in range(5):
        await live(post.outbox)
        assert await post.relay.step() == FIRST_PAUSE
        assert len(await waiting(post.outbox)) == 1
        post.clock.advance(101)
    pauses = []
    for _ in range(3):
        pauses.append(await post.relay.step())
        post.clock.advance(10_000)
    assert pauses == [0.2, 0.4, 0.8]


async def test_nothing_overtakes_what_becomes_visible_behind_a_round(post, monkeypatch):
    """Of a timer whose first event is committed while the round is past it already."""
    monkeypatch.setattr(relays, "BATCH", 10)
    await post.limit(max_msg_size=1_000)
    await live(post.outbox, 5, now=post.clock.now() - 1_000, **HEAVY)
    await live(post.outbox, 3, now=post.clock.now() - 60_000, **HEAVY)
    assert await post.relay.step() == 0
    late = make_timer(created_at=post.clock.now() - 90_000)
    await post.outbox.insert([Insert(late)])
    await post.outbox.apply([Change(late, model.cancel(late, post.clock.now()))])
    while await post.relay.step() == 0:
        pass
    assert await post.read() == []
    post.clock.advance(10_000)
    while await post.relay.step() == 0:
        pass
    assert [each.event["type"] for each in await post.read()] == ["created", "canceled"]


async def test_a_stream_that_refuses_everything_is_not_asked_for_all_of_it_all_the_time(
    post, monkeypatch
):
    """It may be full, and the outbox very long."""
    monkeypatch.setattr(relays, "BATCH", 10)
    await post.limit(max_msg_size=100)
    await live(post.outbox, 10, now=NOW - 60_000)
    assert [await post.relay.step() for _ in range(4)] == [0, 0, 0, 0]
    assert await post.relay.step() == FIRST_PAUSE
    asked = sum(map(len, post.tap.waves))
    assert asked == 10  # no more than the first event of each timer
    for _ in range(3):
        post.clock.advance(5_001)
        assert await post.relay.step() > 0
    post.clock.advance(30_000)
    assert await post.relay.step() == 0


async def test_what_is_refused_is_remembered_within_bounds(post, monkeypatch):
    """A round ends when it is too much, and the next one begins with the oldest again."""
    monkeypatch.setattr(relays, "BATCH", 10)
    monkeypatch.setattr(rounds, "MOST_REFUSED", 20)
    await post.limit(max_msg_size=1_000)
    for second in range(50):
        await live(post.outbox, now=NOW - 90_000 + second * 1_000, **HEAVY)
    steps = [await post.relay.step()]
    while steps[-1] == 0:
        steps.append(await post.relay.step())
    assert len(steps) == 8  # of 2.5 timers each
    assert steps[-1] == FIRST_PAUSE


async def test_a_subject_that_is_not_permitted(own_server, connected, stranger, monkeypatch):
    """As it is with the server's own rules: the tenants that it names are published."""
    monkeypatch.setattr(relays, "BATCH", 10)
    server = own_server(
        "nats",
        configuration='authorization { users: [ { user: "a", password: "b", '
        'permissions: { publish: { deny: "p.events.theirs.>" } } } ] }',
    )
    url = f"nats://a:b@127.0.0.1:{server.port}"
    post = Post(await connected(url), await stranger(url), "p")
    await live(post.outbox, 8, now=NOW - 60_000, tenant="theirs")
    await live(post.outbox, 3, now=NOW - 30_000, tenant="mine")
    written = [event for event in await waiting(post.outbox) if event.tenant == "mine"]
    while await post.relay.step() == 0:
        pass
    assert check_published(await post.read(), written) == 0
    assert {event.tenant for event in await waiting(post.outbox)} == {"theirs"}


async def test_a_stream_that_is_full_is_tried_again(post, caplog):
    """What it refuses waits until there is room."""
    await post.limit(max_msgs=5, discard=api.DiscardPolicy.NEW)
    await live(post.outbox, 2)
    assert await post.relay.step() == FIRST_PAUSE
    assert len(await waiting(post.outbox)) == 3
    assert "maximum messages exceeded" in caplog.text
    await post.theirs.purge_stream(post.stream.name)
    post.clock.advance(10_000)
    await post.relay.step()
    assert await waiting(post.outbox) == []
    assert len(await post.read()) == 3


async def test_a_stream_that_was_deleted_is_made_anew(post):
    """What comes from then on is in the new one."""
    await live(post.outbox)
    await post.relay.step()
    await post.theirs.delete_stream(post.stream.name)
    await live(post.outbox)
    post.clock.advance(1_000)
    written = await waiting(post.outbox)
    assert await post.relay.step() == FIRST_PAUSE
    assert await waiting(post.outbox) == written
    post.clock.advance(1_000)
    await post.relay.step()
    assert check_published(await post.read(), written) == 0


async def test_other_streams_are_not_written_to(post, caplog):
    """If another one has taken the subjects, that is said, and nothing is lost."""
    jetstream = post.theirs
    other = f"{post.stream.name}_other"
    await jetstream.add_stream(name=other, subjects=[post.stream.subjects])
    try:
        await live(post.outbox)
        await post.relay.step()
        assert len(await waiting(post.outbox)) == 4
        assert "subjects overlap with an existing stream" in caplog.text
    finally:
        await jetstream.delete_stream(other)
        await post.stream.make()  # so that it can be deleted


async def test_pauses_grow_and_a_wake_does_not_cut_them_short(post):
    """A server that is away is not asked all the time, however much is written."""
    await live(post.outbox)
    post.tap.failing = "before"
    pauses = []
    for _ in range(8):
        pauses.append(await post.relay.step())
        asked = len(post.tap.waves)
        await live(post.outbox)
        assert await post.relay.step() == pytest.approx(pauses[-1])
        assert len(post.tap.waves) == asked
        post.clock.advance(round(pauses[-1] * 1000) + 1)
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, LONGEST_PAUSE, LONGEST_PAUSE]


async def test_only_shards_of_the_own_are_published(post):
    """Others are somebody else's; when they come over, they are published."""
    await live(post.outbox, shard=1)
    await live(post.outbox, shard=2)
    written = await waiting(post.outbox)
    post.office.mine = [2]
    await post.relay.step()
    assert {event.timer[15:18] for event in await waiting(post.outbox)} == {"001"}
    post.office.mine = [1, 2]
    await post.relay.step()
    assert check_published(await post.read(), written) == 0


async def test_a_node_that_lost_its_tenure_publishes_nothing_more(post):
    """It is asked before every wave."""
    await live(post.outbox)
    publish = post.tap.publish

    async def lose(events):
        post.office.is_held = len(post.tap.waves) < 1
        return await publish(events)

    post.tap.publish = lose
    await post.relay.step()
    assert len(post.tap.waves) == 2
    assert len(await waiting(post.outbox)) == 2
    await post.relay.step()
    assert len(post.tap.waves) == 2


async def test_batches_are_bounded(post, monkeypatch):
    """However much there is; the next one follows at once."""
    monkeypatch.setattr(relays, "BATCH", 10)
    await live(post.outbox, 4)
    written = await waiting(post.outbox)
    assert await post.relay.step() == 0
    assert len(await waiting(post.outbox)) == 6
    assert await post.relay.step() == 1.0
    assert check_published(await post.read(), written) == 0


@pytest.mark.parametrize(
    ("took", "meanwhile", "pause"), [(60, {1}, 0.06), (9_000, {1}, relays.BREATH), (60, (), 0)]
)
async def test_a_node_that_goes_on_writing_has_half_of_the_time(
    post, monkeypatch, took, meanwhile, pause
):
    """A relay that works off a backlog rests as long as each batch took, and not much longer."""
    monkeypatch.setattr(relays, "BATCH", 2)
    relay = Relay(post.outbox, post.tap, post.clock, tenure=post.office)
    await live(post.outbox, 2)
    publish = post.tap.publish

    async def slowly(events):
        post.clock.advance(took)
        relay.heed(meanwhile)
        return await publish(events)

    post.tap.publish = slowly
    assert await relay.step() == pytest.approx(pause)


async def test_an_engine_that_is_late_goes_first(post, monkeypatch):
    """There is a breath between batches, but never more than one."""
    monkeypatch.setattr(relays, "BATCH", 2)
    relay = Relay(post.outbox, post.tap, post.clock, tenure=post.office, lag=lambda: 9_999)
    await live(post.outbox, 2)
    left = []
    for _ in range(4):
        assert await relay.step() == relays.BREATH
        assert await relay.step() == pytest.approx(relays.BREATH)  # it was woken
        post.clock.advance(200)
        left.append(len(await waiting(post.outbox)))
    assert left == [6, 4, 2, 0]


async def test_the_rest_is_published_at_the_end(post, monkeypatch):
    """All that there is, in as many batches as it takes."""
    monkeypatch.setattr(relays, "BATCH", 10)
    await live(post.outbox, 10)
    written = await waiting(post.outbox)
    await post.relay.finish(5)
    assert check_published(await post.read(), written) == 0
    assert await waiting(post.outbox) == []


async def test_the_end_does_not_wait_for_a_server_that_is_away(post, caplog):
    """What is left waits in the outbox, and that is said."""
    await live(post.outbox)
    post.tap.failing = "before"
    await post.relay.finish(5)
    await post.relay.finish(5)
    assert len(await waiting(post.outbox)) == 4
    said = "not all events were published before the end: as told; they wait"
    assert caplog.text.count(said) == 1


async def test_what_is_written_here_wakes_the_relay_once(post):
    """After a moment in which more may be written."""
    woken = []
    post.relay.wake = lambda: woken.append(True)
    post.outbox.on_events = post.relay.heed
    await live(post.outbox, 3)
    await settle()
    assert woken == []
    post.clock.advance(10)
    await settle()
    assert woken == [True]
    await live(post.outbox)
    post.clock.advance(10)
    await settle()
    assert woken == [True, True]


async def test_a_wake_looks_only_where_something_was_written(post):
    """Of some stores, each shard is asked by itself; a look at all of them comes with the poll."""
    asked = []
    events = post.outbox.events

    async def asking(shards, after, limit):
        asked.append(len(shards))
        return await events(shards, after, limit)

    post.outbox.events = asking
    post.outbox.on_events = post.relay.heed
    another = Outbox(post.outbox._store)
    await post.relay.step()
    await live(post.outbox, shard=3)
    await live(another, shard=4)
    assert await post.relay.step() == pytest.approx(1.0)
    post.clock.advance(1_000)
    await post.relay.step()
    assert asked == [4096, 1, 4096]
    assert [event.timer[15:18] for wave in post.tap.waves for event in wave] == [
        *(["003"] * 4),
        *(["004"] * 4),
    ]


async def test_what_was_written_meanwhile_is_not_forgotten(post):
    """A look that failed looks at all shards when it is tried again."""
    flaky = FlakyStore(post.outbox)
    relay = Relay(flaky, post.tap, post.clock, tenure=post.office)
    post.outbox.on_events = relay.heed
    await relay.step()
    await live(post.outbox, shard=3)
    flaky.failing = "before"
    with pytest.raises(StoreUnavailable):
        await relay.step()
    flaky.failing = None
    await relay.step()
    assert len(post.tap.waves) == 4


async def test_reading_begins_shortly_before_what_is_there(post):
    """What was published leaves traces that need not be read past, but now and then."""
    asked = []
    events = post.outbox.events

    async def asking(shards, after, limit):
        asked.append(after and post.clock.now() - ids.time_of(after))
        return await events(shards, after, limit)

    post.outbox.events = asking
    for _ in range(350):
        post.clock.advance(1_000)
        await post.relay.step()
    assert asked[0] is None
    assert set(asked[1:300]) == {relays.SLACK + 1_000}
    assert asked[300:].count(None) == 1
    post.tap.failing = "before"
    await live(post.outbox, now=post.clock.now())
    for _ in range(60):  # what cannot be published is not left behind
        post.clock.advance(60_000)
        await post.relay.step()
    post.tap.failing = None
    post.clock.advance(60_000)
    await post.relay.step()
    assert await waiting(post.outbox) == []


async def test_shards_that_come_over_are_read_from_the_beginning(post):
    """Whoever had them may have left what is old."""
    post.office.mine = [2]
    await post.relay.step()
    await live(post.outbox, shard=1, now=NOW - 10 * relays.SLACK)
    post.office.mine = [1, 2]
    await post.relay.step()
    assert await waiting(post.outbox) == []


async def test_events_that_say_little_are_published(post):
    """Those of other versions of Duetime may lack what this one knows."""
    timer = make_timer()
    [event] = (await _written(post.outbox, timer))[:1]
    await post.outbox.published([event.id])
    bare = replace(event, timer_id="", correlation_id="", tags=(), data={})
    other = make_timer()
    await post.outbox.insert([Insert(other, (bare,))])
    await post.relay.step()
    [found] = await post.read()
    assert found.data == encode(bare)


async def _written(outbox, timer):
    await outbox.insert([Insert(timer)])
    return await waiting(outbox)
