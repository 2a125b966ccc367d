"""Gates: which receivers nothing may be sent to now, and when that ends.

A receiver is paused by hand, which the rules say, or it keeps failing (``breaker.py``). Its timers
wait in its queue meanwhile, and no attempt is used. Receivers go by the names that they have among
all tenants (``tenancy/target.py`` ``name_of``).
"""

import heapq
from collections.abc import Iterable, Sequence

from duetime.clock import Clock, Millis
from duetime.engine.breaker import INSTANT, Breakers
from duetime.nodes import TargetReport
from duetime.tenancy.rules import Rules
from duetime.tenancy.target import Target
from duetime.timer import Outcome, Timer

LOOK_AFTER = 1.0  # seconds: the wall clock, by which pauses end, may be set


class Gates:
    """One before each receiver."""

    def __init__(
        self, clock: Clock, rules: Rules | None = None, breakers: Breakers | None = None
    ) -> None:
        self._clock = clock
        self._rules = rules
        self.breakers = breakers or Breakers(clock)
        self._paused: dict[str, Target] = {}  # by hand, as the rules said at the last look
        self._resumed: dict[str, Millis] = {}  # when each was, likewise
        self._awaited: dict[str, float] = {}  # those that somebody waits for: when to look again
        self._looks: list[tuple[float, str]] = []  # a heap of that

    def places(self, name: str, under_way: int) -> int | None:
        """How many a receiver may have under way, of which it has so many; None: as many as ever.

        Whoever is told that there is no place for one more is told when there is (``opened``).
        """
        if self._are_open():
            return None
        if (target := self._pause(name)) is not None:
            self._await(name, target)
            return 0
        places = self.breakers.places(name, under_way)
        if places == 0:
            self._await(name)
        return places

    def is_shut(self, name: str) -> bool:
        """Tell whether nothing at all may be sent to a receiver."""
        if self._are_open():
            return False
        return self._pause(name) is not None or self.breakers.opens_at(name) is not None

    def are_before(self, name: str) -> bool:
        """Tell whether a receiver is shut, or just one callback tries it."""
        if self._are_open():
            return False
        return self._pause(name) is not None or self.breakers.is_shut(name)

    def is_probed(self, name: str) -> bool:
        """Tell whether a receiver is tried just now, to see whether it is well again."""
        return bool(self.breakers.failing) and self.breakers.is_probed(name)

    def may_send(self, name: str, id_: str) -> bool:
        """Tell whether a timer that was claimed for a receiver may be sent still."""
        if self._are_open():
            return True
        return self._pause(name) is None and self.breakers.may_send(name, id_)

    def begun(self, name: str, id_: str) -> None:
        """Take note that a timer has a place at a receiver."""
        if self.breakers.failing:
            self.breakers.begun(name, id_)

    def left(self, name: str, timers: Iterable[Timer]) -> None:
        """Take note that some have given theirs back."""
        if self.breakers.failing:
            for timer in timers:
                self.breakers.left(name, timer.id)

    def ended(self, name: str, timers: Sequence[Timer], outcome: Outcome) -> bool:
        """Learn from attempts; tells whether the receiver was shut by them, or opened."""
        if outcome.ok:  # one answer tells as much as many at once
            return self.breakers.ended(name, timers[0].id, outcome)
        has_turned = [self.breakers.ended(name, timer.id, outcome) for timer in timers]
        return any(has_turned)

    def opened(self) -> list[str]:
        """Receivers that somebody waits for, and that may be open by now."""
        self._look_at_rules()
        self.breakers.tick()
        now = self._clock.monotonic() + INSTANT
        names: list[str] = []
        while self._looks and self._looks[0][0] <= now:
            at, name = heapq.heappop(self._looks)
            if self._awaited.get(name) == at:
                del self._awaited[name]
                names.append(name)
        return names

    def next_look(self) -> float | None:
        """In how many seconds one may be open."""
        if not self._looks:
            return None
        return max(self._looks[0][0] - INSTANT / 2 - self._clock.monotonic(), 0)

    def hear(self, told: Iterable[tuple[dict[str, TargetReport], float]]) -> None:
        """Learn from what every other node tells, and told when."""
        self._look_at_rules()  # whoever resumed one has more to say than who found it failing
        for name in self.breakers.hear(told):
            self._look_soon(name)

    def _are_open(self) -> bool:
        """Tell whether there is nothing to be said of any receiver: quickly, for every timer."""
        return not self.breakers.failing and (self._rules is None or not self._rules.paused)

    def _pause(self, name: str) -> Target | None:
        """What the rules say of a receiver that is paused by hand."""
        if self._rules is None:
            return None
        target = self._rules.paused.get(name)
        return target if target is not None and target.is_paused(self._clock.now()) else None

    def _await(self, name: str, paused: Target | None = None) -> None:
        now = self._clock.monotonic()
        if paused is None:
            at = self.breakers.opens_at(name) or now
        elif paused.paused_until is None:
            return  # it is looked at when the rules have changed
        else:
            at = now + min((paused.paused_until - self._clock.now()) / 1000, LOOK_AFTER)
        if self._awaited.get(name, at + 1) > at:
            self._awaited[name] = at
            heapq.heappush(self._looks, (at, name))

    def _look_soon(self, name: str) -> None:
        now = self._awaited[name] = self._clock.monotonic()
        heapq.heappush(self._looks, (now, name))

    def _look_at_rules(self) -> None:
        """Find out who was resumed since the last look, if the rules have changed."""
        if self._rules is None or self._rules.paused is self._paused:
            return
        before, self._paused = self._paused, self._rules.paused
        for name, target in before.items():
            if self._paused.get(name) is not target:
                self._look_soon(name)
        resumed = {
            kept.record.name: kept.document.resumed_at
            for kept in self._rules.targets.all()
            if kept.document.resumed_at is not None
        }
        for name, at in resumed.items():
            if self._resumed.get(name) != at:
                self.breakers.reset(name)
                self._look_soon(name)
        self._resumed = resumed
