"""How targets look to people."""

from collections.abc import Iterable, Mapping
from typing import Any

from duetime.cli.cells import cell, number, show_lines, time
from duetime.cli.output import Screen, printable, relative
from duetime.cli.show_tenancy import most_callbacks
from duetime.clock import Millis

_COLOURS = {"ok": "green", "failing": "red"}  # the others will pass

Row = Mapping[str, Any]


def show_targets(screen: Screen, targets: Iterable[Row], now: Millis) -> None:
    """The targets, one line each."""
    lines = [
        (
            cell(target.get("name"), 60),
            _state(screen, target),
            relative(target.get("until"), now),
            number(target.get("waiting")),
            number(target.get("under_way")),
            cell(_why(target), 60),
        )
        for target in targets
    ]
    if lines:
        screen.table(("TARGET", "STATE", "UNTIL", "WAITING", "UNDER WAY", "WHY"), lines)
    else:
        screen.line("No targets that there is something to tell of.")


def show_target(screen: Screen, target: Row, now: Millis) -> None:
    """All about one target."""
    about = {
        "target": target.get("name"),
        "status": _state(screen, target),
        "since": time(target.get("since"), now),
        "until": time(target.get("until"), now),
        "paused by": target.get("paused_by"),
        "reason": target.get("reason"),
        "failures": target.get("failures") or None,
        "last error": target.get("last_error"),
        "waiting": number(target.get("waiting")),
        "under way": number(target.get("under_way")),
    }
    show_lines(screen, about | {"callbacks": most_callbacks(target)})


def _state(screen: Screen, target: Row) -> str:
    state = target.get("state")
    return screen.colour(_COLOURS.get(str(state), "yellow"), printable(str(state or "-")))


def _why(target: Row) -> Any:
    return target.get("reason") or target.get("last_error")
