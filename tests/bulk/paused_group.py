"""A group that was paused for an hour, in which timers fell due minute by minute."""

from collections.abc import Callable

import msgspec

from duetime import model
from duetime.stores import Change
from duetime.tenancy.caller import OPERATOR
from duetime.tenancy.requests import PutGroup
from duetime.testing import FakeClock
from duetime.timer import Timer
from tests.bulk.desk import Desk, stored
from tests.factories import insert, make_spec, make_timer

MINUTE = 60_000
TIMERS = 10


class PausedGroup:
    """The group ``g``, and what shall become of its timers by its rule."""

    def __init__(
        self,
        store,
        clock: FakeClock,
        rule: str,
        deadline: Callable[[int], int | None] | None = None,
    ) -> None:
        self.store, self.clock, self.rule = store, clock, rule
        self._deadline = deadline or (lambda _minute: None)  # of the one that was due in a minute
        self.desk = Desk(store, clock)
        self.timers: list[Timer] = []

    async def make(self) -> "PausedGroup":
        groups, now = self.desk.service.groups, self.clock.now()
        await groups.put(OPERATOR, "g", msgspec.convert({"on_resume": self.rule}, PutGroup))
        # Before the pause, and held all the same: a retry, say, whose node was busy.
        early = make_timer(group="g", created_at=now - 9, execute_at=now - 5)
        await insert(self.store, early)
        await groups.pause(OPERATOR, "g")
        self.paused_at = now
        # In another order than that of their creation.
        due = [now + ((number * 7) % TIMERS + 1) * MINUTE for number in range(TIMERS)]
        caught = [
            make_timer(
                group="g",
                created_at=now - 100 + n,
                execute_at=at,
                spec=make_spec(deadline=self._deadline((at - now) // MINUTE)),
            )
            for n, at in enumerate(due)
        ]
        self.future = make_timer(group="g", created_at=now, execute_at=now + 120 * MINUTE)
        self.elsewhere = make_timer(group="h", created_at=now, execute_at=now + MINUTE)
        await insert(self.store, *caught, self.future, self.elsewhere)
        self.clock.advance(60 * MINUTE)
        # The nodes have put them to sleep, all but one that they have not come to yet.
        await self.hold(*caught[1:], early)
        self.early, self.caught = early, caught
        self.latest = max(caught, key=lambda timer: (timer.execute_at, timer.id))
        return self

    async def hold(self, *timers: Timer) -> None:
        """Put timers to sleep, as nodes do that know of the pause."""
        held = [Change(timer, model.hold(timer, self.clock.now())) for timer in timers]
        assert all(await self.store.apply(held))

    async def outcome(self) -> dict[str, tuple[str, int | None]]:
        timers = [*self.caught, self.early, self.future, self.elsewhere]
        return {
            timer.id: (timer.status.value, timer.wake_at)
            for timer in await stored(self.store, timers)
        }

    def expected(self) -> dict[str, tuple[str, int | None]]:
        fires = {
            "all": {timer.id for timer in self.caught},
            "none": set(),
            "latest": {self.latest.id},
        }[self.rule]
        return {
            timer.id: ("pending", timer.execute_at) if timer.id in fires else ("canceled", None)
            for timer in self.caught
        } | {
            timer.id: ("pending", timer.execute_at)
            for timer in (self.early, self.future, self.elsewhere)
        }
