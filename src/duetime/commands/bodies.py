"""The bodies of commands that name a timer, where a request over HTTP has it in its path."""

from typing import Annotated

from msgspec import Meta

from duetime.errors import InvalidRequest
from duetime.requests import Body, GroupName, TimerKey, UpdateTimer
from duetime.timer import DEFAULT_GROUP

_Id = Annotated[str, Meta(max_length=64)]


class WhichTimer(Body):
    """One timer, by its id or by its key."""

    id: _Id | None = None
    group: GroupName | None = None
    timer_id: TimerKey | None = None


class UpdateWhichTimer(UpdateTimer):
    """What to change of a timer, and of which."""

    id: _Id | None = None
    group: GroupName | None = None
    timer_id: TimerKey | None = None


def path_of(which: WhichTimer | UpdateWhichTimer) -> dict[str, str]:
    """What the path would say of it: its id, or its group and key."""
    if which.id is not None:
        if which.timer_id is not None or which.group is not None:
            raise InvalidRequest("id: cannot be given together with group and timer_id")
        return {"id": which.id}
    if which.timer_id is None:
        raise InvalidRequest("id: required, or timer_id and its group")
    return {"group": which.group or DEFAULT_GROUP, "timer_id": which.timer_id}
