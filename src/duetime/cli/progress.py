"""Progress: how far a command has come, in one line that replaces itself."""

import sys

from duetime.clock import Clock


class Progress:
    """Tells on standard error; where that is no terminal, a line every few seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_terminal = sys.stderr.isatty()
        self._every = 0.1 if self._is_terminal else 5.0
        self._task = ("", "")  # what is done, and to what
        self._first = (0.0, 0)  # when the task began, and how much was done by then
        self._shown_at = clock.monotonic()

    def at(self, task: str, count: int, things: str = "timers") -> None:
        """So many timers, or other things, have been dealt with."""
        now = self._clock.monotonic()
        if (task, things) != self._task:
            self._task, self._first = (task, things), (now, count)
        begun_at, before = self._first
        rate = (count - before) / (now - begun_at) if now > begun_at else 0
        self.tell(f"{task} {count:,} {things}" + (f", {rate:,.0f} a second" if rate else ""))

    def tell(self, text: str) -> None:
        """How it stands, unless that was told just now."""
        now = self._clock.monotonic()
        if now - self._shown_at >= self._every:
            self._shown_at = now
            self._show(text)

    def say(self, sentence: str) -> None:
        """A line that stays."""
        self.end()
        print(sentence, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line free for what comes."""
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _show(self, text: str) -> None:
        if self._is_terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)
