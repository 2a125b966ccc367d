"""Transitions: the one table of which changes a timer's status allows; all others are refused."""

from collections.abc import Mapping

from duetime.errors import IllegalTransition
from duetime.timer import Status, Timer

# action -> status before -> the statuses that it may lead to. The code asks only what may be done
# in a status; that nothing leads elsewhere is held by the tests.
TRANSITIONS: Mapping[str, Mapping[Status, frozenset[Status]]] = {
    "claim": {Status.PENDING: frozenset({Status.EXECUTING})},
    "expire": {Status.PENDING: frozenset({Status.FAILED})},
    "hold": {
        Status.PENDING: frozenset({Status.PENDING}),
        Status.EXECUTING: frozenset({Status.PENDING}),
    },
    "let go": {Status.PENDING: frozenset({Status.PENDING})},
    "skip": {Status.PENDING: frozenset({Status.CANCELED})},
    "renew": {Status.EXECUTING: frozenset({Status.EXECUTING})},
    "finish": {
        Status.EXECUTING: frozenset({Status.COMPLETED, Status.FAILED, Status.PENDING}),
    },
    "release": {Status.EXECUTING: frozenset({Status.PENDING})},
    "take up": {Status.EXECUTING: frozenset({Status.EXECUTING, Status.FAILED})},
    "update": {
        Status.PENDING: frozenset({Status.PENDING}),
        Status.PAUSED: frozenset({Status.PAUSED}),
    },
    "shift": {
        Status.PENDING: frozenset({Status.PENDING}),
        Status.PAUSED: frozenset({Status.PAUSED}),
    },
    "replace": {
        status: frozenset({Status.PENDING}) for status in Status if status != Status.EXECUTING
    },
    "cancel": {
        Status.PENDING: frozenset({Status.CANCELED}),
        Status.PAUSED: frozenset({Status.CANCELED}),
    },
    "pause": {Status.PENDING: frozenset({Status.PAUSED})},
    "resume": {Status.PAUSED: frozenset({Status.PENDING})},
    "fire": {
        Status.PENDING: frozenset({Status.PENDING}),
        Status.PAUSED: frozenset({Status.PENDING}),
    },
    "redrive": {Status.FAILED: frozenset({Status.PENDING})},
    "tell": {Status.FAILED: frozenset({Status.FAILED})},
}


def check(action: str, timer: Timer) -> None:
    """Refuse an action that the timer's status does not allow."""
    if timer.status not in TRANSITIONS[action]:
        raise IllegalTransition(action, timer.status)
