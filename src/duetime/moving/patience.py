"""Patience: a store that fails for a moment is asked again, for a move may take hours.

All that a move asks for can be asked twice: reads change nothing, and timers are inserted by their
ids.
"""

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from duetime.clock import Clock, sleep
from duetime.errors import StoreUnavailable

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)  # seconds between two tries

P = ParamSpec("P")
T = TypeVar("T")


class Patience:
    """Asks again, and says so, until it has waited for a minute."""

    def __init__(self, side: str, clock: Clock, say: Callable[[str], None]) -> None:
        self._side = side
        self._clock = clock
        self._say = say

    async def ask(
        self, question: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The answer; the last StoreUnavailable if there is none to be had."""
        for pause in PAUSES:
            try:
                return await question(*args, **kwargs)
            except StoreUnavailable as error:
                self._say(f"{self._side}: {error}; trying again in {pause:g} s")
            await sleep(self._clock, pause)
        return await question(*args, **kwargs)
