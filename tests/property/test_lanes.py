"""Lanes: whoever waits is known to somebody, and is served once there is a place."""

from hypothesis import given, settings
from hypothesis import strategies as st

from duetime.engine.targets import Targets
from duetime.engine.throttles import Throttles
from duetime.tenancy.limits import Limits
from duetime.testing import FakeClock
from duetime.timer import Kind
from tests.factories import make_timer

RECEIVERS = [f"{tenant} {host}" for tenant in "xy" for host in "abcd"]
GROUPS = ("g", "h")
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("begin"), st.sampled_from(RECEIVERS), st.sampled_from(GROUPS), st.booleans()
        ),
        st.tuples(st.just("end"), st.integers(0, 50), st.sampled_from(Kind)),
        st.tuples(st.just("leave"), st.integers(0, 50)),
        st.tuples(st.just("serve"), st.integers(1, 20)),
        st.tuples(st.just("begin_anew"), st.sampled_from(RECEIVERS)),
        st.tuples(st.just("change")),
        st.tuples(st.just("advance"), st.integers(1, 3_000)),
    ),
    max_size=120,
)


class Rules:
    """What Throttles asks of the rules: who has limits, and whether there are several tenants."""

    def __init__(self, bounded, *, is_shared):
        self.bounded = bounded
        self.is_shared = is_shared


class Node:
    def __init__(self, *, is_shared, is_limited):
        self.clock = FakeClock()
        limits = {"x a": Limits(concurrency=2), "y": Limits(concurrency=3)}
        self.throttles = Throttles("node-1", self.clock)
        if is_shared or is_limited:
            bounded = limits if is_limited else {}
            self.throttles._rules = Rules(bounded, is_shared=is_shared)
        self.targets = Targets(throttles=self.throttles, per_target=6, total=12, queue=40)
        self.under_way = []
        self.waiting = {}
        self.advance = self.clock.advance
        self.begin_anew = self.targets.begin_anew

    def begin(self, name, group, may_start):
        timer = make_timer(tenant=name[0], group=group)
        if self.targets.begin(name, timer, may_start=may_start):
            self.under_way.append((name, timer))
        else:
            self.waiting[timer.id] = name

    def serve(self, limit):
        begun = self.targets.next_waiting(limit)
        for _, timer in begun:
            self.waiting.pop(timer.id, None)
        self.under_way += begun
        return begun

    def end(self, at, kind):
        if self.under_way:
            name, timer = self.under_way.pop(at % len(self.under_way))
            self.targets.end(name, [timer], kind)

    def leave(self, at):
        if self.under_way:
            self.targets.leave(*self.under_way.pop(at % len(self.under_way)))

    def change(self):
        """Let one that waits be another by now: what it was comes up all the same."""
        if self.waiting:
            self.targets.queues.forget_older(next(iter(self.waiting)), 10)

    def check(self):
        """Every lane that somebody waits in stands where somebody looks for it."""
        turns = self.targets._turns
        for lane in self.targets._lanes():
            if not lane.waiting or lane in turns._squeezed:
                continue
            if lane in lane.target.blocked:
                # Either the next end of an attempt is told, or when limits allow more.
                assert lane.target.under_way or lane.target.name in turns._stopped
                continue
            assert lane.group.turns.get(lane.name) is lane
            for party, among in ((lane.group, lane.tenant.turns), (lane.tenant, turns._tenants)):
                assert turns._stands_aside(party) or among.get(party.name) is party
                if turns._stands_aside(party):
                    break


@settings(max_examples=200, deadline=None)
@given(STEPS, st.booleans(), st.booleans())
def test_whoever_waits_is_served_in_the_end(steps, is_shared, is_limited):
    """Nobody is forgotten, whatever ends how, and in whatever order timers come."""
    node = Node(is_shared=is_shared, is_limited=is_limited)
    for what, *how in steps:
        getattr(node, what)(*how)
        node.check()
    for _ in range(1_000):
        if not node.serve(100) and not node.under_way:
            break
        node.check()
        while node.under_way:
            node.end(0, Kind.OK)
        node.clock.advance(1_000)
    assert not list(node.targets._lanes())
    assert node.targets.under_way == 0
