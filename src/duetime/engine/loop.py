"""A loop runs one part's step over and over, sleeps between passes, and outlives their failures.

A step does one pass and returns how many seconds later the next is wanted. Anything that it
raises is logged here, once for as long as it goes on, and the step is tried again. So no step
sleeps, and one that catches a failure of the store raises it again. While a node stops there is
no loop left to try again: its last tries are in the parts that make them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from duetime.clock import Clock
from duetime.errors import StoreError

Step: TypeAlias = Callable[[], Awaitable[float]]

log = logging.getLogger("duetime.engine")

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class Trouble:
    """What the loops of one engine say of failures: once when they begin, once when they end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}

    def began(self, part: str, error: Exception) -> None:
        """A step of this part has failed."""
        is_first = not self._since
        if part in self._since:
            return
        self._since[part] = self._clock.monotonic()
        if not isinstance(error, StoreError):
            log.error("%s failed and will be tried again", part, exc_info=error)
        elif is_first:
            log.error(
                "the store is failing: %s; nothing is lost, due timers wait until it is back",
                error,
            )

    def ended(self, part: str) -> None:
        """A step of this part has succeeded."""
        since = self._since.pop(part, None)
        if since is not None and not self._since:
            seconds = self._clock.monotonic() - since
            log.info("all is well again after %.1f s; late timers are being started", seconds)


class Loop:
    """Runs one part of the engine.

    It is made before the part, so that others can be given its ``wake``.
    """

    def __init__(
        self,
        part: str,
        clock: Clock,
        trouble: Trouble,
        *,
        then: Callable[[], None] = lambda: None,
        longest_pause: float = LONGEST_PAUSE,
    ) -> None:
        self.part = part
        self._clock = clock
        self._trouble = trouble
        self._then = then  # called after every pass that went well
        self._longest_pause = longest_pause  # after failures
        self._woken = asyncio.Event()
        self._stopping = asyncio.Event()
        self.ended = asyncio.Event()
        self.ended.set()
        self._next_pass_by = clock.monotonic()

    def wake(self) -> None:
        """Ask for a pass now."""
        self._woken.set()

    def stop(self) -> None:
        """Make no further pass after the one under way."""
        self._stopping.set()
        self._woken.set()

    def is_late_by(self) -> float:
        """For how many seconds the next pass has been overdue."""
        return self._clock.monotonic() - self._next_pass_by

    async def run(self, step: Step) -> None:
        """Make passes until told to stop."""
        self.ended.clear()
        try:
            await self._run(step)
        finally:
            self.ended.set()

    async def _run(self, step: Step) -> None:
        failures = 0
        while not self._stopping.is_set():
            self._woken.clear()
            try:
                pause = await step()
            except Exception as error:  # noqa: BLE001 - a part must outlive whatever goes wrong in it
                self._trouble.began(self.part, error)
                pause = min(FIRST_PAUSE * 2**failures, self._longest_pause)
                failures = min(failures + 1, 10)
            else:
                self._then()
                self._trouble.ended(self.part)
                failures = 0
            self._next_pass_by = self._clock.monotonic() + pause
            # After a failure nothing but a stop cuts the pause short: wakes come all the same.
            await self._clock.wait(self._stopping if failures else self._woken, pause)
