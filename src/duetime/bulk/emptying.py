"""Emptying: a group that is to be deleted is gone through until nothing of it is still to come.

What can be canceled is. What is being delivered is waited for, and may be tried again after that;
and others may create timers meanwhile: so there is one pass after the other, until one has found
nothing. That must not go on for ever: then the group stays, and the action says why.

When the group is deleted, timers may still be created in it, by nodes that have not heard of that.
So when every node knows, and has ended the creates that it was at, there are passes again until one
has found nothing. Whoever has a timer written later than that, because it was not waited for so
long, sees that its group is gone, and makes it anew: ``Groups.make_anew``.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from duetime.bulk.action import Action, Emptying, Tally
from duetime.bulk.resuming import MARGIN
from duetime.clock import Millis
from duetime.timer import Status, Timer

LONGEST: Millis = 300_000  # since the first pass that has left something
REST = 1.0  # seconds between two passes, if all that can be done is to wait
ASK_EVERY = 0.1  # seconds between two looks whether every node knows
LONGEST_UNKNOWN: Millis = 30_000  # as with a pause: a node that does not know by then may never


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


def deleted(action: Action, now: Millis, revision: int) -> Action:
    """The action when its group is deleted, which nodes know that go by this revision."""
    return replace(action, emptying=replace(_of(action), deleted_at=now, revision=revision))


def after_all_know(action: Action, now: Millis) -> Action:
    """The action at the beginning of a pass that nobody can create timers behind."""
    action = again(action, now)
    # As much time as before: what is found now must not stay because the others took long.
    return replace(action, emptying=replace(_of(action), since=now, is_known_to_all=True))


def is_deleted(action: Action) -> bool:
    """Tell whether only those timers are left that others have made meanwhile."""
    return _of(action).deleted_at is not None


def must_ask(action: Action) -> bool:
    """Tell whether it must be seen yet that every node knows that the group is deleted."""
    emptying = _of(action)
    return emptying.deleted_at is not None and not emptying.is_known_to_all


def is_asked_in_vain(action: Action, now: Millis) -> bool:
    """Tell whether some node may never know that the group is deleted."""
    deleted_at = _of(action).deleted_at
    return deleted_at is not None and now >= deleted_at + LONGEST_UNKNOWN


def problem(action: Action) -> str | None:
    """Why this pass cannot be the last; None: nothing of the group is still to come."""
    emptying = _of(action)
    end = "it stays" if emptying.deleted_at is None else "it is deleted all the same"
    if emptying.executing:
        return f"group: {emptying.executing} of its timers are still being delivered; {end}"
    if emptying.canceling:
        return f"group: timers are created in it again and again; {end}"
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
