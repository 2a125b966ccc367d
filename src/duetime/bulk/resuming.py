"""Resuming: what becomes of timers that fell due while their group was paused.

By the rule of the group all of them are fired, or none, or only the one that was due last. For that
one an action keeps the latest that it has come across in its record, in no batch: who turns out not
to be it goes into the batch of the one that beat it.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from duetime import model
from duetime.bulk.action import Action, Latest
from duetime.clock import Millis
from duetime.errors import IllegalTransition
from duetime.model import Status, Timer
from duetime.searching import Filter
from duetime.tenancy.group import NO_DEFAULTS, Group

MARGIN: Millis = 5_000  # by how much the clock of another node may be ahead


def begun(action: Action, group: Group, now: Millis) -> Action:
    """The action that was prepared, as it may begin now that every node knows of it.

    Until then a node may have put to sleep what fell due, or was created, after the group was
    resumed: so all that can have been held by now is looked at.
    """
    before = now + MARGIN
    return replace(
        action,
        state="running",
        resumed=replace(group, defaults=NO_DEFAULTS),
        filter=Filter(statuses=(Status.PENDING,), groups=(group.name,), execute_before=before),
        created_before=before,
    )


def planned(action: Action, timers: Sequence[Timer]) -> Action:
    """The action with those of these timers in its batch that it must see to now."""
    group = _group_of(action)
    batch = [each for each in timers if group.caught(each) or _is_held(each)]
    if group.on_resume != "latest":
        return replace(action, batch=tuple(each.id for each in batch))
    caught = [_place_of(each) for each in batch if group.caught(each)]
    others = [each.id for each in batch if not group.caught(each)]
    if action.latest is not None:
        caught.append(action.latest)
    latest = max(caught, default=None)
    beaten = [each.id for each in caught if each != latest]
    return replace(action, batch=(*others, *beaten), latest=latest)


def concluded(action: Action) -> Action:
    """The action with the one in its last batch that was due last of all."""
    if action.latest is None:
        return action
    return replace(action, batch=(action.latest.id,), chosen=action.latest.id, latest=None)


def let_go(action: Action, timer: Timer, now: Millis) -> Timer:
    """What becomes of one of the batch."""
    model.check("let go", timer)
    group = _group_of(action)
    if group.caught(timer) and group.on_resume != "all" and timer.id != action.chosen:
        return model.skip(timer, now)
    if group.caught(timer) or _is_held(timer):
        return model.let_go(timer, now)
    raise IllegalTransition("let go", timer.status)  # somebody has changed it since


def _group_of(action: Action) -> Group:
    if action.resumed is None:
        raise ValueError("this action is about no group that was resumed")
    return action.resumed


def _is_held(timer: Timer) -> bool:
    return timer.progress.held_since is not None


def _place_of(timer: Timer) -> Latest:
    held_since = timer.progress.held_since
    return Latest((timer.wake_at or 0) if held_since is None else held_since, timer.id)
