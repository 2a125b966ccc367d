"""Callbacks that need no task: places, order and ends are kept to as if each had one."""

import asyncio
import random
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from duetime.engine.claim import Claim
from duetime.engine.departures import Departures
from duetime.engine.holds import Holds
from duetime.engine.places import FIRST_PLACES, LEAST_PLACES
from duetime.testing import FakeClock, RecordingSender
from duetime.timer import Kind, Outcome, Status
from tests.engine.conftest import Node, running
from tests.factories import make_timer
from tests.waiting import settle

OK = Outcome(kind=Kind.OK, status_code=200, latency_ms=1)
REFUSED = Outcome(kind=Kind.NETWORK, error="refused", retryable=True)
TIMED_OUT = Outcome(kind=Kind.TIMEOUT, error="no answer", retryable=True)
UNSENT = Outcome(kind=Kind.UNSENT)


class CourierSender(RecordingSender):
    """Begins what it can, and lets a test say when what was begun has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way = []
        self.begins = lambda _timer: True  # else it has to wait for something

    def begin(self, errand):
        if not self.begins(errand.timer):
            return False
        if not errand.is_mine():
            errand.ended(UNSENT)
            return True
        self.sent.append(errand.timer)
        self.under_way.append(errand)
        return True

    def end(self, *outcomes):
        """End the oldest ones so, in one turn of the loop; all of them well if none is said."""
        ended = self.under_way[: len(outcomes) or None]
        self.under_way = self.under_way[len(ended) :]
        for errand, outcome in zip(ended, outcomes or [OK] * len(ended), strict=True):
            errand.ended(outcome)
        return ended


@pytest.fixture
def sender():
    return CourierSender()


@pytest.fixture
def node(store, clock, sender):
    return Node(store, clock, sender=sender)


@pytest.fixture
def parts(sender):
    """Departures alone, to a receiver that has two places; what it tells is written down."""
    told = SimpleNamespace(places=2, learned=[], ended=[], left=[])

    def note_down(claims, *_, **__):
        told.ended += claims

    targets = SimpleNamespace(
        places=lambda _: told.places,
        end=lambda _, timers, kind: told.learned.append((len(timers), kind)),
        leave=lambda _, timer: told.left.append(timer.id),
    )
    committer = Mock()
    committer.note.side_effect = committer.end.side_effect = note_down
    told.departures = Departures(
        FakeClock(), sender, targets=targets, committer=committer, holds=Holds()
    )
    return told


def depart(parts, count, name="a"):
    claims = [Claim(timer=make_timer(), holds_until=2_000.0) for _ in range(count)]
    for claim in claims:
        parts.departures.depart(name, claim)
    return claims


def ids_of(claims):
    return [claim.timer.id for claim in claims]


def sent_by(sender):
    return [timer.id for timer in sender.sent]


async def test_each_receiver_has_its_places(parts, sender):
    """What finds no place waits; another receiver's places are its own. No task is needed."""
    here, there = depart(parts, 3), depart(parts, 1, "b")
    assert sent_by(sender) == ids_of([*here[:2], *there])
    assert not parts.departures._tasks
    await settle()
    assert len(sender.sent) == 3


async def test_the_next_ones_leave_as_errands_end(parts, sender):
    """They leave in the order in which they were claimed, and nothing is left behind."""
    claims = depart(parts, 7)
    while sender.under_way:
        assert len(sender.under_way) <= 2
        sender.end(OK)
        await settle()
    assert sent_by(sender) == ids_of(claims) == ids_of(parts.ended)
    assert (parts.departures._places, parts.departures._ready) == ({}, {})


async def test_those_that_end_in_one_turn_make_way_for_as_many(parts, sender):
    """Each gives its place to one, and none gives it twice."""
    claims = depart(parts, 5)
    sender.end()
    await settle()
    assert sent_by(sender) == ids_of(claims[:4])
    sender.end()
    await settle()
    assert parts.departures._places == {"a": 1}


async def test_places_that_were_earned_are_used(parts, sender):
    """With the next errand that ends, one more leaves than there was."""
    depart(parts, 6)
    parts.places = 4
    sender.end(OK)
    await settle()
    assert len(sender.under_way) == 3
    sender.end(OK)
    await settle()
    assert len(sender.under_way) == 4


