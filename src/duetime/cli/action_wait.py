"""Waiting for an action: it goes on by itself, and whoever waits may leave."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from duetime.cli.exits import Exit
from duetime.cli.output import printable
from duetime.cli.progress import Progress
from duetime.cli.show_actions import progress_of
from duetime.cli.watch import patiently
from duetime.client import Client
from duetime.client.action_types import Action
from duetime.clock import SystemClock

AnswerT = TypeVar("AnswerT")
OnChange = Callable[[Action], None]


def wait_for(
    client: Client, action: Action, seconds: float, on_change: OnChange | None = None
) -> Action:
    """The action when it has ended; how far it is, is told on standard error meanwhile."""
    id_ = str(action.get("id"))
    progress = Progress(SystemClock())
    try:
        with _heard_at_once():
            while action.get("state") == "running":
                progress.tell(printable(progress_of(action)))
                time.sleep(seconds)
                before, action = action, _beside(lambda: _look(client, id_, seconds))
                if on_change is not None and action != before:
                    on_change(action)
    except KeyboardInterrupt:
        shown = printable(id_)
        progress.say(
            f"The action goes on. `duetime action watch {shown}` waits for it again, "
            f"`duetime action cancel {shown}` stops it."
        )
        raise
    progress.end()
    return action


def exit_of(action: Action) -> Exit:
    """Whether all was done that was asked for."""
    return Exit.OK if action.get("state") == "done" and not action.get("failed") else Exit.FAILED


def _look(client: Client, id_: str, seconds: float) -> Action:
    return patiently(lambda: client.get_action(id_), seconds)


@contextmanager
def _heard_at_once() -> Iterator[None]:
    """Have Ctrl-C as an exception, because there is something left to say; see ``calling``."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _beside(ask: Callable[[], AnswerT]) -> AnswerT:
    """Ask in a thread: Python hears no signal while its main thread waits for the HTTP library."""
    answer: Future[AnswerT] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return answer.result()
