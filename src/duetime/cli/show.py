"""How timers, attempts and nodes look to people."""

from collections.abc import Iterable
from typing import Any

from duetime.cli.cells import (
    LONGEST_LINE,
    cell,
    inner,
    json,
    milliseconds,
    shortened,
    show_lines,
    time,
)
from duetime.cli.output import Screen, printable, relative
from duetime.client.types import Attempt, Node, Outcome, Timer
from duetime.clock import Millis

_LONGEST_WHY = 60
_STATE_COLOURS = {"alive": "green", "dead": "red"}  # the others pass


def show_timers(screen: Screen, timers: Iterable[Timer], now: Millis) -> None:
    """A list of timers, one line each; with what failed and is tried again, where that is so."""
    timers = list(timers)
    retries = [retry_of(timer, now) for timer in timers]
    has_retries, has_failed = any(retries), any(map(_why, timers))
    heads = ["ID", "STATUS", "DUE", "GROUP", "KEY", "NAME"]
    heads += ["ATTEMPT"] * has_retries + ["ERROR"] * has_failed
    rows = [
        (
            printable(timer["id"]),
            screen.status(timer["status"]),
            relative(timer.get("execute_at"), now),
            cell(timer.get("group")),
            cell(_own_key(timer)),
            cell(timer.get("name")),
            *((cell(retry),) if has_retries else ()),
            *((cell(_why(timer), _LONGEST_WHY),) if has_failed else ()),
        )
        for timer, retry in zip(timers, retries, strict=True)
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
        "credential": inner(timer, "callback_config").get("credential"),
        "name": timer.get("name"),
        "group": timer.get("group"),
        "key": _own_key(timer),
        "tags": ", ".join(timer.get("tags") or ()),
        "metadata": json(timer.get("metadata")),
        "correlation": timer.get("correlation_id"),
        "attempt": retry_of(timer, now) or timer.get("attempt") or None,
        "occurrence": None if timer.get("occurrence") == 1 else timer.get("occurrence"),
        "next attempt": time(timer.get("next_attempt_at"), now),
        "held since": time(timer.get("held_since"), now),
        "last error": timer.get("last_error"),
        "on failure": _told(timer),
        "told by": timer.get("on_failure_timer"),
        "tells of": timer.get("tells_of"),
        "response": shortened(_response(timer.get("outcome")), LONGEST_LINE),
        "created": time(timer.get("created_at"), now),
        "version": timer.get("version"),
    }
    show_lines(screen, lines)


def retry_of(timer: Timer, now: Millis) -> str | None:
    """Which attempt a timer waits for that has failed before: "3 of 8, next in 4m"."""
    failures, most = timer.get("failures"), timer.get("max_attempts")
    if timer["status"] != "pending" or not isinstance(failures, int) or failures < 1:
        return None
    return f"{failures + 1} of {most}, next {relative(timer.get('next_attempt_at'), now)}"


def show_attempts(screen: Screen, attempts: Iterable[Attempt], now: Millis) -> None:
    """The execution log, one line for each attempt; with the answers where any were kept.

    And with the occurrence, where there is more than one: their attempts have the same numbers.
    """
    attempts = list(attempts)
    has_responses = any(attempt.get("response") for attempt in attempts)
    has_occurrences = len({attempt.get("occurrence") for attempt in attempts}) > 1
    rows = [
        (
            *((cell(attempt.get("occurrence")),) if has_occurrences else ()),
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
        first = ("OCCURRENCE", "ATTEMPT") if has_occurrences else ("ATTEMPT",)
        screen.table((*first, "STARTED", "RESULT", "HTTP", "TOOK", "NEXT", *last), rows)
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


def _why(timer: Timer) -> str | None:
    """What a failed timer failed of."""
    return timer.get("last_error") if timer["status"] == "failed" else None


def _callback(timer: Timer) -> str | None:
    return _where(timer.get("callback_config")) or timer.get("callback_type")


def _told(timer: Timer) -> str | None:
    """Who is told when it has failed."""
    told: Any = timer.get("on_failure")
    return _where(told.get("callback")) if isinstance(told, dict) else None


def _where(callback: Any) -> str | None:
    config: dict[str, Any] = dict(callback or {})
    if "url" in config:
        return f"{config.get('method', 'POST')} {config['url']}"
    return config.get("topic")


def _response(outcome: Outcome | Attempt | None) -> str:
    """What was kept of an answer, on one line."""
    return " ".join(((outcome and outcome.get("response")) or "").split())
