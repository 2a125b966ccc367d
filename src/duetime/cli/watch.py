"""Watching: one timer until it is finished, or the list again and again."""

import sys
import time
from collections.abc import Callable
from typing import TypeVar

from duetime.cli.exits import Exit
from duetime.cli.output import Screen, printable, relative
from duetime.cli.show import retry_of, show_timers
from duetime.client import Client, ServiceError, ServiceUnreachable
from duetime.client.types import Filters, Timer
from duetime.clock import SystemClock, to_rfc3339
from duetime.durations import parse_duration
from duetime.timer import FINISHED

AnswerT = TypeVar("AnswerT")

_TRY_AGAIN = {429, 503}
_SHORTEST = 0.05  # seconds: a watcher must not be a load


def watch_timer(client: Client, screen: Screen, id_: str, interval: str, *, as_json: bool) -> Exit:
    """Print each change of a timer that is seen; end when it is finished."""
    seconds = seconds_of(interval)
    timer = client.get(id_)  # a first look that fails is told at once
    seen: object = None
    while True:
        version = timer.get("version"), timer.get("updated_at"), timer["status"]
        if (state := (*version, timer.get("waiting_for"))) != seen:
            seen = state
            if as_json:
                screen.json(timer, on_one_line=True)
            else:
                screen.line(_change(screen, timer))
        if timer["status"] in FINISHED:
            return Exit.OK if timer["status"] == "completed" else Exit.FAILED
        time.sleep(seconds)
        timer = patiently(lambda: client.get(id_), seconds)


def watch_list(
    client: Client, screen: Screen, filters: Filters, interval: str, *, as_json: bool
) -> Exit:
    """Show the list, and show it again in its place, until somebody stops it."""
    seconds = seconds_of(interval)
    page = client.page(**filters)
    while True:
        if as_json:
            screen.json(page, on_one_line=True)
        else:
            now = SystemClock().now()
            if screen.is_terminal:
                screen.clear()
            screen.line(screen.colour("dim", f"{to_rfc3339(now)}  Ctrl-C to stop"))
            show_timers(screen, page["timers"], now)
        time.sleep(seconds)
        page = patiently(lambda: client.page(**filters), seconds)


def _change(screen: Screen, timer: Timer) -> str:
    now = SystemClock().now()
    text = f"{to_rfc3339(now)}  {screen.status(timer['status'])}"
    if timer["status"] not in FINISHED:
        retry = retry_of(timer, now)
        due = f"due {relative(timer.get('execute_at'), now)}"
        text += f"  attempt {retry}" if retry else f"  {due}"
    if reason := timer.get("waiting_for"):
        text += f"  {printable(reason)}"
    elif error := timer.get("last_error"):
        text += f"  {printable(error)}"
    return text


def patiently(ask: Callable[[], AnswerT], seconds: float) -> AnswerT:
    """Ask until there is an answer: a service that restarts is no reason to stop watching."""
    is_told = False
    while True:
        try:
            return ask()
        except ServiceUnreachable as error:
            why, pause = str(error), 0.0
        except ServiceError as error:
            if error.status not in _TRY_AGAIN:
                raise
            why, pause = error.message, error.retry_after or 0.0
        if not is_told:
            print(f"duetime: {printable(why)}; trying again", file=sys.stderr)
            is_told = True
        time.sleep(max(seconds, pause, 1.0))


def seconds_of(interval: str) -> float:
    return max(parse_duration(interval) / 1000, _SHORTEST)
