"""How timers, attempts and nodes look to people."""

from collections.abc import Callable, Iterable
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
        "waiting for": timer.get("waiting_for"),
        "last error": timer.get("last_error"),
        "on failure": _told(timer),
        "told by": timer.get("on_failure_timer"),
        "tells of": timer.get("tells_of"),
        "response": shortened(_response(timer.get("outcome")), LONGEST_LINE),
        "its headers": shortened(_response_headers(timer.get("outcome")), LONGEST_LINE),
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
    """The execution log, one line for each attempt; with what not all have where any has it."""
    columns: dict[str, Callable[[Attempt], str]] = {
        "OCCURRENCE": lambda attempt: cell(attempt.get("occurrence")),
        "ATTEMPT": lambda attempt: str(attempt["attempt"]),
        "NODE": lambda attempt: cell(attempt.get("node")),
        "STARTED": lambda attempt: relative(attempt.get("started_at"), now),
        "FINISHED": lambda attempt: relative(attempt.get("finished_at"), now),
        "RESULT": lambda attempt: screen.colour(
            "green" if attempt["kind"] == "ok" else "red", cell(attempt["kind"])
        ),
        "HTTP": lambda attempt: cell(attempt.get("status_code")),
        "TOOK": lambda attempt: milliseconds(attempt.get("latency_ms")),
        "NEXT": lambda attempt: relative(attempt.get("next_at"), now),
        "HEADERS": lambda attempt: cell(_response_headers(attempt)),
        "RESPONSE": lambda attempt: cell(_response(attempt)),
        "ERROR": lambda attempt: printable(attempt.get("error") or ""),
    }
    attempts = list(attempts)
    optional: dict[str, Callable[[Attempt], object]] = {
        "OCCURRENCE": lambda attempt: attempt.get("occurrence") != attempts[0].get("occurrence"),
        "NODE": lambda attempt: attempt.get("node"),
        "FINISHED": lambda attempt: attempt.get("finished_at"),
        "HEADERS": _response_headers,
        "RESPONSE": _response,
    }
    for name, has in optional.items():
        if not any(map(has, attempts)):
            del columns[name]
    if attempts:
        rows = [tuple(shown(attempt) for shown in columns.values()) for attempt in attempts]
        screen.table(tuple(columns), rows)
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
    if "topic" not in config:
        return None
    key = config.get("key")
    subject = config["topic"] if key is None else f"{config['topic']}.{key}"
    return f"NATS {subject}{' in JetStream' if config.get('jetstream') else ''}"


def _response(outcome: Outcome | Attempt | None) -> str:
    """What was kept of an answer, on one line."""
    return " ".join(((outcome and outcome.get("response")) or "").split())


def _response_headers(outcome: Outcome | Attempt | None) -> str:
    """The headers that were kept of an answer, on one line."""
    kept: Any = (outcome and outcome.get("response_headers")) or {}
    return "; ".join(f"{name}: {value}" for name, value in kept.items())
