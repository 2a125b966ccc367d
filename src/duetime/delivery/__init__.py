"""The delivery contract: a sender turns a claimed timer into an outcome, never an exception."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

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


class Errand(Protocol):
    """A claimed timer that is given away to be sent."""

    @property
    def timer(self) -> Timer:
        """The timer, as it is stored, executing."""

    def is_mine(self) -> bool:
        """Tell whether the claim still holds: asked as in ``Sender.send``."""

    def ended(self, outcome: Outcome) -> None:
        """Tell what came of it. Only the first time counts."""


@runtime_checkable
class Courier(Protocol):
    """What a sender is as well if it can send without a task that waits for the answer."""

    def begin(self, errand: Errand) -> bool:
        """Make an attempt, if nothing has to be waited for before it is sent. Never raises.

        True: ``ended`` is told in the end, or was already. False: nothing was done, so that it has
        to be sent by ``Sender.send``.
        """


class Mail(Protocol):
    """Claimed timers that are given away to be sent, to one receiver."""

    @property
    def timers(self) -> Sequence[Timer]:
        """All of them, as they are stored, executing."""

    def is_mine(self, timer: Timer) -> bool:
        """Tell whether the claim of one still holds: asked as in ``Sender.send``."""

    def ended(self, timers: Sequence[Timer], outcome: Outcome) -> None:
        """Tell what came of some of them. Only the first time counts for each."""


@runtime_checkable
class Post(Protocol):
    """What a sender is as well if many callbacks share one round trip.

    To wait for each of them in a task of its own would cost more than to send them.
    """

    def posts(self, callback: Callback) -> bool:
        """Tell whether callbacks of this kind are posted; to one receiver, all or none are."""

    def post(self, mail: Mail) -> None:
        """Begin attempts, and return at once. Never raises; each timer has ``ended`` in the end.

        The claims hold as this is called: only what leaves later must be asked for again.
        """


class PostingSender(Sender, Post, Protocol):
    """A sender that posts."""
