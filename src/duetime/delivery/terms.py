"""Terms: how the callbacks of a group are sent and their answers taken, as its owners have it now.

What a timer carries with it is fixed when it is made. Terms are not: they are asked for at every
attempt, so that secrets can rotate under timers that are due in a year.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from duetime.timer import Timer

# What is wrong with the body of a 2xx answer, in words that quote nothing of it; None: nothing.
Check: TypeAlias = Callable[[bytes], str | None]


class Terms(NamedTuple):
    """The terms of one group."""

    secrets: tuple[bytes, ...] = ()  # what callbacks are signed with, the newest first
    # Why a callback cannot be signed with what it should be: it is not sent without. A sentence
    # for whoever runs the service.
    unsignable: str | None = None
    check: Check | None = None  # what the bodies of answers must pass

    def __repr__(self) -> str:
        """Show no secret, wherever this is printed."""
        return (
            f"Terms(secrets={len(self.secrets)}, unsignable={self.unsignable!r}, "
            f"check={self.check is not None})"
        )


NO_TERMS = Terms()

# Asked at every attempt, in the event loop: it must answer from memory.
TermsOf: TypeAlias = Callable[[Timer], Terms]


def no_terms(_timer: Timer) -> Terms:
    """The terms of groups of which nothing is known."""
    return NO_TERMS
