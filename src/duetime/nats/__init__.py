"""NATS, as the rest of Duetime sees it: one connection, kept up in the background.

It publishes, requests and listens. What it cannot hand to a server at once it refuses, and never
keeps for later: a callback that was reported as failed must not leave when a server comes back.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol


class Message(NamedTuple):
    """What came in."""

    subject: str
    data: bytes
    reply: str = ""  # where an answer is wanted, if one is
    headers: Mapping[str, str] = {}  # by their names as they were sent; the first of each name
    status: int | None = None  # what the server itself says: 503, nobody listens; 404, no messages


class Ending(Protocol):
    """What can be ended."""

    def end(self) -> None:
        """Hear nothing more. Idempotent."""


class Subscription(Ending, Protocol):
    """Somebody who listens."""

    def leave(self) -> None:
        """Ask for nothing more, and still hear what was sent before the server knew. Idempotent."""


class Nats(Protocol):
    """A connection to one of the servers, made anew whenever it is lost."""

    @property
    def is_connected(self) -> bool:
        """Tell whether there is a connection now."""

    @property
    def inbox(self) -> str:
        """What subjects begin with on which only this connection listens."""

    @property
    def max_payload(self) -> int:
        """How many bytes a message may have, with its headers."""

    def publish(self, subject: str, data: bytes, *, headers: bytes = b"", reply: str = "") -> None:
        """Put a message on its way; what is published in one turn of the loop is written together.

        ``headers`` is a block as ``headers.written`` makes it. Raises NatsUnavailable if there is
        no connection, or the server does not keep up, and MessageTooLarge: then the message has not
        been sent, and never will be. That it has arrived at the server, only ``flush`` tells. The
        subject must be a legal one.
        """

    async def flush(self, within: float) -> frozenset[str]:
        """Wait until the server has all that was published so far; many may share one round trip.

        The answer is the subjects among them on which this user may not publish: what was meant
        for these went nowhere. Raises NatsUnavailable if the connection was lost since, or no
        answer came within so many seconds: then nobody knows what of it has arrived. In that
        case the connection is given up for all, so that nothing of it leaves later.
        """

    async def request(
        self, subject: str, data: bytes, *, headers: bytes = b"", within: float
    ) -> Message:
        """Publish, and wait for one answer.

        Raises NoResponders if nobody listens, NatsUnavailable if there is no connection, it was
        lost, or no answer came in time.
        """

    def subscribe(
        self, subject: str, hear: Callable[[Message], None], *, queue: str = ""
    ) -> Subscription:
        """From now on, call ``hear`` with what comes in on a subject; also over later connections.

        Those with one ``queue`` share what comes in. ``hear`` must not raise, and not take long.
        """

    def when_lost(self, tell: Callable[[], None]) -> Ending:
        """Call this whenever the connection is lost: what was asked over it, nobody answers."""

    async def close(self, within: float = ...) -> None:
        """Send what was published, if that takes no longer than so many seconds, and hang up.

        Whoever still waits for an answer is told that the connection is lost. Idempotent.
        """
