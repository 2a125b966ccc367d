"""Verbs: what an action makes of one timer, as pure functions."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from duetime import model
from duetime.bulk.action import Action
from duetime.bulk.resuming import let_go
from duetime.clock import LATEST, Millis
from duetime.errors import IllegalTransition, InvalidRequest
from duetime.timer import Status, Timer

Become: TypeAlias = Callable[[Timer, Millis], Timer]

_PLAIN: Mapping[str, Become] = {
    "cancel": model.cancel,
    "pause": model.pause,
    "resume": model.resume,
    "fire": model.fire,
    "redrive": model.redrive,
}


def become(action: Action, updated: Become) -> Become:
    """What an action makes of each timer; of one that it deletes, the same.

    IllegalTransition: its status does not allow it. Other errors of users: it cannot be done.
    ``updated`` is for the verb "update".
    """
    if action.verb == "shift":
        return lambda timer, now: shift(timer, now, action.by or 0)
    if action.verb == "update":
        return updated
    if action.verb == "delete":
        return _deleted
    if action.verb == "let go":
        return lambda timer, now: let_go(action, timer, now)
    return _PLAIN[action.verb]


def shift(timer: Timer, now: Millis, by: Millis) -> Timer:
    """Put a waiting timer off by so much, or let it come earlier; never where it cannot start."""
    shifted = model.shift(timer, now, by)
    at = shifted.execute_at if shifted.wake_at is None else shifted.wake_at
    if at > LATEST:
        raise InvalidRequest("by: leads beyond the year 9999")
    # The deadline of a retry stays where it is, also if it is paused and its time moves.
    if by > 0 and model.is_too_late(timer if timer.progress.attempt else shifted, at):
        raise InvalidRequest("by: leads beyond its deadline, which counts from execute_at")
    return shifted


def _deleted(timer: Timer, _now: Millis) -> Timer:
    """Nothing is taken away while it is being delivered: what comes of it would be lost."""
    if timer.status is Status.EXECUTING:
        raise IllegalTransition("delete", timer.status)
    return timer
