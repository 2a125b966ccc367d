"""Places, tokens, probes and queues: whatever happens to timers, all of it is given back."""

import random
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from duetime.engine.breaker import Breakers
from duetime.engine.gates import Gates
from duetime.engine.targets import Targets
from duetime.engine.throttles import Throttles
from duetime.tenancy.limits import Limits
from duetime.tenancy.target import Target
from duetime.testing import FakeClock
from duetime.timer import Kind, Outcome
from tests.factories import make_spec, make_timer

TENANTS, GROUPS, RECEIVERS = ("t", "u"), ("g", "h"), ("a", "b", "c")
NAMES = [f"{tenant} {receiver}" for tenant in TENANTS for receiver in RECEIVERS]
LIMITED = [*TENANTS, *NAMES, *(f"{tenant}/{group}" for tenant in TENANTS for group in GROUPS)]
DOWN = Outcome(kind=Kind.HTTP, status_code=500, error="HTTP 500", retryable=True)
OK = Outcome(kind=Kind.OK, status_code=200)


class Storm:
    """Lets anything happen in any order, as the dispatcher and the departures would do it."""

    def __init__(self, seed: int) -> None:
        self.luck = random.Random(seed)
        self.clock = FakeClock()
        self.rules = SimpleNamespace(
            bounded={}, paused={}, is_shared=True, targets=SimpleNamespace(all=list)
        )
        self.breakers = Breakers(self.clock, most_failures=3, luck=self.luck.random)
        self.gates = Gates(self.clock, self.rules, self.breakers)
        self.targets = Targets(
            per_target=4,
            total=20,
            queue=10,
            shared=30,
            throttles=Throttles("n", self.clock, self.rules),
            gates=self.gates,
        )
        self.under_way = []
        self.outside = {}  # rows of the store that nobody has in hand
        self.done = set()

    def come(self):
        name = self.luck.choice(NAMES)
        now = self.clock.now()
        deadline = self.luck.choice([None, None, 2_000])
        timer = make_timer(
            tenant=name[0],
            group=self.luck.choice(GROUPS),
            execute_at=now,
            wake_at=now,
            spec=make_spec(deadline=deadline),
        )
        self.outside[timer.id] = (name, timer)

    def begin(self):
        """Put what is not in hand before the receivers, like the agenda does."""
        for id_, (name, timer) in list(self.outside.items()):
            if self.targets.is_waiting(id_, timer.version):
                continue
            deadline = timer.spec.deadline
            is_over = deadline is not None and self.clock.now() > timer.execute_at + deadline
            if self.targets.begin(name, timer, at_once=is_over):
                self.claim(name, timer)

    def claim(self, name, timer):
        """Have a place for a timer; if it has changed meanwhile, that was in vain."""
        stored = self.outside.get(timer.id)
        if stored is None or stored[1].version != timer.version:
            self.targets.leave(name, timer)
        else:
            del self.outside[timer.id]
            self.under_way.append((name, timer))

    def step(self):
        for name in self.gates.opened():
            self.targets.begin_anew(name)
        self.targets.recall_late(self.clock.now())
        limit = min(self.targets.free, 7)
        begun = self.targets.next_waiting(limit)
        is_served_out = len(begun) < limit or limit <= 0
        assert not (is_served_out and self.targets.free > 0 and self.targets.has_serveable())
        for name, timer in begun:
            self.claim(name, timer)
        self.targets.recalled()  # the reader comes across all that is not in hand
        self.begin()

    def end(self, outcome=None):
        if self.under_way:
            name, timer = self.under_way.pop(self.luck.randrange(len(self.under_way)))
            outcome = outcome or self.luck.choice([OK, DOWN, DOWN, Outcome(kind=Kind.UNSENT)])
            if not self.gates.may_send(name, timer.id):
                outcome = Outcome(kind=Kind.UNSENT)
            if self.gates.ended(name, [timer], outcome):
                self.targets.begin_anew(name)
            self.targets.end(name, [timer], outcome.kind)
            if outcome.kind is Kind.OK:
                self.done.add(timer.id)
            else:
                self.outside[timer.id] = (name, replace(timer, version=timer.version + 2))

    def change(self):
        """Somebody updates a timer, or cancels it; this node may hear of it or not."""
        if self.outside:
            id_ = self.luck.choice(list(self.outside))
            name, timer = self.outside.pop(id_)
            if self.luck.random() < 0.5:
                self.outside[id_] = (name, replace(timer, version=timer.version + 1))
            if self.luck.random() < 0.5:
                self.targets.queues.forget_older(id_, timer.version + 1)

    def limit(self):
        some = self.luck.sample(LIMITED, self.luck.randrange(5))
        self.rules.bounded = {
            name: Limits(
                per_second=self.luck.choice([None, 0.5, 2, 50]),
                concurrency=self.luck.choice([None, 1, 3]),
            )
            for name in some
        }

    def pause(self):
        now, some = self.clock.now(), self.luck.sample(NAMES, self.luck.randrange(3))
        self.rules.paused = {
            name: Target(
                tenant=name[0],
                name=name[2:],
                paused_at=now,
                paused_until=self.luck.choice([None, now + 700]),
                created_at=now,
                updated_at=now,
            )
            for name in some
        }

    def calm_down(self):
        """Let all receivers be well, and time pass, until nothing is left to do."""
        self.rules.paused = {}
        for _ in range(3_000):
            self.clock.advance(500)
            self.step()
            while self.under_way:
                self.end(OK)
            if not self.outside:
                return
        raise AssertionError(f"{len(self.outside)} timers were never served")


@pytest.mark.parametrize("seed", range(12))
def test_everything_is_given_back(seed):
    """Nothing leaks, nobody is forgotten, and the dispatcher never turns in vain."""
    storm = Storm(seed)
    happenings = [storm.come] * 12 + [storm.end] * 8 + [storm.step] * 6 + [storm.change] * 2
    happenings += [storm.limit, storm.pause, lambda: storm.clock.advance(300)]
    for _ in range(1_500):
        storm.luck.choice(happenings)()
    storm.calm_down()
    targets, turns = storm.targets, storm.targets._turns
    assert (targets.under_way, targets._places._load, targets._targets) == (0, 0, {})
    assert (targets._tenants, targets.queues.versions, targets.queues.weight) == ({}, {}, 0)
    assert not turns
    assert (turns._stopped, turns._squeezed, turns._crowding) == ({}, {}, {})
    assert len(targets.queues.away) == 0
    assert all(breaker.probe is None for breaker in storm.breakers.failing.values())
    for throttle in targets._throttles._throttles.values():
        storm.clock.advance(3_600_000)
        assert throttle.room(0, storm.clock.monotonic()) >= 1
