"""The numbers of writes: on them rests what can be said of one whose answer was lost.

The driver numbers its writes; but where it has lost sight of a server between choosing it and
writing to it, it leaves the number out, and tells nobody. Such a write cannot be settled.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pymongo import monitoring

_WRITES = {"insert", "update", "delete"}

_noted: ContextVar[list[str] | None] = ContextVar("unnumbered", default=None)


class Numbering(monitoring.CommandListener):
    """Notes down what is sent without a number, for whoever wants to know."""

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        noted = _noted.get()
        if noted is None or event.command_name not in _WRITES:
            return
        if "txnNumber" not in event.command:
            noted.append(event.command_name)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass


@contextmanager
def noting_unnumbered() -> Iterator[list[str]]:
    """The writes that were sent without a number, by this task, from now on."""
    noted: list[str] = []
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)
