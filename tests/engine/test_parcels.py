"""Callbacks that are posted: many share a round trip, and each is claimed and counted by itself."""

import asyncio

import pytest

from duetime.engine import stride
from duetime.engine.parcels import AT_ONCE
from duetime.engine.places import POSTED_IN_ONE
from duetime.testing import RecordingSender
from duetime.timer import Kind, Outcome, Status
from tests.engine.conftest import Node, running
from tests.engine.crowds import make_targets
from tests.factories import make_timer
from tests.waiting import settle


class PostingSender(RecordingSender):
    """Posts, and lets a test say when what was posted has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.posted = []
        self.broken = set()  # ids

    def posts(self, callback):
        return "posted" in callback.url

    def post(self, mail):
        if any(timer.id in self.broken for timer in mail.timers):
            raise RuntimeError("a bug")
        for timer in mail.timers:
            assert mail.is_mine(timer)
            self.sent.append(timer)
            self.posted.append((mail, timer))

    def end(self):
        posted, self.posted = self.posted, []
        for mail, timer in posted:
            mail.ended([timer], self.answer)
        return posted


POSTED = {"type": "http", "url": "https://posted.example/"}


@pytest.fixture
def node(store, clock):
    return Node(store, clock, sender=PostingSender())


async def test_all_that_was_claimed_leaves_at_once(node, clock):
    """It earns no places, and needs no turn of the loop for each: one is enough for many."""
    timers = [await node.create(callback=POSTED, delay="1s") for _ in range(AT_ONCE + 30)]
    clock.advance(1_000)
    await node.engine.reader.step()
    await node.engine.dispatcher.step()
    for left in (AT_ONCE, AT_ONCE + 30):
        await asyncio.sleep(0)
        assert len(node.sender.posted) == left
    node.sender.end()
    await node.commit()
    assert {(await node.get(timer)).status for timer in timers} == {Status.COMPLETED}
    assert node.engine.targets.under_way == 0


async def test_others_are_sent_as_ever(node):
    """A sender may post some callbacks, and send others."""
    timers = [await node.create(), await node.create(callback=POSTED)]
    await node.dispatch()
    assert {id_ for id_, _ in node.sent} == {timer.id for timer in timers}
    assert [timer.id for _, timer in node.sender.posted] == [timers[1].id]


async def test_only_the_first_end_counts(node):
    """A second answer, be it another one, changes nothing."""
    timer = await node.create(callback=POSTED)
    await node.dispatch()
    ((mail, sent),) = node.sender.end()
    mail.ended([sent, sent], Outcome(kind=Kind.NATS, error="no"))
    await node.commit()
    assert (await node.get(timer)).status is Status.COMPLETED
    assert node.engine.targets.under_way == 0


async def test_what_cannot_be_posted_costs_other_receivers_nothing(node, clock, caplog):
    """Its attempts are lost, and they are tried again; the log has the reason."""
    elsewhere = {"type": "http", "url": "https://posted.too.example/"}
    callbacks = (POSTED, elsewhere, POSTED)
    timers = [await node.create(callback=each, delay="1s") for each in callbacks]
    node.sender.broken = {timers[1].id}
    clock.advance(1_000)
    await node.dispatch()
    node.sender.end()
    await node.commit()
    stored = [await node.get(timer) for timer in timers]
    assert [each.status for each in stored] == [
        Status.COMPLETED,
        Status.PENDING,
        Status.COMPLETED,
    ]
    assert "a bug" in caplog.text


@pytest.mark.promise("stalled-sends-nothing")
async def test_what_is_posted_past_its_claim_is_not_sent(node, clock):
    """A claim that ran out while it was written is handed back, and not posted."""
    timer = await node.create(callback=POSTED)
    node.engine.members.lease.until = clock.monotonic() + 1
    apply = node.store.store.apply

    async def slowly(changes):
        clock.advance(2_000)
        return await apply(changes)

    node.store.store.apply = slowly
    await node.dispatch()
    node.store.store.apply = apply
    assert node.sent == []
    await node.commit()
    assert (await node.get(timer)).status is Status.PENDING


@pytest.mark.promise("clean-stop")
async def test_a_stop_waits_for_what_is_posted(node):
    """A stop waits until the round trip is over, and writes what came of it."""
    engine = await running(node)
    timer = await node.create(callback=POSTED)
    await settle()
    stopping = asyncio.create_task(node.engine.stop(25))
    await settle()
    assert not stopping.done()
    node.sender.end()
    await stopping
    await engine
    assert (await node.get(timer)).status is Status.COMPLETED


@pytest.mark.promise("clean-stop")
async def test_a_stop_gives_up_what_is_posted_and_never_ends(node, store, clock):
    """It is pending again at once, and what its round trip says later is not heard."""
    engine = await running(node)
    timer = await node.create(callback=POSTED)
    await settle()
    stopping = asyncio.create_task(node.engine.stop(25))
    while not stopping.done():
        await settle()
        clock.advance(1_000)
    await engine
    node.sender.end()
    assert (await node.get(timer)).status is Status.PENDING
    heir = Node(store, clock, "node-2")
    await heir.turn()
    assert heir.sent == [(timer.id, 2)]


async def test_the_next_ones_are_claimed_while_these_leave(node, store, clock, monkeypatch):
    """A store that writes and a loop that sends do not wait for each other."""
    monkeypatch.setattr(stride, "FIRST", 3 * AT_ONCE)
    node.engine.dispatcher._stride.most = 3 * AT_ONCE
    for _ in range(6 * AT_ONCE):
        await node.create(callback=POSTED, delay="1s")
    clock.advance(1_000)
    await node.engine.reader.step()
    await node.engine.dispatcher.step()
    apply, left = store.store.apply, []

    async def slowly(changes):
        await settle()
        left.append(len(node.sender.posted))
        return await apply(changes)

    store.store.apply = slowly
    assert node.sender.posted == []
    await node.engine.dispatcher.step()
    assert left == [3 * AT_ONCE]


def posting_targets(**options):
    return make_targets(is_posted=lambda timer: timer.group == "posted", **options)


def posted():
    return make_timer(group="posted")


def test_what_is_posted_takes_a_part_of_a_place():
    """So many take one place of the node together, and a receiver has no limit but these."""
    targets = posting_targets(per_target=4, total=100)
    for _ in range(2 * POSTED_IN_ONE):
        assert targets.begin("nats", posted())
    assert targets.free == 100 - 2
    assert targets.under_way == 2 * POSTED_IN_ONE


@pytest.mark.promise("only-itself")
def test_what_is_posted_and_never_ends_leaves_places_to_others():
    """However much is posted where nothing comes back, half the places of a node are left."""
    targets = posting_targets(per_target=10, total=100)
    for _ in range(1_000):
        targets.begin("nats", posted())
    assert targets.free >= 49
    assert targets.begin("healthy", make_timer())


def test_what_is_posted_and_times_out_has_fewer_places():
    """Half as many after each, and more again as answers come."""
    targets = posting_targets(per_target=10, total=100)
    timers = [posted() for _ in range(8)]
    for timer in timers:
        targets.begin("nats", timer)
    for timer in timers[:6]:
        targets.end("nats", [timer], Kind.TIMEOUT)
    assert targets.places("nats") == 100 * POSTED_IN_ONE // 2**6
    targets.end("nats", [timers[6]], Kind.OK)
    assert targets.places("nats") == 100 * POSTED_IN_ONE // 2**6 + 1


async def test_those_that_are_posted_wait_their_turn_as_well(store, clock):
    """What does not fit waits in its lane, and leaves when the others have ended."""
    node = Node(store, clock, sender=PostingSender(), max_in_flight=10)
    timers = [await node.create(callback=POSTED, delay="1s") for _ in range(100)]
    clock.advance(1_000)
    await node.engine.reader.step()
    rounds = 0
    while len(node.sent) < len(timers):
        await node.dispatch()
        assert len(node.sender.posted) <= 10 * POSTED_IN_ONE
        node.sender.end()
        await node.commit()
        rounds += 1
    assert 2 < rounds < 10
    assert len(set(node.sent)) == len(timers)


async def test_a_group_that_is_paused_meanwhile_is_not_posted(node):
    """What was claimed before is handed back when it is about to leave."""
    timer = await node.create(callback=POSTED)
    node.engine.departures._holds.is_held = lambda each: each.id == timer.id
    await node.dispatch()
    assert node.sent == []
    await node.commit()
    assert (await node.get(timer)).status is Status.PENDING


async def test_those_that_end_together_give_all_their_places_back(node, clock):
    """Whichever groups they are of, and though the answers to some came before."""
    groups = ("a", "b", "a", "c")
    timers = [await node.create(callback=POSTED, group=each, delay="1s") for each in groups]
    clock.advance(1_000)
    await node.dispatch()
    assert node.engine.targets.under_way == len(groups)
    (mail,) = {mail for mail, _ in node.sender.posted}
    mail.ended(mail.timers[:1], node.sender.answer)
    mail.ended(mail.timers, node.sender.answer)
    assert node.engine.targets.under_way == 0
    assert node.engine.targets.counts() == {}
    await node.commit()
    assert {(await node.get(timer)).status for timer in timers} == {Status.COMPLETED}


async def test_failures_that_come_together_count_each(node, clock):
    """A receiver that has refused enough of them is shut."""
    gates = node.engine.departures._gates
    timers = [await node.create(callback=POSTED, delay="1s") for _ in range(10)]
    clock.advance(1_000)
    await node.dispatch()
    (mail,) = {mail for mail, _ in node.sender.posted}
    mail.ended(mail.timers, Outcome(kind=Kind.NETWORK, error="refused", retryable=True))
    ((name, breaker),) = gates.breakers.failing.items()
    assert breaker.failures == len(timers)
    assert gates.is_shut(name)


async def test_what_never_left_is_unsent_when_a_stop_gives_up(node):
    """It was claimed and not posted: no attempt of it is lost."""
    timer = await node.create(callback=POSTED)
    await node.engine.reader.step()
    await node.engine.dispatcher.step()
    assert node.engine.departures._parcels.give_up() == 1
    await node.commit()
    assert node.sent == []
    stored = await node.get(timer)
    assert (stored.status, stored.progress.attempt) == (Status.PENDING, 0)
