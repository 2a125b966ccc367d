"""Claiming ahead: quick receivers have some claimed before there is a place, and never for long."""

import asyncio
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from duetime.engine.claim import Claim
from duetime.engine.departures import Departures
from duetime.engine.holds import Holds
from duetime.engine.places import LEAST_PLACES, MOST_AHEAD
from duetime.testing import FakeClock
from duetime.timer import Kind
from tests.engine.crowds import make_targets
from tests.factories import make_timer
from tests.waiting import settle


def claim():
    return Claim(timer=make_timer(), holds_until=2_000.0)


@pytest.fixture
def clock():
    return FakeClock()


class Deliveries:
    """Deliveries that end when a test says so."""

    def __init__(self) -> None:
        self.started = []
        self.places = 2
        self._ends = []

    async def deliver(self, name, claim):
        self.started.append((name, claim))
        end = asyncio.Event()
        self._ends.append(end)
        await end.wait()

    async def end_one(self):
        self._ends.pop(0).set()
        await settle()


@pytest.fixture
def deliveries():
    return Deliveries()


@pytest.fixture
def departures(clock, deliveries):
    targets = SimpleNamespace(places=lambda _: deliveries.places)
    departures = Departures(clock, sender=None, targets=targets, committer=Mock(), holds=Holds())
    departures._deliver = deliveries.deliver
    return departures


async def test_each_receiver_has_its_places(departures, deliveries):
    """What finds no place waits; another receiver's places are its own."""
    for _ in range(3):
        departures.depart("a", claim())
    departures.depart("b", claim())
    await settle()
    assert [name for name, _ in deliveries.started] == ["a", "a", "b"]


async def test_the_next_one_leaves_when_one_has_arrived(departures, deliveries):
    """They leave in the order in which they were claimed."""
    claims = [claim() for _ in range(4)]
    for each in claims:
        departures.depart("a", each)
    await settle()
    await deliveries.end_one()
    await deliveries.end_one()
    assert [each for _, each in deliveries.started] == claims
    assert departures.take_back(0) == []


async def test_what_has_not_left_after_a_moment_is_taken_back(departures, deliveries, clock):
    """A claim that waits for a receiver that hangs is given up, and never starts."""
    claims = [claim() for _ in range(3)]
    for each in claims:
        departures.depart("a", each)
    assert departures.take_back() == []
    clock.advance(1_000)
    assert departures.take_back() == [("a", claims[2])]
    await settle()
    await deliveries.end_one()
    assert len(deliveries.started) == 2


async def test_only_what_has_waited_long_enough_is_taken_back(departures, deliveries, clock):
    """Those that came later keep their turn."""
    claims = [claim() for _ in range(4)]
    for each in claims[:3]:
        departures.depart("a", each)
    clock.advance(600)
    departures.depart("a", claims[3])
    clock.advance(400)
    assert departures.take_back() == [("a", claims[2])]
    clock.advance(600)
    assert departures.take_back() == [("a", claims[3])]


async def test_a_stop_waits_for_all_that_is_under_way(departures, deliveries):
    """Whether a claim left at once, or after another in its place."""
    claims = [claim() for _ in range(4)]
    for each in claims:
        departures.depart("a", each)
    await settle()
    finishing = asyncio.ensure_future(departures.finish(60))
    for _ in claims:
        await settle()
        assert not finishing.done()
        await deliveries.end_one()
    await finishing
    assert [each for _, each in deliveries.started] == claims


async def test_places_that_were_earned_are_used(departures, deliveries):
    """A receiver that has more places than before has more under way, with the next that ends."""
    for _ in range(6):
        departures.depart("a", claim())
    await settle()
    deliveries.places = 4
    await deliveries.end_one()
    assert len(deliveries.started) == 4
    await deliveries.end_one()
    assert len(deliveries.started) == 6


async def test_places_that_were_lost_are_not_used(departures, deliveries):
    """A receiver that has fewer places than before has fewer under way, as they end."""
    deliveries.places = 4
    for _ in range(8):
        departures.depart("a", claim())
    await settle()
    deliveries.places = 1
    for _ in range(3):
        await deliveries.end_one()
    assert len(deliveries.started) == 4
    await deliveries.end_one()
    assert len(deliveries.started) == 5


async def test_a_receiver_that_is_done_with_leaves_nothing_behind(departures, deliveries):
    """Places and queues are kept only while they are used."""
    for _ in range(3):
        departures.depart("a", claim())
    await settle()
    for _ in range(3):
        await deliveries.end_one()
    assert departures._places == {}
    assert departures._ready == {}


def _crowded(total=1_000):
    targets = make_targets(per_target=10, total=total)
    targets._remembered["a"] = 10
    for _ in range(200):
        targets.begin("a", make_timer())
    return targets


def test_a_receiver_that_hangs_has_nothing_claimed_ahead():
    """A receiver that ends nothing has nothing claimed ahead, for only what ends makes room."""
    assert _crowded().next_waiting(100) == []


def test_a_quick_receiver_has_some_claimed_ahead():
    """The more have ended since the last time, the more, up to a bound."""
    targets = _crowded()
    for _ in range(5):
        targets.end("a", [make_timer()], Kind.HTTP)
    assert len(targets.next_waiting(100)) == 5 + 8
    for _ in range(18):
        targets.end("a", [make_timer()], Kind.HTTP)
    targets.next_waiting(100)
    assert targets.under_way == 10 + MOST_AHEAD * 10


def test_a_receiver_that_times_out_has_nothing_claimed_ahead():
    """What ends without an answer shows no speed, however often it ends."""
    targets = _crowded()
    for _ in range(5):
        targets.end("a", [make_timer()], Kind.HTTP)
    targets.next_waiting(100)
    for _ in range(targets.under_way):
        targets.end("a", [make_timer()], Kind.TIMEOUT)
    assert len(targets.next_waiting(100)) == LEAST_PLACES


def test_nothing_is_claimed_ahead_at_the_cost_of_others():
    """A node that has half its places taken gives them out one for one."""
    targets = _crowded()
    targets._places.under_way += 600  # by others
    for _ in range(5):
        targets.end("a", [make_timer()], Kind.HTTP)
    assert len(targets.next_waiting(100)) <= 5


@pytest.mark.promise("only-itself")
def test_a_dozen_hanging_receivers_do_not_take_the_last_places():
    """The fewer places are left, the fewer one receiver gets, whatever it has earned before."""
    targets = make_targets(per_target=128, total=1_000)
    for number in range(12):
        targets._remembered[f"hanging-{number}"] = 128
        for _ in range(200):
            targets.begin(f"hanging-{number}", make_timer())
    assert targets.free > 0
    assert targets.begin("healthy", make_timer())
