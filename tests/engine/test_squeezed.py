"""Who had to leave the last places to others has its turn again, however many others wait."""

import pytest

from duetime.engine.targets import Targets
from duetime.engine.throttles import Throttles
from duetime.testing import FakeClock
from duetime.timer import Kind
from tests.engine.crowds import make_targets
from tests.factories import make_timer


class SharedThrottles(Throttles):
    """Those of a node that several tenants have."""

    is_shared = True


def begin(targets, count, name="busy", tenant="default"):
    """Take so many places, each for a receiver of its own."""
    begun = [(f"{name}-{number}", make_timer(tenant=tenant)) for number in range(count)]
    assert all(targets.begin(*each) for each in begun)
    return begun


def wait(targets, number, tenant="default"):
    """Let one more of a crowd wait, for a receiver of its own."""
    timer = make_timer(tenant=tenant.format(number))
    assert not targets.begin(f"crowd-{number}", timer, may_start=False)


def is_served(targets, name, tenant="default"):
    """Tell whether one has its turn, while for each other that has one another comes."""
    for number in range(5):
        wait(targets, number, tenant)
    for number in range(5, 100):
        wait(targets, number, tenant)
        for served, timer in targets.next_waiting(1):
            if served == name:
                return True
            targets.end(served, [timer], Kind.OK)
    return False


@pytest.mark.promise("only-itself")
def test_a_receiver_has_its_turn_on_a_node_that_stays_full():
    """A receiver that has nothing under way any more is not passed over for others that come."""
    targets = make_targets(per_target=8, total=8)
    begin(targets, 7)
    timer = make_timer()
    assert targets.begin("quick", timer)
    assert not targets.begin("quick", make_timer())
    wait(targets, 1_000)
    targets.end("quick", [timer], Kind.OK)
    assert is_served(targets, "quick")


def test_one_more_timer_has_its_receiver_looked_at_again():
    """One that hangs has its part of what has become free, and does not wait for all others."""
    targets = make_targets(per_target=8, total=100)
    busy = begin(targets, 97)
    assert targets.begin("hangs", make_timer())
    assert not targets.begin("hangs", make_timer())
    for name, timer in busy:
        targets.end(name, [timer], Kind.OK)
    assert not targets.begin("hangs", make_timer())
    wait(targets, 0)
    assert [name for name, _ in targets.next_waiting(1)] == ["hangs"]


@pytest.mark.promise("tenants-in-turn")
def test_a_tenant_has_its_turn_on_a_node_that_stays_full():
    """A tenant that left the last places to others is not passed over when it has none."""
    throttles = SharedThrottles("node-1", FakeClock())
    targets = Targets(throttles=throttles, per_target=8, total=8)
    timer = make_timer(tenant="quick")
    assert targets.begin("quick", timer)
    for number in range(6):
        begin(targets, 1, f"busy-{number}", f"busy-{number}")
    assert not targets.begin("quick too", make_timer(tenant="quick"))
    assert targets.next_waiting(10) == []
    wait(targets, 1_000, "other-{}")
    targets.end("quick", [timer], Kind.OK)
    assert is_served(targets, "quick too", "other-{}")
