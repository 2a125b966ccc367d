"""How actions and the audit look to people."""

from collections.abc import Iterable, Mapping
from typing import Any

from duetime.cli.cells import cell, json, number, show_lines, time
from duetime.cli.output import Screen, relative
from duetime.clock import Millis

_COLOURS = {"running": "yellow", "done": "green", "failed": "red"}  # canceled is dim
_LONGEST_DETAILS = 60

Row = Mapping[str, Any]


def show_actions(screen: Screen, actions: Iterable[Row], now: Millis) -> None:
    """The actions, one line each."""
    lines = [
        (
            cell(action.get("id")),
            _name(action),
            _state(screen, action),
            *(number(action.get(name)) for name in ("matched", "changed", "skipped", "failed")),
            relative(action.get("created_at"), now),
            cell(action.get("actor")),
        )
        for action in actions
    ]
    heads = ("ID", "ACTION", "STATE", "MATCHED", "CHANGED", "SKIPPED", "FAILED", "STARTED", "BY")
    if lines:
        screen.table(heads, lines)
    else:
        screen.line("No actions.")


def show_action(screen: Screen, action: Row, now: Millis) -> None:
    """All about one action, and how far it has come."""
    counts = ("matched", "changed", "skipped", "failed")
    about = {
        "id": action.get("id"),
        "action": _name(action),
        "status": _state(screen, action),
        "filter": json(action.get("filter")),
        **{name: number(action[name]) for name in counts if action.get(name) is not None},
        "by": action.get("actor"),
        "started": time(action.get("created_at"), now),
        "finished": time(action.get("finished_at"), now),
        "error": action.get("error"),
    }
    show_lines(screen, about)


def progress_of(action: Row) -> str:
    """How far an action has come, in a few words."""
    parts = [f"{number(action.get('matched') or 0)} match"]
    names = ("changed", "skipped", "failed")
    parts += [f"{number(action[name])} {name}" for name in names if action.get(name)]
    return f"{_name(action)}: {', '.join(parts)}"


def show_audit(screen: Screen, lines: Iterable[Row]) -> None:
    """The lines of the audit, one line each. When it was is told exactly."""
    table = [
        (
            cell(line.get("at")),
            cell(line.get("actor")),
            cell(line.get("action")),
            cell(line.get("target"), _LONGEST_DETAILS),
            cell(line.get("group")),
            cell(line.get("address")),
            cell(json(line.get("details") or None), _LONGEST_DETAILS),
        )
        for line in lines
    ]
    if table:
        heads = ("AT", "ACTOR", "ACTION", "TARGET", "GROUP", "ADDRESS", "DETAILS")
        screen.table(heads, table)
    else:
        screen.line("Nothing was noted.")


def _name(action: Row) -> str:
    return cell(action.get("action")) + (" (dry run)" if action.get("dry_run") else "")


def _state(screen: Screen, action: Row) -> str:
    state = cell(action.get("state"))
    return screen.colour(_COLOURS.get(state, "dim"), state)
