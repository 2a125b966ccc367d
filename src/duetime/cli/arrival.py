"""An arrival: one callback, as a receiver saw it."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from duetime.clock import Millis, from_datetime


class Arrival(NamedTuple):
    """A callback that came in."""

    at: Millis
    method: str
    path: str
    headers: dict[str, str]  # by lower-case name
    body: bytes

    @property
    def attempt(self) -> str | None:
        return self.headers.get("x-timer-attempt")

    @property
    def lateness(self) -> Millis | None:
        """How long after its due time it came, if it said when that was."""
        due = self.headers.get("x-timer-due", "")
        try:
            due_at = int(due) if due.isdigit() else from_datetime(datetime.fromisoformat(due))
        except (ValueError, OverflowError):
            return None
        return self.at - due_at


OnArrival = Callable[[Arrival], None]
