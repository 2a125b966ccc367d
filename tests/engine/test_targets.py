"""How many attempts may be under way to each receiver, and whose turn is next."""

from types import SimpleNamespace

import pytest

from duetime.engine import places, queues
from duetime.engine.places import FIRST_PLACES, LEAST_PLACES
from duetime.engine.targets import MOST_REMEMBERED, Targets
from duetime.engine.throttles import Throttles
from duetime.tenancy.limits import Limits
from duetime.testing import FakeClock
from duetime.timer import Kind
from tests.engine.crowds import heavy, make_targets
from tests.factories import make_timer


def test_receivers_that_wait_are_served_in_turn():
    """A long queue at one receiver does not come before a short one at another."""
    targets = make_targets(per_target=1, total=100)
    assert targets.begin("a", make_timer())
    assert targets.begin("b", make_timer())
    for _ in range(5):
        targets.begin("a", make_timer())
    targets.begin("b", make_timer())
    targets.end("a", [make_timer()], Kind.OK)
    targets.end("b", [make_timer()], Kind.OK)
    assert [name for name, _ in targets.next_waiting(10)][:2] == ["a", "b"]


def test_large_timers_of_one_receiver_leave_the_queue_to_others(monkeypatch):
    """A receiver's share is a quarter, and every other is sure of a short queue."""
    monkeypatch.setattr(queues, "MOST_BYTES_WAITING", 1024 * 1024)
    crowded = make_targets(per_target=1, total=1_000)
    for _ in range(50):
        crowded.begin("hangs", heavy(100))
    assert len(crowded.queues.versions) == 3
    for number in range(4):
        for _ in range(10):
            crowded.begin(f"hangs-{number}", heavy(100))
    assert 10 <= len(crowded.queues.versions) <= 15
    turned_away = crowded.turned_away
    for _ in range(20):
        crowded.begin("quick", make_timer())
    assert crowded.turned_away == turned_away


@pytest.mark.promise("bounded-memory")
def test_bytes_under_way_are_bounded(monkeypatch):
    """Large callbacks are made fewer at a time, and then all of them."""
    monkeypatch.setattr(places, "MOST_BYTES_UNDER_WAY", 1024 * 1024)
    node = make_targets(per_target=1, total=1_000)
    large = [heavy(300) for _ in range(4)]
    for number, timer in enumerate(large):
        assert node.begin(f"receiver-{number}", timer)
    assert node.free == 0
    node.end("receiver-0", [large[0]], Kind.OK)
    assert node.free > 0


def test_a_receiver_is_served_when_the_node_has_places_again():
    """Who had few places because the node was full has more as soon as others have ended."""
    node = make_targets(per_target=8, total=40)
    others = [f"other-{number}" for number in range(37)]
    for name in others:
        node.begin(name, make_timer())
    for _ in range(6):
        node.begin("a", make_timer())
    assert node._targets["a"].under_way == 1
    for name in others:
        node.end(name, [make_timer()], Kind.OK)
    assert len(node.next_waiting(100)) == 5


def test_a_receiver_that_is_done_with_is_forgotten():
    """Of receivers that nothing is under way to, no more is kept than a number."""
    targets = make_targets(per_target=10, total=10)
    for number in range(MOST_REMEMBERED + 10):
        targets.begin(f"receiver-{number}", make_timer())
        targets.end(f"receiver-{number}", [make_timer()], Kind.OK)
    assert targets._targets == {}
    assert len(targets._remembered) == MOST_REMEMBERED


def places_of(targets: Targets, name: str) -> int:
    """How many attempts may be under way to a receiver, found out by beginning them."""
    count = 0
    while targets.begin(name, make_timer()):
        count += 1
    return count


def test_a_receiver_earns_its_places():
    """It begins with a few, and every answer, be it good or bad, adds one, up to the limit."""
    targets = make_targets(per_target=20, total=1_000, queue=0, shared=0)
    assert places_of(targets, "a") == FIRST_PLACES
    for kind in (Kind.OK, Kind.HTTP, Kind.OK, Kind.HTTP):
        targets.end("a", [make_timer()], kind)
    assert targets.under_way + places_of(targets, "a") == FIRST_PLACES + 4
    for _ in range(50):
        targets.end("a", [make_timer()], Kind.OK)
        targets.begin("a", make_timer())
    assert targets.under_way + places_of(targets, "a") == 20


def test_a_receiver_that_hangs_loses_its_places():
    """Every timeout halves them, down to the few that find out when it is back."""
    targets = make_targets(per_target=64, total=1_000, queue=0, shared=0)
    targets._remembered["a"] = 64
    assert places_of(targets, "a") == 64
    for _ in range(64):
        targets.end("a", [make_timer()], Kind.TIMEOUT)
    assert places_of(targets, "a") == LEAST_PLACES
    for _ in range(LEAST_PLACES):
        targets.end("a", [make_timer()], Kind.OK)
    assert places_of(targets, "a") == 2 * LEAST_PLACES


@pytest.mark.parametrize("kind", [Kind.NETWORK, Kind.DNS, Kind.EGRESS, Kind.LOST, Kind.UNSENT])
def test_what_says_nothing_of_a_receivers_speed(kind):
    """An attempt that never got through, or was taken back, neither earns nor costs a place."""
    targets = make_targets(per_target=64, total=1_000, queue=0, shared=0)
    count = places_of(targets, "a")
    for _ in range(count):
        targets.end("a", [make_timer()], kind)
    assert places_of(targets, "a") == count


def test_those_that_did_not_fit_into_a_limited_queue_are_not_overtaken_for_ever():
    """As many come as the limit allows to leave, and few of them pass by those that were first."""
    clock, name = FakeClock(), "default a"
    limits = {name: Limits(per_second=1, burst=1)}
    rules = SimpleNamespace(bounded=limits, paused={}, is_shared=False)
    throttles = Throttles("n", clock, rules)
    targets = Targets(per_target=9, total=9, throttles=throttles, queue=10, shared=20)
    throttles.have_changed()
    timers = {timer.id: timer for timer in (make_timer() for _ in range(100))}
    coming, gone = iter(timers.values()), []
    for _ in range(40):
        targets.begin(name, next(coming), may_start=False)
    for _ in range(60):
        clock.advance(1_000)
        for _, timer in targets.next_waiting(9):
            targets.end(name, [timer], Kind.OK)
            gone.append(timer.id)
        targets.begin(name, next(coming), may_start=False)
        for line in targets.recalled():
            targets.begin(name, timers[line.id], may_start=False)
    assert set(list(timers)[:40]) <= set(gone[:50])
