"""Resuming: what becomes of timers that fell due while their group was paused.

By the rule of the group all of them are fired, or none, or only the one that was due last, of those
whose deadline has not passed. For that one an action keeps the latest that it has come across in
its record, in no batch: who turns out not to be it goes into the batch of the one that beat it. And
as deadlines go on meanwhile, those are kept with it that were due earlier, but may be fired longer;
and a few that come next, since somebody may cancel the latest before the action has ended.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from duetime import model
from duetime.bulk.action import Action, Candidate
from duetime.clock import LATEST, Millis
from duetime.errors import IllegalTransition
from duetime.searching import Filter
from duetime.tenancy.group import NO_DEFAULTS, Group
from duetime.timer import Status, Timer
from duetime.transitions import check

MARGIN: Millis = 5_000  # by how much the clock of another node may be ahead
MOST_CANDIDATES = 20
RUNNERS_UP = 5  # of these, beside those that are kept for their deadlines


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


def planned(action: Action, timers: Sequence[Timer], now: Millis) -> Action:
    """The action with those of these timers in its batch that it must see to now."""
    group = _group_of(action)
    batch = [each for each in timers if group.caught(each) or _is_held(each)]
    if group.on_resume != "latest":
        return replace(action, batch=tuple(each.id for each in batch))
    caught = [_candidate(each) for each in batch if group.caught(each)]
    others = [each.id for each in batch if not group.caught(each)]
    caught += action.candidates
    candidates = _in_question(caught, now)
    beaten = [each.id for each in caught if each not in candidates]
    return replace(action, batch=(*others, *beaten), candidates=candidates)


def concluded(action: Action, timers: Sequence[Timer | None], now: Millis) -> Action:
    """The action with its candidates in the last batch, and the one that is chosen, if one can.

    ``timers`` are the candidates as they are now: whoever was canceled meanwhile, or is to fire
    some other time, leaves it to the next.
    """
    waiting = {timer.id for timer in timers if timer is not None and _is_waiting(action, timer)}
    in_time = _in_question((each for each in action.candidates if each.id in waiting), now)
    return replace(
        action,
        batch=tuple(each.id for each in action.candidates),
        chosen=in_time[0].id if in_time else None,
        candidates=(),
    )


def let_go(action: Action, timer: Timer, now: Millis) -> Timer:
    """What becomes of one of the batch."""
    check("let go", timer)
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


def _is_waiting(action: Action, timer: Timer) -> bool:
    return timer.status is Status.PENDING and _group_of(action).caught(timer)


def _is_held(timer: Timer) -> bool:
    return timer.progress.held_since is not None


def _candidate(timer: Timer) -> Candidate:
    held_since, deadline = timer.progress.held_since, timer.spec.deadline
    due_at = (timer.wake_at or 0) if held_since is None else held_since
    return Candidate(due_at, timer.id, LATEST if deadline is None else timer.execute_at + deadline)


def _in_question(caught: Iterable[Candidate], now: Millis) -> tuple[Candidate, ...]:
    """The latest that can be fired now; of those before it, each that can be fired longer; and a
    few more, the latest first.
    """
    candidates: list[Candidate] = []
    in_time = [each for each in sorted(caught, reverse=True) if each.until >= now]
    until = now - 1
    for each in in_time:
        if each.until > until:
            candidates.append(each)
            until = each.until
    if len(candidates) > MOST_CANDIDATES:  # the last of them is the one that can be fired longest
        del candidates[MOST_CANDIDATES - 1 : -1]
    room = min(RUNNERS_UP, MOST_CANDIDATES - len(candidates))
    runners_up = [each for each in in_time if each not in candidates][:room]
    return tuple(sorted([*candidates, *runners_up], reverse=True))
