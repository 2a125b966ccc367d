"""How timers, attempts and nodes look to people."""

from collections.abc import Iterable
from typing import Any

from duetime.cli.cells import LONGEST_LINE, cell, json, milliseconds, shortened, show_lines, time
from duetime.cli.output import Screen, printable, relative
from duetime.client.types import Attempt, Node, Outcome, Timer
from duetime.clock import Millis

_STATE_COLOURS = {"alive": "green", "dead": "red"}  # the others pass


def show_timers(screen: Screen, timers: Iterable[Timer], now: Millis) -> None:
    """A list of timers, one line each."""
    heads = ("ID", "STATUS", "DUE", "GROUP", "KEY", "NAME")
    rows = [
        (
            printable(timer["id"]),
            screen.status(timer["status"]),
            relative(timer.get("execute_at"), now),
            cell(timer.get("group")),
            cell(_own_key(timer)),
            cell(timer.get("name")),
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
        "due": time(timer.get("execute_at"), now),
        "executed": time(timer.get("executed_at"), now),
        "callback": _callback(timer),
        "name": timer.get("name"),
        "group": timer.get("group"),
        "key": _own_key(timer),
        "tags": ", ".join(timer.get("tags") or ()),
        "metadata": json(timer.get("metadata")),
        "correlation": timer.get("correlation_id"),
        "attempt": timer.get("attempt") or None,
        "next attempt": time(timer.get("next_attempt_at"), now),
        "held since": time(timer.get("held_since"), now),
        "waiting for": timer.get("waiting_for"),
        "last error": timer.get("last_error"),
        "response": shortened(_response(timer.get("outcome")), LONGEST_LINE),
        "created": time(timer.get("created_at"), now),
        "version": timer.get("version"),
    }
    show_lines(screen, lines)


def show_attempts(screen: Screen, attempts: Iterable[Attempt], now: Millis) -> None:
    """The execution log, one line for each attempt; with the answers where any were kept."""
    attempts = list(attempts)
    has_responses = any(attempt.get("response") for attempt in attempts)
    rows = [
        (
            str(attempt["attempt"]),
            relative(attempt.get("started_at"), now),
            screen.colour("green" if attempt["kind"] == "ok" else "red", cell(attempt["kind"])),
            cell(attempt.get("status_code")),
            milliseconds(attempt.get("latency_ms")),
            relative(attempt.get("next_at"), now),
            *((cell(_response(attempt)),) if has_responses else ()),
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
            cell(node.get("shards")),
            milliseconds(node.get("behind_ms")),
            milliseconds(node.get("last_seen_ms")) + " ago",
            relative(node.get("started_at"), now),
            cell(node.get("version")),
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