async def test_places_that_were_lost_are_not_used(parts, sender):
    """A receiver that has fewer places than before has fewer under way, as they end."""
    parts.places = 4
    claims = depart(parts, 8)
    parts.places = 1
    sender.end(TIMED_OUT, TIMED_OUT)
    await settle()
    assert (len(sender.sent), parts.departures._places) == (4, {"a": 2})
    sender.end(TIMED_OUT, TIMED_OUT)
    await settle()
    assert sent_by(sender) == ids_of(claims[:5])
    assert parts.departures._places == {"a": 1}


@pytest.mark.parametrize("seed", range(20))
async def test_tasks_and_errands_mix(parts, sender, seed):
    """Whichever of them a place is used by, each claim ends once and no place is lost."""
    luck = random.Random(seed)
    sender.begins = lambda _: luck.random() < 0.5
    sender.hold = asyncio.Event()
    parts.places = 3
    claims = depart(parts, 30)
    for turn in range(200):
        if turn % 2:
            await settle()
            under_way = len(sender.under_way) + len(parts.departures._tasks)
            assert under_way == sum(parts.departures._places.values()) <= 5
        if luck.random() < 0.3:
            parts.places = luck.randint(1, 5)
        if luck.random() < 0.5:
            sender.hold.set()
            sender.hold = asyncio.Event()
        if sender.under_way:
            sender.end(*[OK] * luck.randint(1, len(sender.under_way)))
        await settle(luck.randint(1, 6))
    await settle()
    assert sorted(ids_of(parts.ended)) == sorted(ids_of(claims))
    assert len(sender.sent) == len(claims)
    assert (parts.departures._places, parts.departures._ready) == ({}, {})


async def test_what_ends_in_one_turn_is_learned_in_its_order(parts, sender):
    """Successes once for all that follow each other, and each failure by itself."""
    parts.places = 6
    claims = depart(parts, 6)
    sender.end(OK, OK, REFUSED, TIMED_OUT, OK, REFUSED)
    await settle()
    kinds = [(2, Kind.OK), (1, Kind.NETWORK), (1, Kind.TIMEOUT), (1, Kind.OK), (1, Kind.NETWORK)]
    assert parts.learned == kinds
    assert parts.ended == claims
    assert [claim.outcome.kind for claim in claims].count(Kind.OK) == 3


@pytest.mark.parametrize(("is_last", "is_shut"), [(OK, False), (REFUSED, True)])
async def test_a_receiver_is_judged_by_what_came_last(node, sender, clock, is_last, is_shut):
    """A success among failures of one turn ends the row of them, as it would one by one."""
    for _ in range(8):
        await node.create(delay="1s")
    clock.advance(1_000)
    await node.dispatch()
    assert len(sender.under_way) == FIRST_PLACES
    gates = node.engine.departures._gates
    gates.breakers._most_failures = 4
    sender.end(REFUSED, REFUSED, REFUSED, is_last, REFUSED, REFUSED, OK, is_last)
    await settle()
    assert bool(gates.breakers.failing) is is_shut


async def test_only_the_first_end_counts(node, sender):
    """A second answer, be it another one, changes nothing."""
    timer = await node.create()
    await node.dispatch()
    [errand] = sender.end(OK)
    errand.ended(REFUSED)
    await settle()
    errand.ended(REFUSED)
    await node.commit()
    assert (await node.get(timer)).status is Status.COMPLETED
    assert node.engine.targets.under_way == 0
    assert node.engine.departures._places == {}


async def test_one_that_ends_before_begin_returns(node, sender):
    """It may be known at once that nothing comes of it, or that it may not be sent."""
    timers = [await node.create() for _ in range(30)]
    node.engine.departures._holds.is_held = lambda _: True
    await node.dispatch()
    await settle()
    await node.commit()
    assert sender.sent == []
    assert {(await node.get(timer)).status for timer in timers} == {Status.PENDING}
    assert node.engine.departures._places == {}


async def test_a_receiver_that_times_out_loses_places(node, sender, clock):
    """Also if all of its errands do so in one turn; what is left of its places is used."""
    for _ in range(20):
        await node.create(delay="1s")
    clock.advance(1_000)
    await node.dispatch()
    assert len(sender.under_way) == FIRST_PLACES
    sender.end(*[TIMED_OUT] * FIRST_PLACES)
    await settle()
    await node.dispatch()
    assert len(sender.under_way) == LEAST_PLACES
    assert sum(node.engine.departures._places.values()) == LEAST_PLACES


