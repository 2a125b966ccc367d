"""How timers, attempts and nodes look to people."""

from collections.abc import Iterable
from typing import Any

import msgspec

from duetime.cli.output import Screen, printable, relative
from duetime.client.types import Attempt, Node, Outcome, Timer
from duetime.clock import Millis

_LONGEST_CELL = 40
_LONGEST_LINE = 200
_STATE_COLOURS = {"alive": "green", "dead": "red"}  # the others pass


def show_timers(screen: Screen, timers: Iterable[Timer], now: Millis) -> None:
    """A list of timers, one line each."""
    heads = ("ID", "STATUS", "DUE", "GROUP", "KEY", "NAME")
    rows = [
        (
            printable(timer["id"]),
            screen.status(timer["status"]),
            relative(timer.get("execute_at"), now),
            _cell(timer.get("group")),
            _cell(_own_key(timer)),
            _cell(timer.get("name")),
        )
        for timer in timers
    ]
    if rows:
        screen.table(heads, rows)
    else:
        screen.line("No timers.")


def show_timer(screen: Screen, timer: Timer, now: Millis) -> None:
    """All about one timer, one line for each thing that is known."""
    lines = {
        "id": printable(timer["id"]),
        "status": screen.status(timer["status"]),
        "due": _time(timer.get("execute_at"), now),
        "executed": _time(timer.get("executed_at"), now),
        "callback": _callback(timer),
        "name": timer.get("name"),
        "group": timer.get("group"),
        "key": _own_key(timer),
        "tags": ", ".join(timer.get("tags") or ()),
        "metadata": _json(timer.get("metadata")),
        "correlation": timer.get("correlation_id"),
        "attempt": timer.get("attempt") or None,
        "next attempt": _time(timer.get("next_attempt_at"), now),
        "last error": timer.get("last_error"),
        "response": _shortened(_response(timer.get("outcome")), _LONGEST_LINE),
        "created": _time(timer.get("created_at"), now),
        "version": timer.get("version"),
    }
    for name, value in lines.items():
        if value not in {None, ""}:
            shown = str(value) if name == "status" else printable(str(value))
            screen.line(f"{screen.colour('dim', f'{name:<12}')} {shown}")


def show_attempts(screen: Screen, attempts: Iterable[Attempt], now: Millis) -> None:
    """The execution log, one line for each attempt; with the answers where any were kept."""
    attempts = list(attempts)
    has_responses = any(attempt.get("response") for attempt in attempts)
    rows = [
        (
            str(attempt["attempt"]),
            relative(attempt.get("started_at"), now),
            screen.colour("green" if attempt["kind"] == "ok" else "red", _cell(attempt["kind"])),
            _cell(attempt.get("status_code")),
            _milliseconds(attempt.get("latency_ms")),
            relative(attempt.get("next_at"), now),
            *((_cell(_response(attempt)),) if has_responses else ()),
            printable(attempt.get("error") or ""),
        )
        for attempt in attempts
    ]
    if rows:
        last = ("RESPONSE", "ERROR") if has_responses else ("ERROR",)
        screen.table(("ATTEMPT", "STARTED", "RESULT", "HTTP", "TOOK", "NEXT", *last), rows)
    else:
        screen.line("No attempts yet.")


def show_nodes(screen: Screen, nodes: Iterable[Node], now: Millis) -> None:
    """The nodes, one line each."""
    heads = ("NODE", "STATE", "SHARDS", "BEHIND", "SEEN", "STARTED", "VERSION")
    rows = [
        (
            printable(node["name"]) + (" *" if node.get("is_this") else ""),
            screen.colour(_STATE_COLOURS.get(node["state"], "yellow"), printable(node["state"])),
            _cell(node.get("shards")),
            _milliseconds(node.get("behind_ms")),
            _milliseconds(node.get("last_seen_ms")) + " ago",
            relative(node.get("started_at"), now),
            _cell(node.get("version")),
        )
        for node in nodes
    ]
    if rows:
        screen.table(heads, rows)
    else:
        screen.line("No nodes.")


def _own_key(timer: Timer) -> str | None:
    """The user's key; the id stands in for it where there is none."""
    key = timer.get("timer_id")
    return None if key == timer["id"] else key


def _callback(timer: Timer) -> str | None:
    config: dict[str, Any] = dict(timer.get("callback_config") or {})
    if "url" in config:
        return f"{config.get('method', 'POST')} {config['url']}"
    return config.get("topic") or timer.get("callback_type")


def _response(outcome: Outcome | Attempt | None) -> str:
    """What was kept of an answer, on one line."""
    return " ".join(((outcome and outcome.get("response")) or "").split())


def _time(at: str | None, now: Millis) -> str | None:
    return f"{at} ({relative(at, now)})" if at else None


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _milliseconds(value: Any) -> str:
    return "-" if value is None else f"{value} ms"


def _cell(value: Any) -> str:
    """A value on one line, shortened; a dash where there is none."""
    text = "-" if value is None or value == "" else printable(str(value))
    return _shortened(text, _LONGEST_CELL)


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
