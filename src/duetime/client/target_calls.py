"""The calls about targets, as values."""

from urllib.parse import quote

from duetime.client.calls import Call
from duetime.client.target_types import Target, TargetChange, Targets
from duetime.client.tenancy_types import Deleted

# Seconds: such a call is answered when every node obeys, which the service awaits for up to 30.
_UNTIL_ALL_OBEY = 60.0


def targets() -> Call[Targets]:
    return Call("GET", "/targets", needs="targets", needs_type=list)


def get_target(name: str) -> Call[Target]:
    return Call("GET", _target(name), needs="name")


def put_target(name: str, change: TargetChange) -> Call[Target]:
    return Call("PUT", _target(name), change, needs="name")


def pause_target(
    name: str, *, until: str | None = None, for_: str | None = None, reason: str | None = None
) -> Call[Target]:
    given = {"until": until, "for": for_, "reason": reason}
    body = {field: value for field, value in given.items() if value is not None}
    return Call("POST", f"{_target(name)}/pause", body, needs="name", patience=_UNTIL_ALL_OBEY)


def resume_target(name: str) -> Call[Target]:
    return Call("POST", f"{_target(name)}/resume", needs="name", patience=_UNTIL_ALL_OBEY)


def forget_target(name: str) -> Call[Deleted]:
    return Call("DELETE", _target(name))


def _target(name: str) -> str:
    return f"/targets/{quote(name, safe='')}"
