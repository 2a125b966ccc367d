"""Progress: what is running and how far it is, in one line that replaces itself."""

import sys
import time


class Progress:
    """Tells on standard error; where that is no terminal, a line every few seconds."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._every = 0.1 if self._is_terminal else 5.0
        self._task = ""
        self._total = 0
        self._shown_at = 0.0

    def begin(self, task: str, total: int = 0) -> None:
        """A new task begins."""
        self._task, self._total = task, total
        self._show(task)

    def at(self, done: int) -> None:
        """So much of it is done."""
        if time.monotonic() - self._shown_at >= self._every:
            of = f" of {self._total:,}" if self._total else ""
            self._show(f"{self._task}: {done:,}{of}")

    def say(self, text: str) -> None:
        """Say something that stays."""
        self.end()
        print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line free for what comes."""
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _show(self, text: str) -> None:
        self._shown_at = time.monotonic()
        if self._is_terminal:
            print(f"\r\x1b[K{text[:118]}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)