async def test_what_cannot_be_begun_costs_others_nothing(node, sender, clock, caplog):
    """A sender with a bug loses an attempt, and no place; what was claimed with it is sent."""
    timers = [await node.create(delay="1s") for _ in range(3)]
    clock.advance(1_000)
    begins = iter([True, False, False])

    def begin_or_break(_timer):
        if next(begins):
            raise RuntimeError("a bug")
        return True

    sender.begins = begin_or_break
    await node.dispatch()
    sender.end()
    await settle()
    await node.commit()
    statuses = [(await node.get(timer)).status for timer in timers]
    assert sorted(statuses) == [Status.COMPLETED, Status.COMPLETED, Status.PENDING]
    assert "could not be sent" in caplog.text
    assert (node.engine.targets.under_way, node.engine.departures._places) == (0, {})


async def test_receivers_are_told_apart_when_something_breaks(parts, sender):
    """What goes wrong in learning from one receiver does not keep others from being told."""
    [broken], [other] = depart(parts, 1, "broken"), depart(parts, 1, "other")
    gates, end = parts.departures._gates, parts.departures._gates.ended

    def break_for_one(name, timers, outcome):
        if name == "broken":
            raise RuntimeError("a bug")
        return end(name, timers, outcome)

    gates.ended = break_for_one
    heard = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
    sender.end()
    await settle()
    assert len(heard) == 1
    assert parts.ended == [broken, other]
    assert "other" not in parts.departures._places


async def test_a_stop_waits_for_errands(parts, sender):
    """Also for those that leave in the place of another, be it in a task."""
    claims = depart(parts, 4)
    finishing = asyncio.ensure_future(parts.departures.finish(60))
    sender.end(OK)
    await settle()
    sender.begins = lambda _: False
    sender.hold = asyncio.Event()
    sender.end(OK)
    await settle()
    sender.end(OK)
    await settle()
    assert not finishing.done()
    sender.hold.set()
    await settle()
    assert finishing.done()
    assert sorted(ids_of(parts.ended)) == sorted(ids_of(claims))


async def test_a_stop_that_gives_up_begins_no_more(parts, sender):
    """What waits for a place is handed back: it does not leave as others make way for it."""
    claims = depart(parts, 5)
    finishing = asyncio.ensure_future(parts.departures.finish(5))
    await settle()
    parts.departures._clock.advance(5_000)
    await settle()
    assert finishing.done()
    assert sent_by(sender) == ids_of(claims[:2])
    assert parts.left == ids_of(claims[2:])
    assert [claim.outcome.kind for claim in claims[:2]] == [Kind.LOST] * 2
    assert sorted(ids_of(parts.ended)) == sorted(ids_of(claims))
    assert parts.departures._places == {}


async def test_a_stop_gives_up_what_was_about_to_begin(parts, sender):
    """A task that was made in the turn in which it is given up hands its claim back as well."""
    sender.begins = lambda _: False
    sender.hold = asyncio.Event()
    [claim] = depart(parts, 1)

    async def have_no_time(event, _seconds):
        return event.is_set()

    parts.departures._clock.wait = have_no_time
    await parts.departures.finish(0)
    await settle()
    assert parts.ended == [claim]
    assert parts.departures._places == {}


@pytest.mark.promise("clean-stop")
async def test_a_stop_gives_up_errands_that_never_end(node, sender, store, clock):
    """A callback that never ends is pending after a stop, and its late answer is not heard."""
    engine = await running(node)
    timer = await node.create()
    await settle()
    stopping = asyncio.create_task(node.engine.stop(25))
    while not stopping.done():
        await settle()
        clock.advance(1_000)
    await engine
    sender.end(OK)
    await settle()
    await node.commit()
    assert (await node.get(timer)).status is Status.PENDING
    heir = Node(store, clock, "node-2")
    await heir.turn()
    assert heir.sent == [(timer.id, 2)]


@pytest.mark.promise("clean-stop")
async def test_a_stop_writes_down_errands_that_end_meanwhile(node, sender):
    """A stop waits for what is under way without a task, and its outcome is written."""
    engine = await running(node)
    timer = await node.create()
    await settle()
    stopping = asyncio.create_task(node.engine.stop(25))
    await settle()
    assert not stopping.done()
    sender.end(OK)
    await stopping
    await engine
    assert (await node.get(timer)).status is Status.COMPLETED


async def test_nothing_is_kept_of_errands(node, sender):
    """What has ended, or could not begin, is not under way."""
    await node.create()
    sender.begins = lambda _: False
    await node.turn()
    sender.begins = lambda _: True
    await node.create()
    await node.dispatch()
    sender.end()
    await node.commit()
    errands = node.engine.departures._errands
    assert (len(errands), errands._under_way, errands._ended) == (0, {}, {})
