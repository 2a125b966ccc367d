"""The calls about actions on many timers, as values."""

from typing import Any
from urllib.parse import quote

from duetime.client.action_types import Action, ActionName, Actions, TimerFilter
from duetime.client.calls import Call
from duetime.client.types import TimerChange


def start_action(
    action: ActionName,
    which: TimerFilter,
    idempotency_key: str | None,
    *,
    dry_run: bool,
    by: str | None,
    update: TimerChange | None,
) -> Call[Action]:
    body: dict[str, Any] = {"action": action, "filter": which, "dry_run": dry_run}
    if by is not None:
        body["by"] = by
    if update is not None:
        body["update"] = update
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
    return Call("POST", "/timers/actions", body, headers=headers, needs="id")


def redrive_all(which: TimerFilter, idempotency_key: str | None, *, dry_run: bool) -> Call[Action]:
    body = {"filter": which, "dry_run": dry_run}
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
    return Call("POST", "/timers/redrive", body, headers=headers, needs="id")


def actions() -> Call[Actions]:
    return Call("GET", "/actions", needs="actions", needs_type=list)


def get_action(id_: str) -> Call[Action]:
    return Call("GET", _action(id_), needs="state")


def cancel_action(id_: str) -> Call[Action]:
    return Call("DELETE", _action(id_), needs="state")


def _action(id_: str) -> str:
    return f"/actions/{quote(id_, safe='')}"
