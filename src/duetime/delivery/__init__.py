"""The delivery contract: a sender turns a claimed timer into an outcome, never an exception."""

from collections.abc import Callable
from typing import Protocol

from duetime.timer import Callback, Outcome, Timer


class Sender(Protocol):
    """What carries a callback to its receiver."""

    def problem(self, callback: Callback) -> str | None:
        """Why this callback could never be delivered, naming the field, or None if it could."""

    def target(self, callback: Callback) -> str:
        """The receiver that limits are counted against, as users name it: "api.example.com:443"."""

    async def send(self, timer: Timer, is_mine: Callable[[], bool]) -> Outcome:
        """Make one attempt. Never raises, but for cancellation.

        ``is_mine`` tells whether the claim still holds. It is asked right before the request is
        handed to the network; if it says no, nothing is sent and the outcome is UNSENT.
        """

    async def close(self) -> None:
        """Let go of every connection. Idempotent."""
