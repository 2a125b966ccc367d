"""Holds: which timers must wait though they are due, because their group is paused.

A node tells the others, with its heartbeats, by which revision of the rules it goes. It must not
name one before all that it writes goes by it: a timer that is put to sleep after its group was
resumed would sleep on.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from duetime.clock import Millis
from duetime.model import HOLD_FOR
from duetime.tenancy.rules import Rules
from duetime.timer import Timer

# While a group is being resumed: whatever its action has not met is looked at again soon.
HOLD_BRIEFLY: Millis = 5_000


class Holds:
    """Goes by the rules, if there are any."""

    def __init__(self, rules: Rules | None = None) -> None:
        self._rules = rules
        self._acts_by: int | None = None  # while something is written by them

    def is_held(self, timer: Timer) -> bool:
        """Tell whether a timer must wait."""
        return self.hold_for(timer) is not None

    def hold_for(self, timer: Timer) -> Millis | None:
        """How long a timer sleeps before somebody looks at it again; None: it need not wait."""
        if self._rules is None:
            return None
        group = self._rules.held(timer.tenant, timer.group)
        if group is None or not group.holds(timer):
            return None
        return HOLD_FOR if group.is_paused else HOLD_BRIEFLY

    async def look(self) -> None:
        """Read what has changed of the rules."""
        if self._rules is not None:
            await self._rules.look()

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Write by the rules as they are now, whatever becomes of them meanwhile."""
        self._acts_by = None if self._rules is None else self._rules.revision
        try:
            yield
        finally:
            self._acts_by = None

    def obeyed(self) -> int:
        """The revision that this node goes by in all that it may still write."""
        if self._acts_by is not None:
            return self._acts_by
        return 0 if self._rules is None else self._rules.revision

    def sends_by(self) -> int:
        """The revision of the targets that all goes by which this node sends from now on."""
        return 0 if self._rules is None else self._rules.targets.revision

    def makes_by(self) -> int:
        """The revision of the tenants that all goes by which the API of this node makes."""
        return 0 if self._rules is None else self._rules.makes_by()
