"""Emptying: a group that is to be deleted is gone through until nothing of it is still to come.

What can be canceled is. What is being delivered is waited for, and may be tried again after that;
and others may create timers meanwhile: so there is one pass after the other, until one has found
nothing. That must not go on for ever: then the group stays, and the action says why.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from duetime.bulk.action import Action, Emptying, Tally
from duetime.bulk.resuming import MARGIN
from duetime.clock import Millis
from duetime.model import Status, Timer

LONGEST: Millis = 300_000  # since the first pass that has left something
REST = 1.0  # seconds between two passes, if all that can be done is to wait


def planned(action: Action, timers: Sequence[Timer]) -> Action:
    """The action with those of these timers in its batch that can be canceled."""
    emptying = _of(action)
    batch = [timer.id for timer in timers if timer.status is not Status.EXECUTING]
    seen = replace(
        emptying,
        canceling=emptying.canceling + len(batch),
        executing=emptying.executing + len(timers) - len(batch),
    )
    return replace(action, batch=tuple(batch), emptying=seen)


def counted(tally: Tally) -> Tally:
    """What counts of a batch: timers that it could not cancel come again in the next pass."""
    return Tally(matched=tally.changed, changed=tally.changed)


def again(action: Action, now: Millis) -> Action:
    """The action at the beginning of the next pass."""
    emptying = _of(action)
    since = now if emptying.since is None else emptying.since
    return replace(
        action,
        cursor=None,
        has_seen_all=False,
        # Also those that are created while it goes through the others.
        created_before=now + MARGIN,
        emptying=replace(emptying, since=since, canceling=0, executing=0),
    )


def problem(action: Action) -> str | None:
    """Why the group cannot be deleted after this pass; None: nothing of it is still to come."""
    emptying = _of(action)
    if emptying.executing:
        return f"group: {emptying.executing} of its timers are still being delivered; it stays"
    if emptying.canceling:
        return "group: timers are created in it again and again; it stays"
    return None


def must_rest(action: Action) -> bool:
    """Tell whether the next pass is of no use yet."""
    return not _of(action).canceling


def is_over(action: Action, now: Millis) -> bool:
    """Tell whether there have been passes for too long."""
    since = _of(action).since
    return since is not None and now >= since + LONGEST


def _of(action: Action) -> Emptying:
    if action.emptying is None:
        raise ValueError("this action is about no group that is to be deleted")
    return action.emptying
